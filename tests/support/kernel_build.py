"""Builds of the record kernel that are not the installed one: with sanitizers, with counters for coverage.

As a pytest plugin (``-p tests.support.kernel_build``) it replaces the installed kernel by the build in ``KERNEL_FILE``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

__all__ = ["ROOT", "SOURCES", "build", "build_directory", "put_in_place", "pytest_load_initial_conftests"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "kafka_remote_client" / "records"
MODULE = "kafka_remote_client.records._kernel"


class _OtherKernel:
    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, os.environ["KERNEL_FILE"]) if name == MODULE else None


def put_in_place() -> None:
    """Uses the kernel in ``KERNEL_FILE`` from now on, if it is set. Call this before anything imports the kernel."""
    if "KERNEL_FILE" in os.environ:
        assert MODULE not in sys.modules
        sys.meta_path.insert(0, _OtherKernel())


def build(flags: list[str], directory: Path) -> Path:
    """Builds the kernel with ``flags`` below ``directory``, once for the same sources and flags; returns the module's file."""
    place = build_directory(flags, directory)
    place.mkdir(parents=True, exist_ok=True)
    target = place / f"_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            source = place / "_kernel.c"
            cython = [sys.executable, "-m", "cython", "-3", str(SOURCES / "_kernel.pyx"), "-o", str(source)]
            subprocess.run(cython, check=True)
            include = [f"-I{sysconfig.get_paths()['include']}", f"-I{SOURCES}"]
            # two steps: gcc names its notes for gcov after the object
            compile_ = ["gcc", *flags, "-fPIC", *include, "-c", source.name, "-o", "_kernel.o"]
            subprocess.run(compile_, check=True, cwd=place)
            unfinished = target.with_suffix(".unfinished")
            subprocess.run(["gcc", *flags, "-shared", "_kernel.o", "-o", unfinished.name], check=True, cwd=place)
            unfinished.rename(target)
    return target


def build_directory(flags: list[str], directory: Path) -> Path:
    """Returns the place below ``directory`` of the build of these sources with ``flags``.

    It depends on the path of the sources, which the compiler writes into the build.
    """
    inputs = sorted(path for path in SOURCES.iterdir() if path.suffix in {".pyx", ".pxi", ".h"})
    settings = repr((flags, str(SOURCES))).encode()
    digest = hashlib.sha256(b"".join([settings, *(path.read_bytes() for path in inputs)])).hexdigest()
    return directory / f"kernel-{digest[:16]}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Runs before a conftest imports the kernel."""
    put_in_place()
