"""Versions of confluent-kafka other than the pinned one, each in a separate directory below ``.cache``.

::

    .cache/confluent-kafka/<version>/    the first entry of the path
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.artifacts import CACHE, ROOT, file_lock, run_or_missing

__all__ = ["installed", "lowest", "newest", "pinned"]

_HOME = CACHE / "confluent-kafka"
_NAME = "confluent-kafka"
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def pinned() -> str:
    """The version of all other tests."""
    (version,) = re.findall(rf"^{_NAME}==(\S+)$", (ROOT / ".ci" / "constraints.txt").read_text(), re.MULTILINE)
    return str(version)


def lowest() -> str:
    """The oldest version that pyproject.toml admits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (one for one in map(Requirement, project["dependencies"]) if one.name == _NAME)
    (bound,) = (one for one in requirement.specifier if one.operator == ">=")
    release = [*Version(bound.version).release, 0, 0][:3]
    return ".".join(map(str, release))


def newest() -> str:
    """Returns the newest released version. Raises CalledProcessError if the registry cannot be reached."""
    asked = subprocess.run([*_PIP, "index", "versions", _NAME], capture_output=True, text=True, check=True, timeout=120)
    (version,) = re.findall(rf"^{_NAME} \((\S+)\)", asked.stdout, re.MULTILINE)
    return str(version)


def installed(version: str) -> Path:
    """Returns the directory with it, downloaded once. Raises MissingPartError if pip fails."""
    target = _HOME / version
    _HOME.mkdir(parents=True, exist_ok=True)
    with file_lock(_HOME / "lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=_HOME) as made:
                place = Path(made) / "installed"
                run_or_missing(
                    [*_PIP, "install", "--no-deps", f"--target={place}", f"{_NAME}=={version}"], "pip cannot fetch it"
                )
                place.rename(target)
    return target
