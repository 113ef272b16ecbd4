"""The names of a segment's three objects in the layout of Aiven's plugin.

::

    <key.prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.<suffix>
      verbatim    any       22       decimal      20 digits       22

    suffix: log | indexes | rsm-manifest, uploaded in this order

The prefix is used as configured; it may lack a ``/`` at its end. Topic names and ids may have ``-`` and ``_``, so names are
parsed from the right, by the fixed widths.

References: ObjectKeyFactory of Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import re

import attrs

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.model import (
    RemoteLogSegmentId,
    TopicIdPartition,
    uuid_from_text,
    uuid_to_text,
)

__all__ = ["INDEXES", "LOG", "MANIFEST", "SegmentObjectKey", "main_path", "parse_key", "with_suffix"]

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"

_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<id>[A-Za-z0-9_-]{22})", re.ASCII)
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_FILE = re.compile(rf"(?P<start>[0-9]{{20}})-(?P<id>[A-Za-z0-9_-]{{22}})\.(?P<suffix>{LOG}|{INDEXES}|{MANIFEST})", re.ASCII)
_MAX_PARTITION = 2**31 - 1


@attrs.frozen
class SegmentObjectKey:
    """The parts of an object's name."""

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    suffix: str


def main_path(segment_id: RemoteLogSegmentId, start_offset: int) -> str:
    """The common part of the keys of a segment's objects, without the prefix."""
    tip = segment_id.topic_id_partition
    directory = f"{tip.topic}-{uuid_to_text(tip.topic_id)}/{tip.partition}"
    return f"{directory}/{start_offset:020d}-{uuid_to_text(segment_id.id)}"


def with_suffix(log_key: str, suffix: str) -> str:
    """The key of another object of the segment whose log is ``log_key``. Raises ValueError unless that is the key of a log."""
    main, dot, found = log_key.rpartition(".")
    if not dot or found != LOG:
        raise ValueError("not the key of a log object")
    return f"{main}.{suffix}"


def parse_key(key: str, prefix: str) -> SegmentObjectKey | None:
    """The parts of ``key``; None if it does not begin with ``prefix`` or is not the key of a segment's object."""
    if not key.startswith(prefix):
        return None
    directory, _, rest = key[len(prefix) :].partition("/")
    partition, _, file = rest.partition("/")
    of_directory, of_file = _DIRECTORY.fullmatch(directory), _FILE.fullmatch(file)
    if of_directory is None or of_file is None or not _PARTITION.fullmatch(partition):
        return None
    start, number = int(of_file["start"]), int(partition)
    if start > MAX_OFFSET or number > _MAX_PARTITION:
        return None
    tip = TopicIdPartition(uuid_from_text(of_directory["id"]), of_directory["topic"], number)
    return SegmentObjectKey(RemoteLogSegmentId(tip, uuid_from_text(of_file["id"])), start, of_file["suffix"])
