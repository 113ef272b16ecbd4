"""``map``, ``bench`` and ``cost`` as a user runs them, on an embedded cluster and on golden tiers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import filled_cluster
from tests.support.golden import golden_aiven, golden_local
from tests.support.ports import HOST, free_ports

pytestmark = pytest.mark.embedded

cluster = filled_cluster("orders", 300, (0, 1))

MAP = """\
partition  kind       start  end  bytes  what
        0  log-start      0    -      -  -
        0  remote         0   59   3208  SSSSSSSSSSSSSSSSSSSSSS
        0  remote        60  119   3366  SSSSSSSSSSSSSSSSSSSSSS
        0  remote       120  179   3437  SSSSSSSSSSSSSSSSSSSSSS
        0  remote       180  239   3489  SSSSSSSSSSSSSSSSSSSSSS
        0  local        240  299      -  -
        1  log-start      0    -      -  -
        1  remote         0   59   3208  SSSSSSSSSSSSSSSSSSSSSS
        1  remote        60  119   3366  SSSSSSSSSSSSSSSSSSSSSS
        1  remote       120  179   3437  SSSSSSSSSSSSSSSSSSSSSS
        1  remote       180  239   3489  SSSSSSSSSSSSSSSSSSSSSS
        1  local        240  299      -  -
        2  log-start      0    -      -  -
        3  log-start      0    -      -  -
orders: partitions 4; remote 8 (27,240 bytes stored), local 2; <$0.0001 a month,
<$0.0001 to read what is remote once
"""
COST = """\
epochs                  direct    broker
GETs                        13        13
bytes from the store   481,300   481,300
bytes to the reader    481,300   481,300
requests              <$0.0001  <$0.0001
retrieval              $0.0000   $0.0000
transfer               $0.0000  <$0.0001
total                 <$0.0001  <$0.0001
seconds                    0.5         -
advice  A GET has 37,023 bytes on average: its latency and price dominate. Read
        more at a time, or through the broker.
"""
BILL = """\
disks only    12,960,000 GB, $1,036,800 a month
with a tier   $322,704 a month
on disks      432,000 GB, $34,560 a month
in the store  12,528,000 GB, $288,144 a month
"""
SEGMENT_ID = re.compile(r"[\w-]{22}")


def without_ids(text: str) -> str:
    """The text with each segment id replaced, because they are random, and without blanks at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in SEGMENT_ID.sub("S" * 22, text).splitlines())


def test_map_with_brokers_is_a_table(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["map", "orders", "--store", cluster.directory.as_uri(), "--bootstrap-servers", cluster.bootstrap_servers]
    assert without_ids(printed(capsys, *asked)) == MAP


def test_map_of_a_store_alone_has_no_local_part(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "map", "orders", "--store", cluster.directory.as_uri(), "--output", "json")
    parts = [json.loads(line) for line in text.splitlines()]
    assert {part["kind"] for part in parts} == {"remote"}
    assert set(parts[0]) == {
        "topic",
        "partition",
        "kind",
        "start_offset",
        "end_offset",
        "segment_id",
        "bytes",
        "stored_bytes",
        "month_dollars",
        "read_dollars",
        "note",
    }


def test_page_replaces_a_file_and_leaves_no_other(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "orders.html"
    page.write_text("before")
    printed(capsys, "map", "orders", "--store", cluster.directory.as_uri(), "--html", str(page))
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [page]


def test_page_that_cannot_be_written_is_an_error(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["map", "orders", "--store", cluster.directory.as_uri(), "--html", str(tmp_path / "none" / "orders.html")])
    assert ended.value.code == 2
    assert "none/orders.html cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["delrce"], "found no segments of delrce; the store has LocalTieredStorage segments"),
        (["delrec", "--storage-class", "cold"], "unknown storage class 'cold'; known classes: deep-archive, glacier"),
        (["delrec", "--topic-id", "x"], "--topic-id: a Kafka Uuid has 22 characters, not 1"),
        (["delrec", "--layout", "avien"], "unknown layout 'avien'"),
        (["delrec", "--prices", "/none.toml"], "--prices: /none.toml cannot be read: No such file or directory"),
    ],
)
def test_wrong_use_of_map_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    told, status = failed(capsys, "map", *arguments, "--store", (golden_local() / "remote").as_uri())
    assert text in told
    assert status == 2


