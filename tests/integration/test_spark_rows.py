"""``format("kafka-remote")`` gives the rows of ``format("kafka")``, in all columns: unusual records, and Aiven's layout on S3.

What Spark's own source reads is digested once for each topic and isolation level. What ours reads below the local log has to
come from the store: its tasks count that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.shim.server import Shim
from kafka_remote_client.spark.reading.task_counters import load_counters
from tests.support.aiven_tier import AivenTier, aiven_shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENT
from tests.support.s3_server import S3Server
from tests.support.scenario import TransactionalTopic
from tests.support.spark import SparkDriver
from tests.support.spark_topics import directly, through_the_broker, write_odd_topic

# The first test waits for the session, for topics to be tiered, and for the broker to restart.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

OURS, THEIRS = "kafka-remote", "kafka"
Digest = list[list[Any]]
_SMALL_SPLITS = {"remote.splitBytes": "60000"}


@pytest.fixture(scope="module")
def theirs(running_broker: KafkaBroker, spark_beside: SparkDriver) -> Callable[[str, str], Digest]:
    """The rows of Spark's source for topics at an isolation level."""
    known: dict[tuple[str, str], Digest] = {}

    def read(topics: str, isolation: str) -> Digest:
        if (topics, isolation) not in known:
            more = {"subscribe": topics, "kafka.isolation.level": isolation}
            known[topics, isolation] = spark_beside("digest", source=THEIRS, options=through_the_broker(running_broker, **more))
        return known[topics, isolation]

    return read


@pytest.fixture(scope="module")
def odd_topic(running_broker: KafkaBroker) -> str:
    return write_odd_topic(running_broker, "spark-odd")


@pytest.fixture(scope="module")
def both_topics(transactional_topic: TransactionalTopic, wide_topic: str) -> str:
    """The subscription to the topics of the tiers in Aiven's layout."""
    return f"{transactional_topic.topic},{wide_topic}"


@pytest.fixture(scope="module")
def buckets(s3_server: S3Server, aiven_tier: Callable[[str], AivenTier]) -> Callable[[str], str]:
    """The URL of a tier in a mode; each tier is uploaded once."""
    known: dict[str, str] = {}

    def url(mode: str) -> str:
        if mode not in known:
            known[mode] = s3_server.new_bucket((f"below/{key}", data) for key, data in aiven_tier(mode).objects())
        return f"s3://{known[mode]}/below"

    return url


def tiered(broker: KafkaBroker, digest: Digest) -> int:
    """A lower bound of the records that are only in the tier: 80 % of the offsets, because some are not records."""
    return sum((broker.offsets(topic, partition).earliest_local - first) * 4 // 5 for topic, partition, _, first, *_ in digest)


def check(spark: SparkDriver, broker: KafkaBroker, options: Mapping[str, str], expected: Digest, directory: Path) -> None:
    """Asserts that the rows are equal and that tiered records came from the store."""
    counted = {"remote.countersDirectory": str(directory / "counters")}
    assert spark("digest", source=OURS, options={**options, **counted}) == expected
    counters = load_counters(counted["remote.countersDirectory"]).counters
    assert counters["remote-fetch-fallbacks-total"] == {}
    assert counters["remote-fetch-records-total"] >= tiered(broker, expected) > 0


@pytest.mark.parametrize("version", ["spark_beside", "spark_newest"])
def test_unusual_records_equal_sparks_source(
    request: pytest.FixtureRequest,
    kafka_broker: KafkaBroker,
    spark_shim: Shim,
    odd_topic: str,
    theirs: Callable[[str, str], Digest],
    tmp_path: Path,
    version: str,
) -> None:
    expected = theirs(odd_topic, "read_uncommitted")
    assert expected[0][2] == 5 * (45 + 1)
    options = directly(spark_shim, subscribe=odd_topic, **_SMALL_SPLITS)
    check(request.getfixturevalue(version), kafka_broker, options, expected, tmp_path)


@contextmanager
def by_urls(broker: KafkaBroker, tier: AivenTier, url: str, server: S3Server) -> Iterator[dict[str, str]]:
    """Options to read through a shim, by signed URLs of the store."""
    with aiven_shim(broker, tier, url, store_options=server.options, allow_plaintext_data_keys=True) as spark_shim:
        yield {
            "kafka.bootstrap.servers": spark_shim.bootstrap_servers,
            "remote.storage.fetcher.allowed.hosts": server.authority,
            "remote.storage.fetcher.allow.http": "true",
            "remote.storage.fetcher.allow.private.addresses": "true",
        }


@contextmanager
def without_a_shim(broker: KafkaBroker, tier: AivenTier, url: str, server: S3Server) -> Iterator[dict[str, str]]:
    """Options to read with the user's credentials, by the tier's metadata topic."""
    yield {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "fetch.remote.location.source": "metadata-topic",
        "fetch.remote.metadata.topic": tier.metadata_topic,
        "remote.storage.store.url": url,
        "remote.storage.store.layout": "aiven",
        "remote.storage.store.key.prefix": tier.prefix,
        "remote.storage.store.encryption.keys": ",".join(f"{key}={path}" for key, path in tier.encryption_keys.items()),
        "remote.storage.fetcher.class": "s3",
        "remote.storage.fetcher.store.url": url,
        **{
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in server.fetcher_settings.items()
        },
    }


@pytest.mark.parametrize(
    ("way", "mode", "isolation", "version"),
    [
        (by_urls, "zstd", "read_uncommitted", "spark_beside"),
        (by_urls, "zstd-aes", "read_committed", "spark_beside"),
        (without_a_shim, "zstd", "read_committed", "spark_beside"),
        (without_a_shim, "zstd-aes", "read_uncommitted", "spark_beside"),
        (by_urls, "zstd", "read_committed", "spark_newest"),
        (without_a_shim, "zstd-aes", "read_committed", "spark_newest"),
    ],
)
def test_rows_of_aivens_layout_on_s3_equal_sparks_source(
    request: pytest.FixtureRequest,
    kafka_broker: KafkaBroker,
    s3_environment: S3Server,
    aiven_tier: Callable[[str], AivenTier],
    buckets: Callable[[str], str],
    theirs: Callable[[str, str], Digest],
    both_topics: str,
    tmp_path: Path,
    way: Any,
    mode: str,
    isolation: str,
    version: str,
) -> None:
    expected = theirs(both_topics, isolation)
    spark = request.getfixturevalue(version)
    common = {"subscribe": both_topics, "includeHeaders": "true", "kafka.isolation.level": isolation, **_SMALL_SPLITS}
    common |= {name: str(value) for name, value in PATIENT.items()} | {"fetch.remote.range.bytes": str(64 << 10)}
    with way(kafka_broker, aiven_tier(mode), buckets(mode), s3_environment) as options:
        check(spark, kafka_broker, {**common, **options}, expected, tmp_path)
