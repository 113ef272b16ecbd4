"""Every way to a tier gives the plain consumer's records: a table of layouts, stores, location sources and fetchers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.aiven_tier import MODES, AivenTier
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, Row, direct, plain, read_to_end, total
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker

ISOLATION = ("read_committed", "read_uncommitted")
PATIENT = {f"fetch.remote.{what}.timeout.ms": 60_000 for what in ("location", "read", "connect")} | {
    "fetch.remote.range.bytes": 64 << 10
}
"""Nothing falls back to the broker because the machine is busy; and the larger segments take several ranges."""


@attrs.frozen
class Cell:
    """One way to the records of the transactional topic."""

    mode: str
    isolation: str
    source: str = "shim"
    store: str = "disk"
    fetcher: str = "presigned"

    def __str__(self) -> str:
        return "-".join((self.mode, self.source, self.store, self.fetcher, self.isolation.removeprefix("read_")))


CELLS = [Cell(mode, isolation) for mode in MODES for isolation in ISOLATION]


@pytest.fixture(scope="module")
def expected(
    running_broker: KafkaBroker, transactional_topic: TransactionalTopic, wide_topic: str
) -> Callable[[str], dict[str, list[Row]]]:
    """What the plain consumer reads of each topic, by isolation level."""
    known: dict[str, dict[str, list[Row]]] = {}

    def read(isolation: str) -> dict[str, list[Row]]:
        if isolation not in known:
            topics = (transactional_topic.topic, wide_topic)
            known[isolation] = {topic: plain(running_broker, topic, isolation) for topic in topics}
        return known[isolation]

    return read


@contextmanager
def shim_of(broker: KafkaBroker, tier: AivenTier, **more: Any) -> Iterator[Shim]:
    config = ShimConfig(
        bootstrap_servers=broker.bootstrap_servers,
        store=tier.store_url,
        layout="aiven",
        key_prefix=tier.prefix,
        encryption_keys=tier.encryption_keys,
        metadata_topic=tier.metadata_topic,
        **{"allow_plaintext_data_keys": True, **more},
    )
    with Shim(config) as shim:
        assert shim.wait_ready(PATIENCE_SECONDS)
        yield shim


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_records_are_those_of_the_plain_consumer(
    kafka_broker: KafkaBroker,
    aiven_tier: Callable[[str], AivenTier],
    expected: Callable[[str], dict[str, list[Row]]],
    cell: Cell,
) -> None:
    wanted = expected(cell.isolation)
    below = 0
    for topic, rows in wanted.items():
        local = kafka_broker.offsets(topic).earliest_local
        tiered = sum(1 for offset, *_ in rows if offset < local)
        assert tiered > 800
        below += tiered
    with shim_of(kafka_broker, aiven_tier(cell.mode)) as shim, Consumer(direct(shim, cell.isolation, **PATIENT)) as consumer:
        for topic, rows in wanted.items():
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            assert read_to_end(consumer) == rows
        metrics = consumer.metrics()
        granted = shim.metrics()
    assert metrics["remote-fetch-fallbacks-total"] == {}
    assert total(metrics, "remote-fetch-records-total") >= below
    assert granted["ranges_granted"] > granted["locations_granted"]


def test_the_heuristic_compresses_some_segments_and_not_others(aiven_tier: Callable[[str], AivenTier]) -> None:
    objects = aiven_tier("zstd-heuristic").objects()
    manifests = [json.loads(data) for key, data in objects if key.endswith(".rsm-manifest")]
    assert {manifest["compression"] for manifest in manifests} == {False, True}
