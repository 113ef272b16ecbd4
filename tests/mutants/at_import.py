"""Runs pytest in a process where a module has another text from the start: ``python -m tests.mutants.at_import MODULE FILE …``.

For a bug that cannot reach functions that are already imported: one in a table, in a class's attributes, or in values computed
when the module is imported. It takes seconds, so it runs only for those, and for bugs that would survive otherwise.
"""

from __future__ import annotations

import importlib.machinery
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

__all__ = ["judged_at_import"]

_ROOT = Path(__file__).resolve().parents[2]


class _Edited(importlib.machinery.SourceFileLoader, MetaPathFinder):
    """Finds and loads one module with the text of a file."""

    def __init__(self, module: str, text: Path) -> None:
        super().__init__(module, "")
        self._text = text.read_text(encoding="utf-8")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        self.path = spec.origin
        spec.loader = self
        return spec

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self._text, self.path, "exec")


def judged_at_import(module: str, text: str, options: Sequence[str], paths: Sequence[str]) -> str | None:
    """Runs pytest in processes where ``module`` has this text. Returns the first test that fails, and fails again alone.

    Returns ``None`` if there is none. If pytest fails before it runs a test, all of the paths run again.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-remote-mutant-") as folder:
        edited = Path(folder, "edited.py")
        edited.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", __name__, module, str(edited), "--exitfirst", *options]
        passed: list[str] = []
        while failed := _first_failed([*command, *passed, *paths]):
            alone = [failed] if "::" in failed else paths
            if _first_failed([*command, *alone]):
                return failed
            passed += [f"--deselect={test}" for test in alone]
    return None


def _first_failed(command: Sequence[str]) -> str:
    """Returns the first failed test, or how pytest ended if no test failed; nothing if all pass."""
    done = subprocess.run(command, cwd=_ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return ""
    failed = [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].partition(" - ")[0] if failed else f"pytest ended with status {done.returncode}"


if __name__ == "__main__":
    sys.meta_path.insert(0, _Edited(sys.argv[1], Path(sys.argv[2])))
    sys.exit(pytest.main(sys.argv[3:]))
