"""The command ``kafka-remote shim`` in a process of its own: its log line by line, and its management pages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import wait_until

__all__ = ["RunningShim"]

_COMMAND = Path(sys.executable).with_name("kafka-remote")


class RunningShim:
    """Runs until it is told to stop. ``arguments`` are those behind ``kafka-remote shim``; a management listener is added."""

    def __init__(
        self, arguments: Sequence[str], *, variables: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [_COMMAND, "shim", *arguments, "--management-listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(variables or {})},
        )
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        self.bootstrap_servers = self.wait_for_log("clients connect to ").rsplit(" ", 1)[1]
        self.management_url = self.wait_for_log("management pages are at ").rsplit(" ", 1)[1]

    def wait_for_log(self, text: str, *, after: int = 0) -> str:
        """The first line of the log with ``text``, from line ``after`` on; waits for it."""

        def found() -> str | None:
            line = next((line for line in self.lines[after:] if text in line), None)
            if line is None and self.process.poll() is not None and not self._reader.is_alive():
                raise AssertionError(f"the shim ended without {text!r}: {self.lines[-20:]}")
            return line

        return wait_until(found, f"the log to say {text!r}")

    def page(self, name: str) -> tuple[int, str]:
        """Status and text of a management page."""
        try:
            with urllib.request.urlopen(self.management_url + name, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_healthy(self, name: str) -> bool:
        """Whether the page answers 200."""
        return self.page(name)[0] == 200

    def stop(self) -> int:
        """Drains it; its status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self._reader.join(60)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _follow(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.lines.append(line.rstrip("\n"))
