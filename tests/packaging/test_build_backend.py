"""The build backend, and the wheels that a release consists of."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.packaging.tree import ROOT

_README = (ROOT / "README.md").read_text()
_RELATIVE = re.compile(r"\]\((?!https?://)")


def _run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def _index_page(text: str, source: str | None) -> str:
    """Asks a process: the backend is imported by its name in a directory of its own."""
    call = f"index_page({text!r}, {source!r}, '1.2')"
    done = _run(f"import sys; sys.path.insert(0, '.ci'); from build_backend import index_page; print({call})")
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


def test_links_become_text_on_an_index_page_without_a_source_url() -> None:
    assert _RELATIVE.search(_README)
    page = _index_page(_README, None)
    assert not _RELATIVE.search(page)
    assert page.count("](https://") == _README.count("](https://") > 1
    assert (
        _index_page("See [a `b`](docs/b.md#c) and [d](https://d.example/).", None) == "See a `b` and [d](https://d.example/)."
    )


def test_links_become_absolute_on_an_index_page_with_a_source_url() -> None:
    expected = "See [a](https://git.example/p/blob/v1.2/docs/b.md#c)."
    assert _index_page("See [a](docs/b.md#c).", "https://git.example/p/") == expected


@pytest.mark.parametrize(
    ("statement", "error"),
    [("sys.path.insert(0, '.ci'); import build_backend", "RuntimeError"), ("import kafka_remote_client", "ImportError")],
)
def test_windows_is_refused_with_the_reason(statement: str, error: str) -> None:
    done = _run(f"import sys; import setuptools.build_meta; sys.platform = 'win32'; {statement}")
    assert done.returncode == 1
    reason = "kafka-remote-client does not support Windows: use Linux, macOS, or the Windows Subsystem for Linux"
    assert done.stderr.splitlines()[-1] == f"{error}: {reason}"


@pytest.mark.parametrize(
    ("platform", "tags"),
    [("linux", {"manylinux_x86_64", "manylinux_aarch64"}), ("macos", {"macosx_x86_64", "macosx_arm64"}), ("windows", set())],
)
def test_a_release_has_wheels_for_each_supported_python(platform: str, tags: set[str]) -> None:
    command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", "--platform", platform, str(ROOT)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    found: dict[str, set[str]] = {}
    for identifier in listed:
        python, tag = identifier.split("-")
        assert tag in tags
        found.setdefault(python, set()).add(tag)
    assert set(found) == ({"cp311", "cp312", "cp313", "cp314", "cp314t"} if tags else set())
    assert platform != "macos" or all(each == tags for each in found.values())
