"""A process that answers each line of its standard input with a line, and ends with it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ROOT", "AskedProcess"]

ROOT = Path(__file__).resolve().parents[2]


class AskedProcess:
    """Runs ``command`` in the root of the tree until :meth:`stop`. What it prints by itself is read by :meth:`line`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: str) -> str:
        """The answer to one line. Raises RuntimeError when the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self.line()

    def line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} has ended")
        return line

    def stop(self) -> None:
        self._process.communicate(timeout=60)
