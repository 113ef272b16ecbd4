"""The golden logs of real brokers, appended again to the model's log batch by batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import attrs

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.tiered_cluster.batches import Batch, parse_batches
from kafka_remote_client.tiered_cluster.log import PartitionLog, Segment, TopicConfig
from kafka_remote_client.tiered_cluster.producers import loaded_snapshot
from tests.support.golden import golden_local

__all__ = ["INDEX_INTERVAL", "TOPICS", "batches_of", "replayed", "segment_paths"]

INDEX_INTERVAL = 1024
TOPICS = (
    *(f"codec-{codec}-{client}-0" for codec in ("none", "gzip", "snappy", "lz4", "zstd") for client in ("java", "rdk")),
    *("deleted-0", "delrec-0", "epochs-0", "epochs-1", "logappend-0", "txn-0"),
)
_SEGMENT_BYTES = {"codec": 220_000, "epochs": 40_000, "txn": 30_000, "logappend": 100_000, "delrec": 60_000, "deleted": 60_000}
_EXPIRATION_MS = 24 * 3_600_000
_RESTARTED_MS = 1_795_177_900_000
"""When the broker restarted: within a day of all markers. The timestamps of producers are those of 2023."""


def segment_paths(partition: str) -> list[Path]:
    """The logs of a partition in the tier, in the order of their offsets."""
    (directory,) = (golden_local() / "remote" / "kafka-tiered-storage").glob(f"{partition}-??????????????????????")
    return sorted(directory.glob("*.log"))


@cache
def batches_of(partition: str) -> tuple[Batch, ...]:
    """All batches of a partition, those that were still on the broker too."""
    tail = sorted((golden_local() / "local-tail" / partition).glob("*.log"))
    return tuple(batch for path in (*segment_paths(partition), *tail) for batch in parse_batches(path.read_bytes()))


@cache
def replayed(partition: str) -> PartitionLog:
    """The model's log after the same restarts, each of which began an epoch, and the same appends. It rolls by itself."""
    batches = batches_of(partition)
    config = TopicConfig(_SEGMENT_BYTES[partition.split("-")[0]], index_interval_bytes=INDEX_INTERVAL)
    log = PartitionLog(config, segments=(Segment(batches[0].base_offset),), lineage=(EpochEntry(0, 0),))
    for batch in batches:
        if batch.leader_epoch != log.lineage[-1].epoch:
            kept = log.producers.without_expired(_RESTARTED_MS, _EXPIRATION_MS)
            log = attrs.evolve(log, producers=loaded_snapshot(kept.snapshot())).elected(batch.leader_epoch)
        log = log.appended([batch], 0)
    return log
