"""``kafka-remote demo``: the whole system on this machine, and a table that says whether it worked.

An embedded cluster gets records, old segments move to the tier and leave the broker, and an ordinary consumer group with direct
fetch reads everything from the beginning. The demo passes if each partition's digest equals the producer's and, if a fault was
requested, if the fault made the consumer fall back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import attrs
from confluent_kafka import KafkaException, Message

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.embedded.demo_data import DemoData, DigestBuilder, PartitionDigest, fill

__all__ = ["DemoFault", "DemoResult", "TierTotals", "demo_cluster", "run_demo"]

_GROUP = "demo"
_BATCH = 500
_PATIENCE_SECONDS = 60.0
_BUSY_MACHINE_MS = 20_000
_SLOW_READ_TIMEOUT_MS = 3_000
_SLOW_SECONDS = 60.0
_PARTITIONS = 4
_MEAN_RECORD_BYTES = 480
_FEWEST_SEGMENTS = 8
_SMALLEST_SEGMENT = 1 << 10
_LARGEST_SEGMENT = 1 << 20


class DemoFault(StrEnum):
    """``--fault``: the fault of the store when half of the records are read."""

    STORE_DOWN = "store-down"
    SLOW_STORE = "slow-store"
    EXPIRED_URLS = "expired-urls"


@attrs.define
class TierTotals:
    """The records of one tier. ``bytes`` of keys and values; ``seconds`` of the calls that delivered them."""

    records: int = 0
    bytes: float = 0.0
    seconds: float = 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0


@attrs.frozen
class DemoResult:
    """The written and the read records, and their tiers."""

    data: DemoData
    read: Mapping[int, PartitionDigest]
    tiers: Mapping[str, TierTotals]
    metrics: Mapping[str, Any]
    fault: DemoFault | None

    @property
    def equal(self) -> bool:
        """Whether the read records of every partition equal the written ones."""
        return dict(self.read) == dict(self.data.partitions)

    @property
    def fallbacks(self) -> Mapping[str, int]:
        found: Mapping[str, int] = self.metrics["remote-fetch-fallbacks-total"]
        return found

    @property
    def failures(self) -> tuple[str, ...]:
        """Returns why the demo failed, each reason in one sentence; empty if it passed."""
        found = []
        if not self.equal:
            written = self.data.partitions
            differing = sorted(
                number for number in written.keys() | self.read.keys() if written.get(number) != self.read.get(number)
            )
            found.append(f"the records read differ from the records written in partitions {', '.join(map(str, differing))}")
        if not self.tiers["remote"].records:
            found.append("no record was read from the store")
        if self.fault is not None and not sum(self.fallbacks.values()):
            found.append(
                f"the fault {self.fault} caused no fallback: all data was fetched before the fault; increase --records"
            )
        return tuple(found)

    @property
    def worked(self) -> bool:
        """Whether the records are equal, the store delivered some, and the requested fault had an effect."""
        return not self.failures


def demo_cluster(directory: str, records: int, clock: Clock, **more: Any) -> EmbeddedCluster:
    """A cluster, not started, whose segments are small enough that ``records`` fill some and most are read from the store.

    Segments leave the broker when they are in the tier. ``more``: of the cluster.
    """
    of_partition = records * _MEAN_RECORD_BYTES // _PARTITIONS
    segment_bytes = max(_SMALLEST_SEGMENT, min(_LARGEST_SEGMENT, of_partition // _FEWEST_SEGMENTS))
    return EmbeddedCluster(
        directory, partitions=_PARTITIONS, segment_bytes=segment_bytes, expire_local=True, clock=clock, **more
    )


def run_demo(
    cluster: EmbeddedCluster,
    *,
    records: int,
    fault: DemoFault | None,
    clock: Clock,
    wrote: Callable[[int], None] = lambda _done: None,
    read: Callable[[int, Mapping[str, TierTotals]], None] = lambda _done, _tiers: None,
) -> DemoResult:
    """Runs the demo on a started, empty cluster; ``wrote`` and ``read`` get the progress.

    Raises LocationError or KafkaException when the embedded cluster does not work.
    """
    data = fill(cluster, records=records, progress=wrote)
    consumer = Consumer(_consumer_config(cluster, fault))
    assert isinstance(consumer, DirectConsumer)
    reading = _Reading(cluster, data, consumer, fault, clock)
    try:
        consumer.subscribe([data.topic])
        reading.run(read)
    finally:
        consumer.close()
    return DemoResult(data, reading.digests.result(), reading.tiers, consumer.metrics(), fault)


def _consumer_config(cluster: EmbeddedCluster, fault: DemoFault | None) -> dict[str, object]:
    config: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": _GROUP,
        "auto.offset.reset": "earliest",
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        "remote.storage.fetcher.allowed.hosts": cluster.origin_url.partition("//")[2],
        # The demo's store uses plain HTTP on this machine; both need an explicit setting.
        "remote.storage.fetcher.allow.http": True,
        "remote.storage.fetcher.allow.private.addresses": True,
        # Small enough that a store that fails half way still has records left to deliver.
        "fetch.remote.range.bytes": 1 << 20,
        "fetch.remote.buffer.memory": 16 << 20,
        # All parts share this machine: only the fault must make the consumer fall back, not the load of the machine.
        "fetch.remote.location.timeout.ms": _BUSY_MACHINE_MS,
        "fetch.remote.read.timeout.ms": _BUSY_MACHINE_MS,
        "fetch.remote.min.bytes.per.second": 0,
        "fetch.remote.slow.bytes.per.second": 0,
    }
    if fault is DemoFault.SLOW_STORE:
        config["fetch.remote.read.timeout.ms"] = _SLOW_READ_TIMEOUT_MS
    return config


class _Reading:
    """The reading half: counts by tier, and injects the fault half way."""

    def __init__(
        self, cluster: EmbeddedCluster, data: DemoData, consumer: DirectConsumer, fault: DemoFault | None, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._data = data
        self._consumer = consumer
        self._fault = fault
        self._clock = clock
        self.digests = DigestBuilder()
        self.tiers = {"remote": TierTotals(), "broker": TierTotals()}
        self._done = 0

    def run(self, tell: Callable[[int, Mapping[str, TierTotals]], None]) -> None:
        """Reads until all records have arrived, or none for a minute."""
        patience = Deadline(self._clock, _PATIENCE_SECONDS)
        while self._done < self._data.records and not patience.expired():
            before = self._clock.monotonic()
            batch = self._consumer.consume(min(_BATCH, self._data.records - self._done), 1.0)
            self._count([_record(message) for message in batch], self._clock.monotonic() - before)
            if batch:
                patience = Deadline(self._clock, _PATIENCE_SECONDS)
                tell(self._done, self.tiers)
            if self._fault is not None and self._done * 2 >= self._data.records:
                _strike(self._cluster, self._fault)
                self._fault = None

    def _count(self, batch: list[Message], seconds: float) -> None:
        for message in batch:
            self.digests.add_message(message)
        self._done += len(batch)
        if not batch:
            return
        total = sum(len(message) + len(message.key() or b"") for message in batch)
        metrics = self._consumer.metrics()
        for tier, totals in self.tiers.items():
            now = metrics[f"{tier}-fetch-records-total"]
            assert isinstance(now, int)
            share = (now - totals.records) / len(batch)
            totals.records = now
            totals.bytes += total * share
            totals.seconds += seconds * share


def _record(message: Message) -> Message:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return message


def _strike(cluster: EmbeddedCluster, fault: DemoFault) -> None:
    match fault:
        case DemoFault.STORE_DOWN:
            cluster.faults.store_down()
        case DemoFault.SLOW_STORE:
            cluster.faults.slow_store(_SLOW_SECONDS)
        case DemoFault.EXPIRED_URLS:
            cluster.faults.expired_urls()
