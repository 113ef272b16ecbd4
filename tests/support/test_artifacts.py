"""A missing part is reported as such, and no process continues to build it. A copied checkout builds with its own paths."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support import artifacts, kernel_build
from tests.support.artifacts import MissingPartError, class_archive, run_or_missing
from tests.support.processes import is_running
from tests.support.waiting import wait_until

_STARTS_A_CHILD = """
import pathlib, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
signal.pause()
"""


def test_slow_command_is_a_missing_part_and_ends_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    with pytest.raises(MissingPartError, match=r"cannot build it: not done after 1\.5 s"):
        run_or_missing([sys.executable, "-c", _STARTS_A_CHILD, str(child)], "cannot build it", seconds=1.5)
    wait_until(lambda: not is_running(int(child.read_text())), "the child to end")


def test_failing_command_is_a_missing_part_with_its_last_output() -> None:
    with pytest.raises(MissingPartError, match="cannot build it: no compiler"):
        run_or_missing([sys.executable, "-c", "raise SystemExit('no compiler')"], "cannot build it")


def test_command_gets_the_given_environment() -> None:
    program = "import os; raise SystemExit(os.environ['ONLY'])"
    with pytest.raises(MissingPartError, match="it: this"):
        run_or_missing([sys.executable, "-c", program], "it", environment={"ONLY": "this"})


def test_class_archive_of_a_copied_checkout_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java uses an archive only for the paths of the jars with which it was made."""
    monkeypatch.setattr(artifacts, "java", lambda: "java")
    monkeypatch.setattr(artifacts, "_version_text", lambda _: "17")
    names = set()
    for checkout in ("original", "copy"):
        monkeypatch.setattr(artifacts, "our_classes", lambda of=tmp_path / checkout: of / "classes.jar")
        monkeypatch.setattr(artifacts, "kafka_jars", lambda of=tmp_path / checkout: of / "jars")
        names.add(class_archive().name)
    assert len(names) == 2


def test_kernel_of_a_copied_checkout_is_built_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler writes the paths of the sources into it, by which gcov names them."""
    places = set()
    for checkout in ("original", "copy"):
        monkeypatch.setattr(kernel_build, "SOURCES", shutil.copytree(kernel_build.SOURCES, tmp_path / checkout))
        places.add(kernel_build.build_directory(["-O0"], tmp_path))
    assert len(places) == 2
