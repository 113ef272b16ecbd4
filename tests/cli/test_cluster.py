"""``kafka-remote cluster`` as a user starts it: what it prints is pasted (tests/docs/test_examples.py pastes the documents)."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_remote_client.cli.cluster import (
    ClusterOutput,
    CopiedSegment,
    JsonOutput,
    Places,
    SegmentEvents,
    TextOutput,
    paste_blocks,
)
from kafka_remote_client.cli.main import run
from tests.docs.documents import Block, blocks
from tests.support.cli_run import failed
from tests.support.ports import HOST, free_ports
from tests.support.started_cluster import MODULE, Running, running

pytestmark = pytest.mark.embedded

_FROM_STORE = re.compile(r"^(\d+) records came from the store$", re.MULTILINE)
_SEGMENT = re.compile(r"orders-(\d): offsets (\d+) to (\d+), (\d+) bytes: tiered, gone from the broker")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("cluster") / "tier") as started:
        yield started


def run_python(text: str) -> None:
    """Runs a block and asserts that records came from the store."""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    counted = _FROM_STORE.search(done.stdout)
    assert counted is not None, done.stdout[-500:]
    assert int(counted[1]) > 0, done.stderr


def run_shell(text: str) -> None:
    """Runs the commands of a block; each names the topic in its output."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            command = line.replace("kafka-remote", f"{sys.executable} -m kafka_remote_client", 1)
            done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stderr
            assert "orders" in done.stdout


def readme(language: str) -> list[Block]:
    return [block for block in blocks(language) if block.document == Path("README.md")]


def test_each_segment_of_the_tier_was_reported(cluster: Running) -> None:
    reported = sorted(int(size) for *_, size in _SEGMENT.findall(cluster.printed))
    assert reported == cluster.sizes
    assert len(reported) >= 8
    assert all(len(line) <= 80 for line in cluster.printed.splitlines() if line.startswith("orders-"))


def test_printed_python_block_reads_from_the_store(cluster: Running) -> None:
    run_python(cluster.pasted("Python: swap the import"))


@pytest.mark.parametrize("heading", ["Shell: ask the cluster", "Shell: read the tier"])
def test_printed_shell_blocks_work(cluster: Running, heading: str) -> None:
    run_shell(cluster.pasted(heading))


def test_produced_records_are_tiered_too(cluster: Running) -> None:
    producer = Producer({"bootstrap.servers": f"localhost:{cluster.places.broker_port}", "log_level": 0})
    for number in range(30):
        producer.produce("payments", b"x" * 20_000, partition=0)
        if number % 10 == 9:
            assert producer.flush(60) == 0  # a segment ends between batches
    assert cluster.process.stdout is not None
    assert "payments-0: offsets 0 to " in cluster.process.stdout.readline()


def test_shim_of_the_readme_grants_in_front_of_the_cluster(tmp_path: Path) -> None:
    (serve,) = (
        line.removeprefix("$ ")
        for block in readme("console")
        for line in block.text.splitlines()
        if line.startswith("$ kafka-remote shim")
    )
    (block,) = readme("python")
    with running(tmp_path / "tier", "--no-shim") as started:
        assert cluster_command(started) == cluster_command(started, serve)
        command = [*MODULE, *started.in_place(serve).split()[1:]]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as shim:
            try:
                assert shim.stderr is not None
                assert any("clients connect to" in line for line in shim.stderr)
                run_python(started.in_place(block.text))
                shim.send_signal(signal.SIGTERM)
                assert shim.wait(60) == 0
            finally:
                shim.kill()


def cluster_command(started: Running, line: str = "") -> set[str]:
    """The words of the shim's command: as it was printed, or ``line`` of the documents."""
    return set((started.in_place(line) or started.pasted("Shell: put the shim").splitlines()[1]).split())


def test_blocks_name_the_documented_addresses_by_default() -> None:
    text = "\n".join(paste_blocks(Places(Path("/tmp/kafka-tier"), shim=False)))
    assert all(address in text for address in ("localhost:9092", "localhost:9192", "localhost:9193", "file:///tmp/kafka-tier"))


def test_directory_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").touch()
    assert failed(capsys, "cluster", "--directory", str(tmp_path)) == (
        f"kafka-remote: --directory: {tmp_path} is not empty; remove it, or give another directory\n",
        2,
    )
    text, status = failed(capsys, "cluster", "--directory", str(tmp_path / "mine"))
    assert (text, status) == (f"kafka-remote: --directory: {tmp_path / 'mine'}: Not a directory\n", 2)
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize("taken", ["--port", "--origin-port"])
def test_taken_port_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], taken: str) -> None:
    ports = dict(zip(("--port", "--shim-port", "--origin-port"), map(str, free_ports(3)), strict=True))
    with socket.create_server((HOST, int(ports[taken]))):
        given = [word for pair in ports.items() for word in pair]
        text, status = failed(capfd, "cluster", "--directory", str(tmp_path / "tier"), *given)
    assert "ddress already in use" in text
    assert text.endswith(f"the cluster needs ports {', '.join(ports.values())} of localhost; give other ports\n")
    assert status == 2
    assert not (tmp_path / "tier").exists()


def test_other_events_of_the_tier_are_not_reported() -> None:
    copied: list[CopiedSegment] = []
    SegmentEvents(copied.append)(object())
    assert copied == []


def test_json_names_each_segment_and_the_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    output = JsonOutput()
    output.copied(CopiedSegment("orders", 2, 0, 99, 4096))
    output.ready(Places(Path("/tmp/kafka-tier")), 20_000)
    output.ready(Places(Path("/tmp/kafka-tier"), shim=False), 1_000)
    segment, ready, alone = map(json.loads, capsys.readouterr().out.splitlines())
    assert segment == {
        "copied": {"topic": "orders", "partition": 2, "start_offset": 0, "end_offset": 99, "size_in_bytes": 4096}
    }
    assert ready == {
        "ready": {
            "topic": "orders",
            "records": 20_000,
            "bootstrap_servers": "localhost:9092",
            "shim_bootstrap_servers": "localhost:9192",
            "origin_url": "http://localhost:9193",
            "store": "file:///tmp/kafka-tier",
            "layout": "local-tiered-storage",
        }
    }
    assert (alone["ready"]["shim_bootstrap_servers"], alone["ready"]["origin_url"]) == (None, None)


@pytest.mark.parametrize(("output", "kind"), [("text", TextOutput), ("json", JsonOutput)])
def test_the_option_chooses_the_output(output: str, kind: type[ClusterOutput], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[object] = []
    monkeypatch.setattr("kafka_remote_client.cli.cluster.run_cluster", lambda *arguments: chosen.append(arguments[3]))
    with pytest.raises(SystemExit) as stopped:
        run(["cluster", "--output", output])
    assert not stopped.value.code
    assert [type(one) for one in chosen] == [kind]