def test_cost_of_a_topic_id_that_the_store_does_not_have_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    tier = (golden_local() / "remote").as_uri()
    told, status = failed(capsys, "cost", "delrec", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--store", tier)
    assert "--topic-id: the store has no segments of delrec with the topic id AAAAAAAAAAAAAAAAAAAAAQ; it has topic id " in told
    assert status == 2
    known = told.rsplit(" ", 1)[1].strip()
    assert "direct" in printed(capsys, "cost", "delrec", "--topic-id", known, "--store", tier)


def test_bench_has_a_line_for_each_combination(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "orders", "--store", cluster.directory.as_uri(), "--seconds", "0.5"]
    asked += ["--range-bytes", "1000", "--range-bytes", "9000", "--concurrency", "1", "--concurrency", "3"]
    asked += ["--bootstrap-servers", cluster.broker_bootstrap_servers]
    lines = [json.loads(line) for line in printed(capsys, *asked, "--output", "json").splitlines()]
    combinations = [("store", 1000, 1), ("store", 1000, 3), ("store", 9000, 1), ("store", 9000, 3), ("broker", None, 1)]
    assert [(line["path"], line["range_bytes"], line["concurrency"]) for line in lines] == combinations
    for line in lines:
        assert line["bytes"] > 0
        assert line["seconds"] < 10
    for line in lines[:-1]:
        assert 0 < line["bytes"] <= line["gets"] * line["range_bytes"]
        assert line["p50_ms"] <= line["p99_ms"]
    rows = printed(capsys, *asked).splitlines()
    assert rows[0].split() == ["topic", "path", "range", "at", "once", "GETs", "MB/s", "first", "ms", "p50", "ms", "p99", "ms"]
    assert len(rows) == 1 + len(combinations)


def test_bench_reads_encrypted_segments_without_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    store = (golden_aiven("aiven-zstd-aes") / "remote").as_uri()
    asked = ["bench", "txn", "--store", store, "--layout", "aiven", "--key-prefix", "some-prefix/", "--seconds", "0.1"]
    (line,) = printed(capsys, *asked, "--range-bytes", "5000", "--concurrency", "1", "--output", "json").splitlines()
    assert json.loads(line)["bytes"] > 0


def test_bench_of_an_unknown_topic_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    text, status = failed(capsys, "bench", "delrce", "--store", (golden_local() / "remote").as_uri())
    assert "found no segments of delrce; the store has LocalTieredStorage segments" in text
    assert status == 2


def test_bench_of_silent_brokers_ends_at_its_deadline(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    asked = ["bench", "orders", "--store", cluster.directory.as_uri(), "--seconds", "0.1", "--timeout", "0.5"]
    text, status = failed(capsys, *asked, "--bootstrap-servers", f"{HOST}:{port}")
    assert "timed out after 0.5 s without a record from the brokers; raise --timeout" in text
    assert status == 1


def test_cost_of_both_paths_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    store = (golden_local() / "remote").as_uri()
    asked = ["cost", "epochs", "--store", store, "--reader", "other-zone", "--megabytes-per-second", "1"]
    assert printed(capsys, *asked) == COST
    direct, broker, advised = map(json.loads, printed(capsys, *asked, "--output", "json").splitlines())
    assert (direct["path"], broker["path"]) == ("direct", "broker")
    assert direct["dollars"] == direct["requests_dollars"]
    assert broker["dollars"] == broker["requests_dollars"] + broker["transfer_dollars"]
    assert (direct["seconds"], broker["seconds"]) == (direct["sent_bytes"] / 1e6, None)
    assert len(advised["advice"]) == 1


def test_prices_of_a_file_are_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(printed(capsys, "cost", "--print-prices").replace("0.0004", "4000000.0"))
    store = (golden_local() / "remote").as_uri()
    text = printed(capsys, "cost", "epochs", "--store", store, "--prices", str(tmp_path / "prices.toml"), "--output", "json")
    direct = json.loads(text.splitlines()[0])
    assert direct["requests_dollars"] == direct["gets"] * 4000.0


def test_bill_of_the_worked_example_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cost", "--write-megabytes-per-second", "5000", "--retention-days", "30", "--local-days", "1"]
    assert printed(capsys, *asked) == BILL
    bill = json.loads(printed(capsys, *asked, "--output", "json"))
    assert bill["all_bytes"] == bill["local_bytes"] + bill["remote_bytes"] == 12_960_000_000_000_000


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give a TOPIC and --store, or --write-megabytes-per-second"),
        (["delrce", "--store", "{store}"], "found no segments of topic delrce"),
        (["delrec", "--store", "{store}", "--storage-class", "cold"], "unknown storage class 'cold'"),
        (["delrec", "--store", "{store}", "--reader", "moon"], "'moon' is not one of"),
        (["--write-megabytes-per-second", "1", "--prices", "{store}"], "cannot be read"),
    ],
)
def test_wrong_use_of_cost_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    store = (golden_local() / "remote").as_uri()
    told, status = failed(capsys, "cost", *(argument.format(store=store) for argument in arguments))
    assert text in told
    assert status == 2
