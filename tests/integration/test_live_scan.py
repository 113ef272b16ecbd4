"""Scans of the real broker's tier with the live rest: the records of Kafka's plain consumer, and exact ends."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_remote_client.fallback import BrokerReadError, TierUnavailableError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import plain
from tests.support.scanned import rows_of
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker

ISOLATION = ("read_committed", "read_uncommitted")


def table(broker: KafkaBroker, topic: str, url: str | None = None, **more: Any) -> TableScan:
    return scan(url or broker.store_url, topic, broker={"bootstrap.servers": broker.bootstrap_servers}, **more)


def offsets_and_values(found: TableScan) -> list[tuple[int, bytes | None, int]]:
    names = ("offset", "key", "timestamp")
    return [tuple(row[name] for name in names) for row in rows_of(found.select(*names).to_arrow())]


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_live_scan_of_transactions_equals_the_plain_consumer(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, isolation: str, tmp_path: Path
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, isolation)
    wanted = [(offset, key, stamp[1]) for offset, stamp, _epoch, key, *_ in expected]
    live = table(kafka_broker, topic, live=True, isolation_level=isolation)
    assert offsets_and_values(live) == wanted
    assert live.count() == len(wanted)
    with live.open() as opened:
        end = opened.plan.ends[TopicPartition(topic, 0)]
        read = sum(len(batch) for batch in opened.stream())
        metrics = opened.metrics()
    assert read == len(wanted)
    assert metrics["remote-fetch-fallbacks-total"] == {}
    local = sum(1 for offset, *_ in wanted if offset > transactional_topic.offsets.latest_tiered)
    assert local <= metrics["broker-fetch-records-total"] < len(wanted)
    assert end > wanted[-1][0]
    assert plain(kafka_broker, topic, isolation, end) == []
    facts = transactional_topic
    seams = (facts.deleted_before, facts.local_abort_first, facts.offsets.latest_tiered, facts.open_first, facts.local_abort)
    for start, stop in pairwise(sorted({0, *seams, *(seam + 1 for seam in seams), end, end + 5})):
        part = table(kafka_broker, topic, live=True, isolation_level=isolation, start_offset=start, end_offset=stop)
        assert offsets_and_values(part) == [one for one in wanted if start <= one[0] < stop]
    result = live.to_parquet(tmp_path)
    assert (result.rows, result.ends) == (len(wanted), {TopicPartition(topic, 0): end})


@pytest.mark.parametrize("isolation", ISOLATION)
def test_the_broker_gives_the_records_that_a_damaged_tier_cannot(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, isolation: str, tmp_path: Path
) -> None:
    topic = transactional_topic.topic
    kafka_broker.copy_of_tier(topic, tmp_path)
    for log in sorted(tmp_path.rglob("*.log"))[2:]:
        content = bytearray(log.read_bytes())
        content[len(content) // 2] ^= 1
        log.write_bytes(content)
    wanted = [offset for offset, *_ in plain(kafka_broker, topic, isolation)]
    reading: dict[str, Any] = {"live": True, "isolation_level": isolation, "columns": ["offset"]}
    found = table(kafka_broker, topic, tmp_path.as_uri(), **reading, on_fallback="broker")
    assert [row["offset"] for row in rows_of(found.to_arrow())] == wanted
    assert found.count() == len(wanted)
    with pytest.raises(TierUnavailableError):
        table(kafka_broker, topic, tmp_path.as_uri(), **reading).to_arrow()


def test_records_of_another_topic_of_the_same_name_are_refused(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic
) -> None:
    topic = transactional_topic.topic
    with table(kafka_broker, topic, live=True).open() as opened:
        split = opened.plan.splits[-1]
        assert opened._brokers is not None
        opened._brokers.knows_topic(topic, UUID(int=7))
        with pytest.raises(BrokerReadError, match=r"INCONSISTENT_TOPIC_ID"):
            list(opened.blocks(split))
