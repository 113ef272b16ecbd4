"""A standalone Spark cluster on loopback: a master and workers with separate addresses, started with ``spark-class``.

Addresses differ (127.0.0.1, 127.0.0.2, …) because Spark never runs a speculative twin on the host of the first attempt. The
daemons have PySpark on their PYTHONPATH, instead of a Spark distribution's own, and nothing of this tree.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.artifacts import java
from tests.support.ports import HOST, free_ports
from tests.support.processes import is_running
from tests.support.spark import java_variables, pyspark_home
from tests.support.waiting import wait_until

__all__ = ["StandaloneCluster", "alive_workers"]

_KEEPER = Path(__file__).with_name("keeper.py")


class StandaloneCluster:
    """Runs from construction on, in ``directory``. A stop, or the end of this process, removes everything.

    ``modules``: what Python processes of executors find besides PySpark.
    """

    def __init__(self, version: str, directory: Path, *, workers: int = 2, modules: Sequence[Path] = ()) -> None:
        """Raises MissingPartError if Java or PySpark is missing, TimeoutError when it does not come up."""
        java()
        self._home = pyspark_home(version)
        self._modules = modules
        self.directory = directory
        port, self._page = free_ports(2)
        self.master = f"spark://{HOST}:{port}"
        self._daemons: list[int] = []
        self._workers: list[int] = []
        try:
            self._start(HOST, "master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(self._page))
            for number in range(1, workers + 1):
                place = "--work-dir", str(directory / f"worker-{number}"), "--cores", "4", "--memory", "4g"
                host = f"127.0.0.{number}"
                self._workers.append(
                    self._start(host, "worker.Worker", "--host", host, "--port", "0", "--webui-port", "0", *place, self.master)
                )
            wait_until(lambda: self._alive() == workers, f"workers to be known to the master (see {directory})")
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def executors(self) -> list[int]:
        """The processes of executors that run."""
        return [pid for pid in _descendants(self._workers) if b"CoarseGrainedExecutorBackend" in _command(pid)]

    def pythons(self) -> set[str]:
        """The interpreters that executors run tasks with, as they were started."""
        commands = [_command(pid).decode().split("\0") for pid in _descendants(self._workers)]
        return {command[0] for command in commands if "pyspark.daemon" in command}

    def logs(self) -> dict[Path, str]:
        """What executors and their Python processes printed."""
        files = [path for name in ("stdout", "stderr") for path in self.directory.glob(f"worker-*/app-*/*/{name}")]
        return {path: path.read_text(errors="replace") for path in sorted(files)}

    def stop(self) -> None:
        """Ends the daemons and their child processes."""
        ours = [*_descendants(self._daemons), *self._daemons]
        for pid in reversed(self._daemons):
            _signal(pid, signal.SIGTERM)
        try:
            wait_until(lambda: not any(map(is_running, ours)), "the cluster to end", seconds=20)
        except TimeoutError:
            for pid in ours:
                _signal(pid, signal.SIGKILL)
            wait_until(lambda: not any(map(is_running, ours)), "the cluster to be gone")
        self._daemons = []

    def _start(self, host: str, name: str, *arguments: str) -> int:
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG") if name in os.environ},
            **java_variables(),  # executors inherit it
            "SPARK_HOME": str(self._home / "deps"),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "PYTHONPATH": ":".join(map(str, [self._home, *self._modules])),
        }
        command = [str(self._home / "deps" / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        with (self.directory / f"{name}-{len(self._daemons)}.log").open("wb") as log:
            keeping = subprocess.Popen(
                [sys.executable, str(_KEEPER), str(os.getpid()), str(self.directory), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
                env=environment,
            )
        self._daemons.append(int(keeping.communicate(timeout=60)[0]))
        return self._daemons[-1]

    def _alive(self) -> int:
        if not all(map(is_running, self._daemons)):
            raise RuntimeError(f"a daemon ended: {[path.read_text()[-2000:] for path in self.directory.glob('*.log')]}")
        try:
            return alive_workers(urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=60).read())
        except OSError:
            return 0


def alive_workers(answer: bytes) -> int:
    """The number in the master's answer to ``/json/``.

    0 for its web page: the server runs before its handlers are added, and that of ``/`` is added first (``WebUI.bind``).
    """
    try:
        state: dict[str, Any] = json.loads(answer)
    except ValueError:
        return 0
    return int(state["aliveworkers"])


def _command(pid: int) -> bytes:
    """Its command line; empty when it has ended, or is about to run another program."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _descendants(pids: Sequence[int]) -> list[int]:
    """All processes that those started, children first, as long as their parents live."""
    children: dict[int, list[int]] = {}
    for found in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(found.read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(found.parent.name))
    direct = [child for pid in pids for child in children.get(pid, ())]
    return [*_descendants(direct), *direct] if direct else []


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
