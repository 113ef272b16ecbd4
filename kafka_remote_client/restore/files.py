"""The small files that Kafka keeps beside a partition's segments, byte for byte. Pure.

========================== ======================================================================
file                       content
========================== ======================================================================
leader-epoch-checkpoint    ``0``, the number of entries, then ``epoch start-offset`` for each
log-start-offset-checkpoint ``0``, the number of entries, then ``topic partition offset`` for each
partition.metadata         ``version: 0``, ``topic_id: `` and the id; no newline at the end
meta.properties            Java properties of a formatted folder: ``node.id``, ``directory.id``, …
========================== ======================================================================

A producer snapshot is restored as it is in the tier, under another name.

References: Kafka's LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataFile, MetaPropertiesEnsemble.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import EpochEntry, TopicPartition, uuid_from_text, uuid_to_text

__all__ = [
    "LEADER_EPOCHS",
    "LOG_STARTS",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "FormattedNode",
    "leader_epoch_checkpoint",
    "log_file",
    "log_start_checkpoint",
    "parse_meta_properties",
    "partition_metadata",
    "snapshot_file",
]

LEADER_EPOCHS = "leader-epoch-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"


@attrs.frozen
class FormattedNode:
    """What ``meta.properties`` says of a folder: the node and the cluster that it belongs to, and the folder's own id."""

    node_id: int
    directory_id: UUID
    cluster_id: str


def log_file(base_offset: int) -> str:
    """The name of a segment's log."""
    return f"{base_offset:020d}.log"


def snapshot_file(end_offset: int) -> str:
    """The name of the snapshot with the producers' state at ``end_offset`` (exclusive)."""
    return f"{end_offset:020d}.snapshot"


def leader_epoch_checkpoint(entries: Iterable[EpochEntry]) -> bytes:
    """The lineage of a log."""
    return _checkpoint(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def log_start_checkpoint(starts: Mapping[TopicPartition, int]) -> bytes:
    """The log starts of the partitions of a folder."""
    return _checkpoint(f"{at.topic} {at.partition} {offset}" for at, offset in sorted(starts.items()))


def partition_metadata(topic_id: UUID) -> bytes:
    """The id of the topic that a partition's folder belongs to."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode("ascii")


def parse_meta_properties(text: str) -> FormattedNode:
    """Raises ConfigurationError unless the text is of version 1 and has a node id and a directory id."""
    lines = (line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    found = {name.strip(): value.strip() for name, _, value in lines}
    if found.get("version") != "1":
        raise ConfigurationError(f"{META_PROPERTIES} has version {found.get('version')}, not 1")
    try:
        return FormattedNode(int(found["node.id"]), uuid_from_text(found["directory.id"]), found["cluster.id"])
    except KeyError as missing:
        raise ConfigurationError(f"{META_PROPERTIES} has no {missing.args[0]}: format it with Kafka 3.7 or later") from None
    except ValueError as error:
        raise ConfigurationError(f"{META_PROPERTIES}: {error}") from None


def _checkpoint(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in ("0", len(entries), *entries)).encode()
