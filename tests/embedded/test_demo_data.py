"""The demo's records are the same in every run, and digests show any difference."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kafka_remote_client.embedded import demo_data
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.embedded.demo_data import DemoData, DigestBuilder, PartitionDigest, fill
from kafka_remote_client.errors import LocationError

RECORD: dict[str, Any] = {
    "partition": 0,
    "offset": 5,
    "timestamp_ms": 7,
    "key": b"k",
    "value": b"v",
    "headers": [("name", b"x")],
}


def digest(*records: dict[str, Any]) -> dict[int, PartitionDigest]:
    builder = DigestBuilder()
    for record in records:
        builder.add(**record)
    return builder.result()


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 6},
        {"timestamp_ms": 8},
        {"key": b"K"},
        {"key": None},
        {"key": b""},
        {"value": None},
        {"value": b""},
        {"headers": None},
        {"headers": [("name", None)]},
        {"headers": [("name", b"")]},
        {"headers": [("name", b"x"), ("name", b"x")]},
        {"key": b"kv", "value": b""},
    ],
)
def test_any_difference_changes_the_digest(change: dict[str, Any]) -> None:
    assert digest(RECORD)[0].digest != digest(RECORD | change)[0].digest


def test_no_headers_equal_empty_headers() -> None:
    assert digest(RECORD | {"headers": None}) == digest(RECORD | {"headers": []})


def test_order_counts_within_a_partition_only() -> None:
    one, two, elsewhere = RECORD, RECORD | {"offset": 6}, RECORD | {"partition": 1}
    assert digest(one, two) != digest(two, one)
    assert digest(one, elsewhere) == digest(elsewhere, one)
    assert digest(one, two)[0].records == 2
    assert digest(one, two)[0].bytes == 4


def test_a_message_without_partition_or_offset_has_no_digest() -> None:
    with pytest.raises(ValueError, match="the message has no partition or offset"):
        DigestBuilder().add_message(Message(topic="t", value=b"v"))


def test_headers_may_be_a_dictionary() -> None:
    builder = DigestBuilder()
    builder.add_message(_message(headers={"name": b"x"}))
    assert builder.result() == digest(RECORD)


def _message(**changes: Any) -> Any:
    fields = {"partition": 0, "offset": 5, "timestamp": (1, 7), "key": b"k", "value": b"v", "headers": None} | changes

    class Fake:
        def __getattr__(self, name: str) -> Any:
            return lambda: fields[name]

    return Fake()


def test_records_are_the_same_in_every_run() -> None:
    first, again = (list(islice(demo_data._records(), 2000)) for _ in range(2))
    assert first == again
    sizes = [len(record.value) for record in first]
    assert min(sizes) >= demo_data.MIN_VALUE_BYTES
    assert max(sizes) <= demo_data.MAX_VALUE_BYTES
    assert min(sizes) < 30
    assert max(sizes) > 3000
    assert sum(bool(record.headers) for record in first) == 200


@pytest.mark.embedded
def test_the_digest_read_equals_the_one_written(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, segment_bytes=100_000) as cluster:
        told: list[int] = []
        written = fill(cluster, topic="small", records=4_003, round_records=1_000, progress=told.append)
        assert told == [1000, 2000, 3000, 4000, 4003]
        assert (written.topic, written.records) == ("small", 4_003)
        assert written.bytes > 1_000_000
        assert len(written.partitions) == 4
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
        builder, count = DigestBuilder(), 0
        try:
            consumer.assign([TopicPartition("small", partition, 0) for partition in range(4)])
            while count < 4_003:
                for message in consumer.consume(500, 1.0):
                    builder.add_message(message)
                    count += 1
        finally:
            consumer.close()
        assert builder.result() == written.partitions
        assert any(tmp_path.rglob("*.log"))


class _Producer:
    """A producer that reports a given error, or leaves records in its queue."""

    def __init__(self, error: object, left: int) -> None:
        self._error = error
        self._left = left
        self._reports: list[Any] = []

    def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
        self._reports.append(on_delivery)

    def flush(self, _seconds: float) -> int:
        for report in self._reports:
            report(self._error, _message())
        return self._left


@pytest.mark.parametrize(("error", "left", "kind"), [("broken", 0, KafkaException), (None, 3, LocationError)])
def test_records_that_are_not_delivered_are_an_error(error: object, left: int, kind: type[Exception]) -> None:
    records = list(islice(demo_data._records(), 1))
    with pytest.raises(kind):
        demo_data._produce(_Producer(error, left), "t", 1, records, DigestBuilder())


class _InterruptedProducer(_Producer):
    """As confluent_kafka's, which returns NULL without an exception."""

    def flush(self, seconds: float) -> int:
        super().flush(seconds)
        raise SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")


def test_an_interrupt_that_flush_loses_is_an_interrupt() -> None:
    records = list(islice(demo_data._records(), 1))
    with pytest.raises(KeyboardInterrupt):
        demo_data._produce(_InterruptedProducer(None, 0), "t", 1, records, DigestBuilder())


def test_totals_include_all_partitions() -> None:
    data = DemoData("t", {0: PartitionDigest(2, 10, "a"), 1: PartitionDigest(3, 20, "b")})
    assert (data.records, data.bytes) == (5, 30)
