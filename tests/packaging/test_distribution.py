"""The wheel and the sdist have the required files, and the wheel works in a clean environment."""

from __future__ import annotations

import os
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

# One worker builds, and all these tests use the result.
pytestmark = pytest.mark.xdist_group("distribution")


@attrs.frozen
class _Built:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> _Built:
    """Builds both distributions, the wheel from the sdist, in a copy of the tree without files that git does not track."""
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


def test_the_wheel_has_packages_types_and_licence_and_no_tests(built: _Built) -> None:
    packages = {"kafka_remote_client", "kafka_remote_fetchers", "pyspark_kafka_remote"}
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    assert {str(path).removeprefix("fetchers/") for path in source_modules()} <= names
    assert {f"{package}/py.typed" for package in packages} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == packages


def test_the_wheel_names_its_extras_and_licence(built: _Built) -> None:
    metadata = HeaderParser().parsestr(_read(built.wheel, "METADATA"))
    assert {"aiven", "all", "arrow", "cli", "shim", "tls"} <= set(metadata.get_all("Provides-Extra", []))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_wheel_declares_the_command_and_the_fetchers(built: _Built) -> None:
    declared = _read(built.wheel, "entry_points.txt")
    assert "kafka-remote = kafka_remote_client.cli.main:run" in declared
    assert "[kafka_remote_client.fetchers]" in declared
    assert "presigned = kafka_remote_fetchers.presigned:PresignedFetcher" in declared


def test_the_sdist_has_everything_that_builds_the_wheel(built: _Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", *map(str, source_modules())} <= names


def test_the_wheel_works_in_a_clean_environment(built: _Built, tmp_path: Path) -> None:
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


def test_the_wheel_has_the_compiled_decoder(built: _Built) -> None:
    """A build succeeds without a compiler and with a broken source too: only this test notices."""
    with zipfile.ZipFile(built.wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.startswith("kafka_remote_client/records/_kernel.") and name.endswith(".so")]


def test_the_sdist_has_all_sources_of_the_compiled_decoder(built: _Built) -> None:
    sources = {
        str(path) for path in tracked_files() if path.parts[0] != "tests" and path.suffix in {".pyx", ".pxi", ".pyi", ".h"}
    }
    assert len(sources) >= 8
    with tarfile.open(built.sdist) as archive:
        assert sources <= {name.partition("/")[2] for name in archive.getnames()}


_DEMO = """
import logging, tempfile
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
from kafka_remote_client.cli.demo import run_demo
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
sizes = dict.fromkeys(("segment_bytes", "range_bytes"), 64 << 10)
with tempfile.TemporaryDirectory() as directory, EmbeddedCluster(directory, **sizes, expire_local=True) as cluster:
    print(run_demo(cluster, records=5000, fault=None, clock=SystemClock()).worked)
"""


def test_an_sdist_without_a_compiler_runs_in_python_and_logs_it_once(built: _Built, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=120)
    python = str(environment / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"{built.sdist}[cli,shim]"]
    no_compiler = {"CC": "/bin/false", "CXX": "/bin/false", "PIP_CONSTRAINT": str(ROOT / ".ci" / "constraints.txt")}
    subprocess.run(
        install, check=True, capture_output=True, timeout=240, stdin=subprocess.DEVNULL, env=os.environ | no_compiler
    )
    assert not list(environment.rglob("_kernel*.so"))
    ran = subprocess.run([python, "-I", "-c", _DEMO], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert ran.stdout == "True\n", ran.stderr
    assert ran.stderr.count("compiled record kernel is not installed") == 1
