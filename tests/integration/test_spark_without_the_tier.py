"""Real Spark where the tier cannot be read: a job fails before its tasks, goes on with one warning, or stops at a limit.

And what it opens: connections are counted, as a new one for each task or micro-batch is what made such jobs slow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer

from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.spark.reading.task_counters import load_counters
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS
from tests.support.silent_peer import SilentPeer
from tests.support.spark import SparkDriver, SparkJobError
from tests.support.spark_topics import directly

# The first test waits for the session and for a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

TOPIC = "spark-without-the-tier"
COUNT = 400
"""Records of each of the two partitions, all of ``RECORD_BYTES``."""
RECORD_BYTES = 100
EVERY = [[partition, offset] for partition in (0, 1) for offset in range(COUNT)]
SPLITS = {"maxRecordsPerPartition": "70"}
"""Makes twelve splits: six of each partition."""
TASK_FAILED = "An exception was thrown from the Python worker"
"""What Spark says where a task failed, and not the driver."""
BATCH = 40
"""Offsets of a micro-batch, of both partitions together."""


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    """A topic of two partitions with several segments each."""
    running_broker.create_topic(TOPIC, partitions=2, segment_bytes=12_000)
    producer = Producer({"bootstrap.servers": running_broker.bootstrap_servers, "batch.num.messages": 25, "log_level": 0})
    for number in range(2 * COUNT):
        producer.produce(TOPIC, b"%0*d" % (RECORD_BYTES, number), partition=number % 2)
    assert producer.flush(60) == 0, "the broker did not take all records"
    running_broker.wait_until_tiered(TOPIC, 0, 1)
    return TOPIC


@pytest.fixture
def torn(kafka_broker: KafkaBroker, topic: str, tmp_path: Path) -> Iterator[Shim]:
    """A shim whose store has lost all records but those of the first segment of partition 0, where the driver tries a byte."""
    store = tmp_path / "store"
    for partition in (0, 1):
        copy = kafka_broker.copy_of_tier(topic, store, partition)
        for log in sorted(copy.glob("*.log"))[partition == 0 :]:
            log.unlink()
    with Shim(ShimConfig(kafka_broker.bootstrap_servers, store=store.as_uri())) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


@pytest.fixture
def silent() -> Iterator[SilentPeer]:
    with SilentPeer() as peer:
        yield peer


@attrs.define
class Job:
    """A batch query of the topic, and what it left behind: counters of its splits, lines in the log of Spark's processes."""

    spark: SparkDriver
    options: dict[str, str]
    counters: Path
    _log_starts: int = 0

    def rows(self) -> list[list[int]]:
        """Partition and offset of all records, sorted. Raises SparkJobError."""
        self._log_starts = self.spark.log_file.stat().st_size
        given = self.options | {"remote.countersDirectory": str(self.counters)}
        return sorted(row[4:6] for row in self.spark("rows", source="kafka-remote", options=given))

    @property
    def splits_read(self) -> int:
        """How many tasks began to read a split: each leaves its counters, even if it fails."""
        return len(list(self.counters.glob("*.json"))) if self.counters.is_dir() else 0

    def counted(self, name: str) -> Any:
        return load_counters(str(self.counters)).counters[name]

    def warnings(self) -> list[str]:
        """What this package said: at its default level Python's logging writes warnings, as text alone, to standard error."""
        with self.spark.log_file.open("rb") as log:
            log.seek(self._log_starts)
            lines = log.read().decode(errors="replace").splitlines()
        return [line for line in lines if "direct fetch disabled" in line or "because the tier cannot be read" in line]


@pytest.fixture
def job(spark_newest: SparkDriver, spark_shim: Shim, topic: str, tmp_path: Path) -> Job:
    return Job(spark_newest, directly(spark_shim, subscribe=topic, **SPLITS), tmp_path / "counters")


