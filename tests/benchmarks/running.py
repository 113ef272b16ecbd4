"""Processes and machine data of benchmarks over a real broker."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from kafka_remote_client.testing import FixedLatency, StoreModel
from tests.support.asked_process import ROOT, AskedProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.live_store import text_of_model

__all__ = ["ROOT", "OriginCounts", "SessionCpu", "ShimProcess", "cpu_seconds", "finish", "machine"]

_TICKS = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class OriginCounts:
    """The answers of a shim's object origin since its start."""

    requests: int
    bytes_sent: int


class ShimProcess(AskedProcess):
    """The shim of tests/benchmarks/shim_process.py; ``settings`` are further ones of ShimConfig.

    ``store``: another one than the broker's directory; its URLs lead to ``store_host``, and its latency is not the shim's.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        *,
        store: str | None = None,
        store_host: str = "",
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.shim_process", broker.bootstrap_servers, store or broker.store_url]
        command += [json.dumps(settings)]
        super().__init__(command, {**os.environ, **(environment or {})})
        told = json.loads(self.line())
        self.bootstrap_servers: str = told["bootstrap"]
        self.origin_host: str = store_host or urlsplit(told["origin"]).netloc
        self._model = StoreModel()

    def set_latency(self, milliseconds: int) -> None:
        self.behave_like(StoreModel(FixedLatency(milliseconds / 1000)))

    def behave_like(self, model: StoreModel) -> None:
        """Sets the store model of the origin and of the shim's own reads."""
        self._model = model
        self.counts()

    def counts(self) -> OriginCounts:
        return OriginCounts(**json.loads(self.ask(text_of_model(self._model))))


def cpu_seconds(process: int) -> float:
    """CPU seconds of a process so far, with those of the children that it has waited for."""
    return sum(map(int, _stat(process)[11:15])) / _TICKS


class SessionCpu:
    """CPU seconds of all processes of a session, those that ended included. A thread looks for them every 20 ms.

    The kernel adds the time of a process that ends to its parent's only if that waits for it. Python workers of Spark have
    parents that do not.
    """

    def __init__(self, session: int) -> None:
        self._session = str(session)
        self._ticks: dict[tuple[str, str], int] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def seconds(self) -> float:
        """The CPU seconds of its processes so far."""
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / _TICKS

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            with self._lock:
                self._look()

    def _look(self) -> None:
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    fields = _stat(directory.name)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if fields[3] == self._session:
                    self._ticks[directory.name, fields[19]] = int(fields[11]) + int(fields[12])


def _stat(process: int | str) -> list[str]:
    """The fields of proc(5)'s stat behind the command."""
    return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()


def machine(*packages: str) -> dict[str, object]:
    """The commit, the machine, and the versions of ``packages``."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


IMPURE = "cells did not measure their side and have no ratio"


def finish(report: Mapping[str, object], file: Path | None, failures: int, what: str = IMPURE) -> int:
    """Writes the report to ``file``, or prints it. Returns the exit status: 1 for failures. ``what`` they are, in words."""
    text = json.dumps(report, indent=1)
    if file:
        file.write_text(text + "\n")
    else:
        print(text)
    if failures:
        print(f"{failures} {what}", file=sys.stderr)
    return int(bool(failures))
