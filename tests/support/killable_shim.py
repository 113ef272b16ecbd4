"""The ``kafka-remote shim`` command in a separate process that tests kill, pause and restart at the same addresses."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ports import HOST, free_ports
from tests.support.waiting import wait_until

__all__ = ["KillableShim"]

_RUN = "import kafka_remote_client as p; print(p.__file__, flush=True); from kafka_remote_client.cli.main import run; run()"
_COMMAND = [sys.executable, "-P", "-c", _RUN, "shim"]
_NODES = 3
_PATIENCE_SECONDS = 120.0


class KillableShim:
    """A context manager: entering starts it, leaving kills it. Its ports stay the same for all its ``lives``.

    ``log`` is its output file, whose first line is the path of the package. ``options`` are further arguments of the command,
    ``environment`` is that of another version (tests/support/old_client.py).
    """

    def __init__(
        self, cluster: KafkaBroker | KafkaCluster, log: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        bootstrap, *_, origin = free_ports(_NODES + 2)  # the brokers' own listeners are between the two
        self.bootstrap_servers = f"{HOST}:{bootstrap}"
        self.origin = f"{HOST}:{origin}"
        self.log = log
        self.lives = 0
        self._ports = (bootstrap, origin)
        self._command = [
            *_COMMAND,
            *("--bootstrap-servers", cluster.bootstrap_servers, "--listen", self.bootstrap_servers),
            *("--node-port-base", str(bootstrap), "--origin-listen", self.origin, "--store", cluster.store_url),
            *("--metadata-consumer", "log_level=0", *options),
        ]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it takes connections; it may not know its tier yet."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment,
            )
        self.lives += 1
        wait_until(self._listens, f"the shim to listen (see {self.log})", seconds=_PATIENCE_SECONDS)

    def _listens(self) -> bool:
        if not self.running:
            raise RuntimeError(f"the shim ended: {self.log.read_text(errors='replace')[-3000:]}")
        for port in self._ports:
            with contextlib.closing(socket.socket()) as probe:
                if probe.connect_ex((HOST, port)):
                    return False
        return True

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        """SIGSTOP; returns when it has stopped. Until then it may still answer."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self, seconds: float = _PATIENCE_SECONDS) -> int:
        """SIGTERM; returns the exit status when it is gone. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