def test_a_forbidden_host_fails_in_the_driver_before_any_task(job: Job, spark_shim: Shim, tmp_path: Path) -> None:
    assert spark_shim.origin_url is not None
    host = spark_shim.origin_url.partition("//")[2]
    job.options |= {"remote.storage.fetcher.allowed.hosts": "store.example:9000", "remote.onFallback": "fail"}
    text = (
        f"cannot read from the tier: URL host '{host}' is not in remote.storage.fetcher.allowed.hosts; "
        "remote.onFallback=broker reads from the brokers"
    )
    with pytest.raises(SparkJobError, match=text) as failure:
        job.rows()
    assert TASK_FAILED not in str(failure.value)
    assert job.splits_read == 0
    del job.options["remote.onFallback"]  # which is the default of read_segments
    places = {"directory": str(tmp_path), "finished": [], "trouble": {}}
    with pytest.raises(SparkJobError, match=text):
        job.spark("tests.support.spark_segments:handled", options=job.options, **places)
    assert list(tmp_path.iterdir()) == []


def test_a_fallback_logs_one_warning_and_opens_one_connection(job: Job, silent: SilentPeer) -> None:
    job.options |= {"fetch.remote.bootstrap.servers": silent.address, "fetch.remote.location.timeout.ms": "500"}
    assert job.rows() == EVERY
    assert job.splits_read == 12
    assert job.counted("broker-fetch-records-total") == len(EVERY)
    assert silent.connections == 1
    # A process of the job before may still write lines of its own.
    lines = [line for line in job.warnings() if silent.address in line]
    assert len(lines) == 1, job.warnings()
    assert lines[0].startswith("the brokers serve tiered records of this query, because the tier cannot be read: ")


def torn_job(job: Job, torn: Shim, **more: str) -> Job:
    return attrs.evolve(job, options=directly(torn, subscribe=TOPIC, **SPLITS, **more))


def test_a_task_that_cannot_read_the_tier_fails_the_job(job: Job, torn: Shim) -> None:
    with pytest.raises(SparkJobError) as failure:
        torn_job(job, torn, **{"remote.onFallback": "fail"}).rows()
    assert re.search(
        rf"TierUnavailableError: cannot read {TOPIC}-[01] at offset \d+ from the tier: .*"
        r"remote\.onFallback=broker reads from the brokers",
        str(failure.value),
    )
    assert TASK_FAILED in str(failure.value)
    assert 0 < job.splits_read < 12


def test_bytes_from_brokers_are_limited_for_all_tasks_together(job: Job, torn: Shim) -> None:
    whole = torn_job(job, torn, **{"remote.maxBrokerBytes": "200000"})
    assert whole.rows() == EVERY
    from_brokers = job.counted("broker-fetch-records-total")
    assert from_brokers > COUNT
    limit = from_brokers * RECORD_BYTES // 2
    assert limit > 70 * RECORD_BYTES, "no task alone reaches the limit"
    limited = attrs.evolve(
        torn_job(job, torn, **{"remote.maxBrokerBytes": str(limit)}), counters=job.counters.with_name("limited")
    )
    with pytest.raises(SparkJobError, match=rf"is the share of this split in remote\.maxBrokerBytes={limit}"):
        limited.rows()
    assert limited.counted("broker-fetch-records-total") * RECORD_BYTES <= limit
    assert 0 < limited.splits_read < 12


def test_micro_batches_open_fewer_connections_than_there_are_batches(
    spark_newest: SparkDriver, spark_shim: Shim, topic: str, tmp_path: Path
) -> None:
    """The driver opens four for each query. Each Python worker opens five, when a task of any query first needs one of them."""

    def opened(batches: int) -> int:
        start = COUNT - batches * BATCH // 2
        bounds = {"startingOffsets": json.dumps({topic: {"0": start, "1": start}}), "maxOffsetsPerTrigger": str(BATCH)}
        before = spark_shim.metrics().get("connections", 0)
        given = {"options": directly(spark_shim, subscribe=topic, **bounds), "checkpoint": str(tmp_path / str(batches))}
        found = spark_newest("batches", source="kafka-remote", **given)
        assert [partitions for _, partitions in found] == [
            [[partition, first, first + 19, 20] for partition in (0, 1)] for first in range(start, COUNT, BATCH // 2)
        ]
        return spark_shim.metrics().get("connections", 0) - before

    assert opened(2) > 0
    assert opened(20) < 20
