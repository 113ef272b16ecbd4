from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import filled_cluster
from tests.support.golden import golden_local, read_jsonl
from tests.support.ports import HOST

pytestmark = pytest.mark.embedded

cluster = filled_cluster("orders", 300, (0,))

REMOTE = """\
offset       orders-0 at 100
tier         remote
segment      {segment_id}
its offsets  60 to 119
bytes        0 to {segment_bytes} of {segment_bytes}
next offset  120
aborted      none
local copy   no
"""
LOCAL = """\
offset      orders-0 at 250
tier        broker
reason      not-granted: the shim grants no location: the offset is not tiered,
            or its topic may not be read directly
local copy  yes
"""
BEYOND = """\
offset  orders-0 at 300
tier    none
reason  out-of-range: the log holds offsets 0 to 299
"""


def located(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, "locate", *arguments, "--output", "json"))
    return found


def test_tiered_offset_has_a_segment_and_bytes(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["orders", "0", "100", "--bootstrap-servers", cluster.bootstrap_servers]
    found = located(capsys, *asked)
    (path,) = cluster.directory.rglob(f"*{found['segment_id']}.log")
    assert found == {
        "topic": "orders",
        "partition": 0,
        "offset": 100,
        "tier": "remote",
        "reason": None,
        "explanation": None,
        "local": False,
        "segment_id": found["segment_id"],
        "segment_start_offset": 60,
        "segment_end_offset": 119,
        "segment_bytes": path.stat().st_size,
        "start_position": 0,
        "end_position": path.stat().st_size,
        "next_offset": 120,
        "aborted_transactions": [],
    }
    assert printed(capsys, "locate", *asked) == REMOTE.format_map(found)


def test_store_alone_gives_the_same_location(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    by_broker = located(capsys, "orders", "0", "100", "--bootstrap-servers", cluster.bootstrap_servers)
    assert located(capsys, "orders", "0", "100", "--store", cluster.directory.as_uri()) == by_broker


@pytest.mark.parametrize(("offset", "text"), [("250", LOCAL), ("300", BEYOND)])
def test_offset_that_is_not_tiered_has_a_reason(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], offset: str, text: str
) -> None:
    assert printed(capsys, "locate", "orders", "0", offset, "--bootstrap-servers", cluster.bootstrap_servers) == text


def test_empty_log_has_no_offset(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    found = located(capsys, "orders", "3", "0", "--bootstrap-servers", cluster.bootstrap_servers)
    assert (found["tier"], found["explanation"]) == ("none", "the log is empty")


def test_time_is_the_first_record_at_or_after_it(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (["--bootstrap-servers", cluster.bootstrap_servers], ["--store", cluster.directory.as_uri()]):
        assert located(capsys, "orders", "0", "2020-01-01", *place)["offset"] == 0
        assert failed(capsys, "locate", "orders", "0", "@99999999999999", *place) == (
            "kafka-remote: orders-0 has no record at or after @99999999999999\n",
            2,
        )


def test_aborted_transactions_are_those_that_a_consumer_drops(capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", (golden_local() / "remote").as_uri()]
    visible = {line["offset"] for line in read_jsonl(golden_local() / "expected" / "txn-0.read_committed.jsonl.gz")}
    found = located(capsys, "txn", "0", "0", *store)
    aborted: list[list[int]] = []
    while found["tier"] == "remote" and not aborted:
        aborted = found["aborted_transactions"]
        found = located(capsys, "txn", "0", str(found["next_offset"]), *store)
    assert aborted
    assert not {first for _, first in aborted} & visible


def test_partition_without_segments_is_named(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    found = located(capsys, "orders", "9", "0", "--store", cluster.directory.as_uri())
    assert (found["tier"], found["reason"]) == ("none", "unknown-partition")


def test_unknown_topic_names_the_options_and_has_status_2(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    told, status = failed(capsys, "locate", "typo", "0", "0", "--store", cluster.directory.as_uri())
    assert "found no segments of topic typo; the store has LocalTieredStorage segments" in told
    assert "(--layout local-tiered-storage)" in told
    assert status == 2


def test_plain_broker_is_not_the_shim(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    broker = cluster.broker_bootstrap_servers
    text, status = failed(capsys, "locate", "orders", "0", "1", "--bootstrap-servers", broker)
    assert f"not-announced: {broker} does not announce direct fetch" in text
    assert status == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["0", "1"], "give either --bootstrap-servers or --store"),
        (["0", "1", "--store", "file:///", "--bootstrap-servers", f"{HOST}:1"], "give either --bootstrap-servers or --store"),
        (["0", "1969-12-31", "--bootstrap-servers", f"{HOST}:1"], "OFFSET|TIME must be 1970 or later"),
        (["0", "noon", "--bootstrap-servers", f"{HOST}:1"], "OFFSET|TIME is not a time in ISO 8601: 'noon'"),
        (["zero", "1", "--bootstrap-servers", f"{HOST}:1"], "Invalid value for 'PARTITION'"),
        (["0", "1", "--bootstrap-servers", f"{HOST}:1", "--consumer", "fetch.remote.retires=1"], "fetch.remote.retries"),
        (["0", "1", "--bootstrap-servers", f"{HOST}:1", "--consumer", "ssl.ca=x"], "No such configuration property"),
    ],
)
def test_wrong_use_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    told, status = failed(capsys, "locate", "orders", *arguments)
    assert text in told
    assert status == 2


def test_offset_with_thousands_of_digits_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    store = (golden_local() / "remote").as_uri()
    text, status = failed(capsys, "locate", "epochs", "0", "9" * 5_000, "--store", store)
    assert text == "kafka-remote: OFFSET has 5000 digits; the highest offset is 9223372036854775807\n"
    assert status == 2
