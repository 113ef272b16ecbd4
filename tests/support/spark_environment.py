"""The executors' environment: built and packed with the commands of docs/spark.md, with a wheel of this tree.

::

    .cache/spark/environment-<digest>/
        environment/           the virtual environment, for the driver
        environment.tar.gz     the same packed, for executors

The digest covers all its inputs. Environments of earlier states of the tree are removed after a day.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from tests.support.artifacts import CACHE, ROOT, file_lock, run_or_missing

__all__ = ["cluster_commands", "packed_environment"]

_HOME = CACHE / "spark"
_PAGE = ROOT / "docs" / "spark.md"
_CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
_PACKAGES = ("kafka_remote_client", "fetchers")
_FILES = ("pyproject.toml", "README.md", "LICENSE", ".ci/build_backend.py")
_DAY_SECONDS = 86_400


def cluster_commands() -> tuple[str, str]:
    """The commands of the page's section "On a cluster": those that pack, those that submit."""
    section = _PAGE.read_text().partition("\n## On a cluster\n")[2].partition("\n## ")[0]
    pack, submit = re.findall(r"^```console\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return _commands(pack), _commands(submit)


def packed_environment() -> Path:
    """Returns the directory with both. Raises MissingPartError if pip cannot download the packages."""
    target = _HOME / f"environment-{_digest()}"
    with file_lock(_HOME / "environment.lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=_HOME) as made:
                _make(Path(made))
                Path(made, "packed").rename(target)
            _remove_older(target)
    return target


def _commands(block: str) -> str:
    return "\n".join(line.removeprefix("$ ") for line in block.splitlines())


def _digest() -> str:
    digest = hashlib.sha256(f"{sys.version}{sys.base_prefix}{cluster_commands()[0]}".encode())
    inputs = [path for package in _PACKAGES for path in sorted((ROOT / package).rglob("*")) if path.suffix != ".pyc"]
    for path in [*inputs, *(ROOT / name for name in _FILES), _CONSTRAINTS]:
        if path.is_file():
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _make(directory: Path) -> None:
    wheel = _wheel(directory)
    packed = directory / "packed"
    packed.mkdir()
    commands = cluster_commands()[0].replace("kafka-remote-client", str(wheel))
    # python3 is this one; the installed packages have the versions of this environment.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {"PATH": path, "PIP_CONSTRAINT": str(_CONSTRAINTS), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
    run_or_missing(
        ["env", "-C", str(packed), *(f"{name}={value}" for name, value in settings.items()), "bash", "-euc", commands],
        "the commands of docs/spark.md fail",
    )


def _wheel(directory: Path) -> Path:
    """Builds a wheel from a copy of the tree, without leftovers of earlier builds."""
    tree = directory / "tree"
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in _FILES:
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    # The record decoder is not compiled again if the tree has it and its C source.
    for built in (ROOT / "kafka_remote_client" / "records").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
        place = tree / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
        seeded = place / built.relative_to(ROOT)
        seeded.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(built, seeded)
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    run_or_missing([*pip, f"--wheel-dir={directory}", str(tree)], "pip cannot build the wheel")
    (wheel,) = directory.glob("*.whl")
    return wheel


def _remove_older(kept: Path) -> None:
    for found in _HOME.glob("environment-*"):
        if found != kept and time.time() - found.stat().st_mtime > _DAY_SECONDS:
            shutil.rmtree(found, ignore_errors=True)


def main() -> None:
    """Makes it."""
    found = packed_environment()
    size = subprocess.run(["du", "-sm", str(found)], capture_output=True, text=True, check=True).stdout.split()[0]
    print(found.relative_to(ROOT), size, "MB")


if __name__ == "__main__":
    main()
