"""S22: each archive that the Makefile installs has a kept hash, and another archive is refused."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.tree import ROOT

_HASHES = ROOT / ".ci" / "hashes"
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
_EXTRAS = _PROJECT["project"]["optional-dependencies"]
_GROUPS = _PROJECT["dependency-groups"]
_ALL = [text for name, texts in _EXTRAS.items() if name not in {"all", "pyspark"} for text in texts]
_REQUIRED = {
    "build": ["pip", *_PROJECT["build-system"]["requires"]],
    "demo": [*_PROJECT["project"]["dependencies"], *_EXTRAS["shim"]],
    "test": [
        *(_PROJECT["project"]["dependencies"] + _ALL),
        *(text for group in ("test", "fuzz", "lint", "build") for text in _GROUPS[group]),
    ],
    "supply": _GROUPS["supply"],
}
_ENTRY = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)(?: ; [^\\\n]+?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")


def _versions(name: str) -> dict[str, str]:
    text = (_HASHES / f"{name}.txt").read_text()
    assert _ENTRY.sub("", text) == "", "an entry has no hash or another form"
    return {canonicalize_name(package): version for package, version, _ in _ENTRY.findall(text)}


def test_s22_there_is_a_list_for_each_installation() -> None:
    lists = {path.stem for path in _HASHES.iterdir()}
    assert lists == set(_REQUIRED) == set(runpy.run_path(str(ROOT / ".ci" / "pins.py"))["SOURCES"])


@pytest.mark.parametrize("name", _REQUIRED)
def test_s22_each_listed_archive_has_a_hash_and_the_pinned_version(name: str) -> None:
    pins = dict(line.split("==") for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines())
    pinned = {canonicalize_name(package): version for package, version in pins.items()}
    listed = _versions(name)
    assert {package: version for package, version in listed.items() if pinned.get(package) != version} == {}
    assert {canonicalize_name(Requirement(text).name) for text in _REQUIRED[name]} <= listed.keys()


def test_s22_the_makefile_installs_lists_with_hashes_and_the_project_only() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.findall(r"^\w+ := .*pip.* install.*$|^\w+ := \$\(PIP\).*$", text, re.MULTILINE) == [
        "INSTALL := $(PIP) install --no-build-isolation --no-deps"
    ]
    assert "INSTALL_LIST := $(INSTALL) --require-hashes --requirement\n" in text
    installs = re.findall(r"^\t\$\((?:INSTALL|PIP|INSTALL_LIST)\) .*$", text, re.MULTILINE)
    lists = [f"\t$(INSTALL_LIST) $(HASHES)/{name}.txt" for name in _REQUIRED]
    assert sorted(installs) == sorted([*lists, *["\t$(INSTALL) --editable ."] * 2])


def test_s22_an_archive_with_another_hash_is_refused(tmp_path: Path) -> None:
    text = (_HASHES / "build.txt").read_text()
    (tmp_path / "build.txt").write_text(re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", text))
    made = tmp_path / "venv" / ".made"
    command = ["make", f"PYTHON={sys.executable}", f"VENV={made.parent}", f"HASHES={tmp_path}", str(made)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not made.exists()
