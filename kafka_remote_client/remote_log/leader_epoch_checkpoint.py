"""The leader epoch checkpoint: the lineage of a log as text.

::

    0                       version
    2                       number of entries
    0 0                     epoch, first offset
    4 1020

A tiered segment has *all* entries up to its end, not only those of its own offsets.

References: Kafka's LeaderEpochCheckpointFile, CheckpointFile.
"""

from __future__ import annotations

import re

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import EpochEntry
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage

__all__ = ["parse_leader_epoch_checkpoint"]

_VERSION = "0"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_ENTRY = re.compile(r"([0-9]{1,10}) ([0-9]{1,19})", re.ASCII)
_HIGHEST_EPOCH = (1 << 31) - 1


def parse_leader_epoch_checkpoint(data: bytes) -> LeaderEpochLineage:
    """The lineage in the file.

    Raises CorruptIndexError for another version, a wrong count, a malformed line, and entries out of order.
    """
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise CorruptIndexError("leader epoch checkpoint is not text") from None
    if len(lines) < 2 or lines[0] != _VERSION:
        raise CorruptIndexError(f"leader epoch checkpoint is not of version {_VERSION}")
    if not _NUMBER.fullmatch(lines[1]) or int(lines[1]) != len(lines) - 2:
        raise CorruptIndexError(f"leader epoch checkpoint has {len(lines) - 2} entries, not the declared number")
    entries = []
    for line in lines[2:]:
        match = _ENTRY.fullmatch(line)
        if match is None or int(match[1]) > _HIGHEST_EPOCH or int(match[2]) > MAX_OFFSET:
            raise CorruptIndexError("leader epoch checkpoint has a line that is not an epoch and an offset")
        entries.append(EpochEntry(int(match[1]), int(match[2])))
    try:
        return LeaderEpochLineage(entries)
    except ValueError as error:
        raise CorruptIndexError(f"leader epoch checkpoint: {error}") from None
