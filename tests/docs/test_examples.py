"""Each example of the documents runs against ``kafka-remote cluster``, which a user starts to try them.

Its ports are free ones instead of ``localhost:9092``, ``localhost:9192`` and ``localhost:9193``, its tier stands for
``file:///var/kafka-tier``, too; ``shim.pem`` and ``password`` exist. For ``make`` and ``pip install`` the test checks only that
the names in them exist.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, Block, blocks
from tests.support.certificates import Authority
from tests.support.ports import HOST, free_ports
from tests.support.started_cluster import Running, running

pytestmark = [pytest.mark.embedded, pytest.mark.xdist_group("examples")]

_COMMAND = Path(sys.executable).with_name("kafka-remote")
_FROM_STORE = re.compile(r"^(\d+) records came from the store$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("cluster") / "tier") as started:
        yield started


def _commands() -> list[object]:
    return [
        pytest.param(line.removeprefix("$ "), id=f"{block}-{number}")
        for block in blocks("console")
        for number, line in enumerate(block.text.splitlines())
        if line.startswith("$ ")
    ]


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_a_python_example_runs_and_reads_the_store_if_it_says_so(block: Block, cluster: Running, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "dev", "-c", cluster.in_place(block.text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if "came from the store" in block.text:
        said = _FROM_STORE.search(done.stdout)
        assert said is not None, done.stdout[-500:]
        assert int(said[1]) > 0, f"all records came from the broker: {done.stderr}"


@pytest.mark.parametrize("command", _commands())
def test_a_console_example_runs(command: str, cluster: Running, tmp_path: Path) -> None:
    program, *arguments = shlex.split(cluster.in_place(command))
    if program == "make":
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True, timeout=60)
    elif program == "pip":
        (extras,) = re.findall(r"^kafka-remote-client\[([a-z,0-9]+)\]$", arguments[-1])
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
    elif command == "kafka-remote cluster":
        assert cluster.process.poll() is None
    elif program == "kafka-remote" and arguments[0] == "shim":
        _serves_until_told_to_stop(command, cluster, tmp_path)
    else:
        assert program == "kafka-remote", f"no way to run {command}"
        done = subprocess.run([_COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert ("sound" if arguments[0] == "verify" else "orders") in done.stdout


def _serves_until_told_to_stop(command: str, cluster: Running, directory: Path) -> None:
    (directory / "password").write_text("secret\n")
    Authority().issue().write(directory / "shim.pem", "secret")
    # This shim itself listens, so its two addresses are free ones.
    for stand_in, port in zip(("localhost:9192", "localhost:9193"), free_ports(2), strict=True):
        command = command.replace(stand_in, f"{HOST}:{port}")
    _, *arguments = shlex.split(cluster.in_place(command))
    with subprocess.Popen([_COMMAND, *arguments], stderr=subprocess.PIPE, text=True, cwd=directory) as shim:
        assert shim.stderr is not None
        assert any("clients connect to" in line for line in iter(shim.stderr.readline, "")), "its log ended"
        shim.send_signal(signal.SIGTERM)
        rest = shim.communicate(timeout=60)[1]
    assert shim.returncode == 0, rest
