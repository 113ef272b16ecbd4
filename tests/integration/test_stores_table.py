"""Every way to a tier gives the plain consumer's records: a table of layouts, location sources, stores and fetchers.

A cell is a row of ``CELLS``. Each reads two topics in the same mode of Aiven's layout: one with everything that makes
read_committed hard, and one with segments of several ranges.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from tests.support.aiven_tier import MODES, AivenTier, aiven_shim
from tests.support.fetcher_settings import of_its_fetcher
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENT, Row, plain, read_to_end, settings, total
from tests.support.s3_server import S3Server
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker

ISOLATION = ("read_committed", "read_uncommitted")
COMMON: Mapping[str, object] = {
    "fetch.remote.enabled": True,
    "remote.storage.fetcher.allow.http": True,
    "remote.storage.fetcher.allow.private.addresses": True,
    # No fallback happens because the machine is busy; and the larger segments take several ranges.
    **PATIENT,
    "fetch.remote.range.bytes": 64 << 10,
}


@attrs.frozen
class Cell:
    """One way to read the records."""

    source: str
    store: str
    fetcher: str
    mode: str
    isolation: str

    def __str__(self) -> str:
        return "-".join((self.source, self.store, self.fetcher, self.mode, self.isolation.removeprefix("read_")))


WAYS = [
    # location source, store, fetcher
    ("shim", "disk", "presigned"),
    ("shim", "disk", "local"),
    ("shim", "s3", "presigned"),
    ("shim", "s3", "s3"),
    ("shim", "s3", "object_store"),
    ("metadata-topic", "disk", "local"),
    ("metadata-topic", "s3", "s3"),
    ("metadata-topic", "s3", "object_store"),
    ("listing", "disk", "local"),
    ("listing", "s3", "s3"),
    ("listing", "s3", "object_store"),
]
CELLS = [Cell(*way, mode, isolation) for way in WAYS for mode in MODES for isolation in ISOLATION]


def cells_of(store: str) -> Any:
    """The rows that need one kind of store."""
    return pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.store == store], ids=str)


@attrs.frozen
class Stored:
    """The place of a tier's objects: a store's URL and options, and the settings of each fetcher."""

    url: str
    fetchers: Mapping[str, Mapping[str, object]]
    options: Mapping[str, object] = attrs.field(factory=dict)


@pytest.fixture(scope="module")
def expected(
    running_broker: KafkaBroker, transactional_topic: TransactionalTopic, wide_topic: str
) -> Callable[[str], dict[str, list[Row]]]:
    """Returns the plain consumer's records of each topic, by isolation level."""
    known: dict[str, dict[str, list[Row]]] = {}

    def read(isolation: str) -> dict[str, list[Row]]:
        if isolation not in known:
            topics = (transactional_topic.topic, wide_topic)
            known[isolation] = {topic: plain(running_broker, topic, isolation) for topic in topics}
        return known[isolation]

    return read


@contextmanager
def consumer_of(broker: KafkaBroker, tier: AivenTier, stored: Stored, cell: Cell) -> Iterator[Consumer]:
    """Returns a consumer with the cell's settings."""
    way = {**COMMON, "remote.storage.fetcher.class": cell.fetcher, **stored.fetchers[cell.fetcher]}
    if cell.source != "shim":
        way |= {"fetch.remote.location.source": cell.source, **store_settings(tier, stored, cell)}
        with Consumer(of_its_fetcher(settings(broker.bootstrap_servers, cell.isolation, **way))) as consumer:
            yield consumer
        return
    with aiven_shim(broker, tier, stored.url, store_options=stored.options, allow_plaintext_data_keys=True) as shim:
        if shim.origin_url is not None:
            way["remote.storage.fetcher.allowed.hosts"] = shim.origin_url.partition("//")[2]
        with Consumer(of_its_fetcher(settings(shim.bootstrap_servers, cell.isolation, **way))) as consumer:
            yield consumer


def store_settings(tier: AivenTier, stored: Stored, cell: Cell) -> dict[str, object]:
    """Returns the settings of a client that reads the tier's other objects itself."""
    prefix = tier.listed_prefix if cell.source == "listing" else tier.prefix
    return {
        "fetch.remote.metadata.topic": tier.metadata_topic,
        "remote.storage.store.url": stored.url,
        "remote.storage.store.layout": "aiven",
        "remote.storage.store.key.prefix": prefix,
        "remote.storage.store.encryption.keys": ",".join(f"{key}={path}" for key, path in tier.encryption_keys.items()),
        **{f"remote.storage.fetcher.{name}": value for name, value in stored.options.items()},
    }


def check(broker: KafkaBroker, tier: AivenTier, stored: Stored, cell: Cell, wanted: Mapping[str, list[Row]]) -> None:
    """Reads everything; tiered records must come from the store."""
    tiered = 0
    for topic, rows in wanted.items():
        local = broker.offsets(topic).earliest_local
        below = sum(1 for offset, *_ in rows if offset < local)
        assert below > 800
        tiered += below
    with consumer_of(broker, tier, stored, cell) as consumer:
        for topic, rows in wanted.items():
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            assert read_to_end(consumer) == rows
        metrics = consumer.metrics()
    assert metrics["remote-fetch-fallbacks-total"] == {}
    assert total(metrics, "remote-fetch-records-total") >= tiered


@cells_of("disk")
def test_records_read_from_disk_equal_the_plain_consumers(
    kafka_broker: KafkaBroker,
    aiven_tier: Callable[[str], AivenTier],
    expected: Callable[[str], dict[str, list[Row]]],
    cell: Cell,
) -> None:
    tier = aiven_tier(cell.mode)
    stored = Stored(tier.store_url, {"presigned": {}, "local": {"remote.storage.fetcher.local.root": str(tier.directory)}})
    check(kafka_broker, tier, stored, cell, expected(cell.isolation))


@pytest.fixture(scope="module")
def buckets(s3_server: S3Server, aiven_tier: Callable[[str], AivenTier]) -> Callable[[str], str]:
    """Buckets with the tier by mode; each is filled once."""
    known: dict[str, str] = {}

    def bucket(mode: str) -> str:
        if mode not in known:
            known[mode] = s3_server.new_bucket((f"below/{key}", data) for key, data in aiven_tier(mode).objects())
        return known[mode]

    return bucket


@cells_of("s3")
def test_records_read_from_s3_equal_the_plain_consumers(
    kafka_broker: KafkaBroker,
    aiven_tier: Callable[[str], AivenTier],
    s3_environment: S3Server,
    buckets: Callable[[str], str],
    expected: Callable[[str], dict[str, list[Row]]],
    cell: Cell,
) -> None:
    url = f"s3://{buckets(cell.mode)}/below"
    own_credentials = {**s3_environment.fetcher_settings, "remote.storage.fetcher.store.url": url}
    fetchers = {
        "presigned": {"remote.storage.fetcher.allowed.hosts": s3_environment.authority},
        "s3": own_credentials,
        "object_store": own_credentials,
    }
    check(
        kafka_broker,
        aiven_tier(cell.mode),
        Stored(url, fetchers, s3_environment.options),
        cell,
        expected(cell.isolation),
    )


def test_the_heuristic_compresses_some_segments_and_not_others(aiven_tier: Callable[[str], AivenTier]) -> None:
    objects = aiven_tier("zstd-heuristic").objects()
    manifests = [json.loads(data) for key, data in objects if key.endswith(".rsm-manifest")]
    assert {manifest["compression"] for manifest in manifests} == {False, True}
