"""A batch is damaged in the store and at the broker: the partition stops with an error, and continues after a seek."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.faults.streams import Stream, mixed_segments, write_stream
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Row,
    Take,
    by_consume,
    by_poll,
    direct_settings,
    fallbacks,
    plain_rows,
    read_to_ends,
    row,
)

_TOPIC = "damaged"
_SEGMENT, _BATCH = 1, 0


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCluster, Stream, dict[str, list[Row]]]]:
    """A cluster whose store and broker have the same damaged batch, and the records before it."""
    directory = tmp_path_factory.mktemp("tier")
    with EmbeddedCluster(directory, range_bytes=1_500, max_grant_bytes=6_000, expire_local=True) as cluster:
        stream = write_stream(cluster, _TOPIC, mixed_segments(0))
        isolations = ("read_committed", "read_uncommitted")
        sound = {isolation: plain_rows(cluster, _TOPIC, isolation_level=isolation) for isolation in isolations}
        key = stream.keys[_SEGMENT]
        log = bytearray(stream.logs[key])
        log[100] ^= 1
        (Path(directory) / key).write_bytes(log)
        yield cluster, stream, sound


def until_error(consumer: Consumer, take: Take) -> tuple[list[Row], Message]:
    rows: list[Row] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while not deadline.expired():
        for message in take(consumer):
            if message.error() is not None:
                return rows, message
            rows.append(row(message))
    raise AssertionError(f"no error after {len(rows)} records")


@pytest.mark.fault("F30", "F44")
@pytest.mark.parametrize("take", [by_poll, by_consume])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_error_has_topic_partition_offset_and_segment(
    damaged: tuple[EmbeddedCluster, Stream, dict[str, list[Row]]],
    isolation: str,
    take: Take,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, stream, sound = damaged
    expected = sound[isolation]
    settings = direct_settings(cluster, isolation_level=isolation, check_crcs=True, fetch_remote_fallback_backoff_ms=100)
    with caplog.at_level(logging.ERROR), Consumer(settings) as consumer:
        consumer.assign([TopicPartition(_TOPIC, 0, 0)])
        rows, message = until_error(consumer, take)
        assert rows == expected[: len(rows)]
        error, stopped = message.error(), message.offset()
        assert error is not None
        assert stopped is not None
        assert error.code() == KafkaError._BAD_MSG
        assert all(r[2] < stopped for r in rows)
        segment = stream.keys[_SEGMENT].rpartition("/")[2][21:].removesuffix(".log")  # after twenty digits and a dash
        assert f"{_TOPIC} [0] is damaged at offset {stopped} in both tiers" in error.str()
        assert segment in error.str()
        assert error.str() in caplog.text
        for _ in range(5):  # and the position does not change
            assert [m for m in [consumer.poll(0.1)] if m is not None] == []
            assert consumer.consume(10, 0.1) == []
        consumer.resume([TopicPartition(_TOPIC, 0)])  # tries again
        again, message = until_error(consumer, take)
        assert not again
        assert message.offset() == stopped
        beyond = next(r[2] for r in expected if r[2] >= stopped + 8)
        consumer.seek(TopicPartition(_TOPIC, 0, beyond))
        assert read_to_ends(consumer, take)[_TOPIC, 0] == [r for r in expected if r[2] >= beyond]
        assert fallbacks(consumer)["corrupt"] >= 1
