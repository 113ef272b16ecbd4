"""Server programs for the tests, built from source with Go into .cache/: never shipped, never a dependency."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.artifacts import CACHE, MissingPartError, file_lock, run_or_missing

__all__ = ["go_program"]

_BUILD_SECONDS = 1500  # in the background of other tests
_QUICKLY = ("-ldflags=-w", "-gcflags=all=-l -dwarf=false")
"""Without inlining and symbols for debuggers, which take two fifths of the compiler's CPU time."""
_COLLECT_RARELY = "400"
"""GOGC of the compiler: with Go's default of 100, its garbage collector takes a fifth of the CPU time of a build."""


def go_program(module: str, version: str, *, more_to_build: bool = False) -> Path:
    """The program that ``module`` makes, built when it is not there yet. Raises MissingPartError when it cannot be built.

    ``more_to_build``: keeps sources and objects, because the next program shares many of them; otherwise deletes these
    gigabytes.
    """
    target = CACHE / "go" / version / module.rpartition("/")[2]
    with file_lock(CACHE / "go.lock"):
        if not target.exists():
            go = shutil.which("go")
            if go is None:
                raise MissingPartError("go is not on PATH")
            environment = {**os.environ, "GOBIN": str(target.parent), "GOPATH": str(CACHE / "go" / "path")}
            # A checkout with a read-only module cache could not be deleted.
            environment |= {"GOCACHE": str(CACHE / "go" / "build"), "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}
            environment |= {"GOGC": _COLLECT_RARELY}
            command = [go, "install", *_QUICKLY, f"{module}@{version}"]
            run_or_missing(command, f"go cannot build {module}", seconds=_BUILD_SECONDS, environment=environment)
        if not more_to_build:
            for leftover in ("path", "build"):
                shutil.rmtree(CACHE / "go" / leftover, ignore_errors=True)
    return target
