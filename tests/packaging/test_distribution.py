"""What a user installs: the wheel and the sdist hold what they must, and the wheel works in a clean environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import attrs
import pytest

from tests.packaging.tree import ROOT, source_modules, tracked_files

# One worker builds and all these tests use what it built.
pytestmark = pytest.mark.xdist_group("distribution")


@attrs.frozen
class _Built:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> _Built:
    """Both distributions, the wheel made from the sdist, in a copy of the tree without what git does not know."""
    tree = tmp_path_factory.mktemp("tree")
    for path in tracked_files():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tree / path)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tree / "dist"), str(tree)]
    subprocess.run(command, check=True, capture_output=True, timeout=240, stdin=subprocess.DEVNULL)
    (wheel,) = (tree / "dist").glob("*.whl")
    (sdist,) = (tree / "dist").glob("*.tar.gz")
    return _Built(wheel, sdist)


def _read(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name).decode()


def test_wheel_holds_both_packages_their_types_and_the_licence_and_no_tests(built: _Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    assert {str(path) for path in source_modules()} <= names
    assert {"kafka_remote_client/py.typed", "fetchers/py.typed"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"kafka_remote_client", "fetchers"}


def test_wheel_names_its_extras_and_licence(built: _Built) -> None:
    metadata = HeaderParser().parsestr(_read(built.wheel, "METADATA"))
    assert {"all", "arrow", "cli", "s3", "shim"} <= set(metadata.get_all("Provides-Extra", []))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"


def test_wheel_declares_the_command_and_the_fetchers(built: _Built) -> None:
    declared = _read(built.wheel, "entry_points.txt")
    assert "kafka-remote = kafka_remote_client.cli.main:run" in declared
    assert "[kafka_remote_client.fetchers]" in declared
    assert "presigned = fetchers.presigned:PresignedFetcher" in declared


def test_sdist_holds_what_the_wheel_is_built_from(built: _Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", *map(str, source_modules())} <= names


def test_wheel_works_in_a_clean_environment(built: _Built, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    constraints = ["--constraint", str(ROOT / ".ci" / "constraints.txt")]
    install = [str(python), "-m", "pip", "install", "--quiet", *constraints, f"{built.wheel}[cli,shim]"]
    subprocess.run(install, check=True, capture_output=True, timeout=240, stdin=subprocess.DEVNULL)
    shown = subprocess.run(
        [str(environment / "bin" / "kafka-remote"), "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=tmp_path,
    )
    for verb in ("demo", "dump", "ls", "shim"):
        assert verb in shown.stdout
    program = "import kafka_remote_client as k; print(k.Consumer.__name__, k.RemoteReader.__name__)"
    said = subprocess.run(
        [str(python), "-I", "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert said.stdout == "Consumer RemoteReader\n"
