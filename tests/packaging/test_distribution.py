"""The wheel and the sdist have the required files, and the wheel works in a clean environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import attrs
import pytest

from tests.packaging.tree import ROOT, source_modules, tracked_files
from tests.support.mock_cluster import mock_cluster

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


def _metadata_of_the_sdist(sdist: Path) -> str:
    with tarfile.open(sdist) as archive:
        found = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert found is not None
        return found.read().decode()


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
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} <= set(
        metadata.get_all("Classifier", [])
    )


def test_the_long_description_has_no_relative_links(built: _Built) -> None:
    for text in (_read(built.wheel, "METADATA"), _metadata_of_the_sdist(built.sdist)):
        assert text.count("](https://") > 1
        assert "](docs/" not in text


def test_the_wheel_declares_the_command_and_the_fetchers(built: _Built) -> None:
    declared = _read(built.wheel, "entry_points.txt")
    assert "kafka-remote = kafka_remote_client.cli.main:run" in declared
    assert "[kafka_remote_client.fetchers]" in declared
    assert "presigned = kafka_remote_fetchers.presigned:PresignedFetcher" in declared


def test_the_sdist_has_everything_that_builds_the_wheel(built: _Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", *map(str, source_modules())} <= names


def test_the_sdist_has_documents_and_examples_and_no_tests(built: _Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        (listed,) = (name for name in archive.getnames() if name.endswith("/SOURCES.txt"))
        sources = archive.extractfile(listed)
        assert sources is not None
        listed_sources = set(sources.read().decode().split("\n"))
    assert {str(path) for path in tracked_files() if path.parts[0] in {"docs", "examples"}} <= names & listed_sources
    assert [name for name in names | listed_sources if name.split("/")[0] == "tests" or name.endswith(".pyc")] == []


def _metrics_of_a_shim(command: Path, store: Path) -> str:
    """Starts the installed shim in front of a cluster, and returns its page of metrics."""
    with mock_cluster("orders", [b"one"]) as (host, port):
        options = ["--bootstrap-servers", f"{host}:{port}", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0"]
        started = [str(command), "shim", *options, "--store", store.as_uri()]
        with subprocess.Popen(started, stderr=subprocess.PIPE, text=True, cwd=store) as process:
            assert process.stderr is not None
            try:
                address = next((line for line in process.stderr if "management pages are at" in line), "").split()[-1:]
                assert address, "the shim ended without a management page"
                with urllib.request.urlopen(f"{address[0]}/metrics", timeout=60) as answer:
                    return str(answer.read().decode())
            finally:
                process.terminate()


def test_the_extra_shim_runs_the_shim_in_a_clean_environment(built: _Built, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    constraints = ["--constraint", str(ROOT / ".ci" / "constraints.txt")]
    install = [str(python), "-m", "pip", "install", "--quiet", *constraints, f"{built.wheel}[shim]"]
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
    assert "# TYPE " in _metrics_of_a_shim(environment / "bin" / "kafka-remote", tmp_path)
    program = "import kafka_remote_client as k; print(k.Consumer.__name__, k.RemoteReader.__name__, k.__version__)"
    said = subprocess.run(
        [str(python), "-I", "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert said.stdout == f"Consumer RemoteReader {built.wheel.name.split('-')[1]}\n"


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
from kafka_remote_client.cli.demo_run import run_demo
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
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"{built.sdist}[shim]"]
    no_compiler = {"CC": "/bin/false", "CXX": "/bin/false", "PIP_CONSTRAINT": str(ROOT / ".ci" / "constraints.txt")}
    subprocess.run(
        install, check=True, capture_output=True, timeout=240, stdin=subprocess.DEVNULL, env=os.environ | no_compiler
    )
    assert not list(environment.rglob("_kernel*.so"))
    ran = subprocess.run([python, "-I", "-c", _DEMO], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert ran.stdout == "True\n", ran.stderr
    assert ran.stderr.count("compiled record kernel is not installed") == 1
