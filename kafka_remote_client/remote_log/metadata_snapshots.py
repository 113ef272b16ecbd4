"""When a follower's snapshot is loaded and written: once at its start, and in a thread from time to time.

::

    follower's thread                            thread of its own
    open() ─► folder, identity of the topic
    load() ─► file, decode
    wanted(positions)?  write(positions, contents) ─► identity, if unknown ─► pack, encode ─► SnapshotFolder.write

A broker that does not tell the topic's identity at the start is asked again before each write.

The contents are references to immutable values, taken between two records, so they belong to exactly these positions. Look-ups
wait for neither thread. A failure is logged once, until a snapshot is written again, and is no reason to stop: the topic has it
all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import attrs
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError, RemoteLogMetadataError
from kafka_remote_client.model import UNKNOWN_EPOCH, TopicIdPartition
from kafka_remote_client.remote_log.metadata_cache import CacheContents
from kafka_remote_client.remote_log.metadata_snapshot import (
    MetadataPosition,
    MetadataSnapshot,
    SnapshotOrigin,
    decode,
    encode,
    pack,
    packed_segments,
)
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.snapshot_folder import SnapshotFolder
from kafka_remote_client.threads import start_thread

__all__ = ["MetadataSnapshots"]

Contents: TypeAlias = Sequence[tuple[TopicIdPartition, CacheContents | bytes]]

_log = logging.getLogger(__name__)
_REQUEST_SECONDS = 10.0
_HALF = 2**64 - 1


class _StoppedError(Exception):
    """The process ends while a snapshot is written."""


@attrs.define
class _Source:
    """The topic that the follower reads since its last start. ``origin``: None until a broker has answered."""

    partition_count: int
    origin: SnapshotOrigin | None = None


class MetadataSnapshots:
    """The snapshot of one follower in ``folder``, written at most every ``interval`` seconds.

    ``config``: librdkafka settings to ask a broker for the topic's id. Used by the follower's thread; :meth:`metrics` by any.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, str | int | float | bool],
        topic: str,
        *,
        interval: float,
        clock: Clock | None = None,
    ) -> None:
        self._path = folder
        self._config = config
        self._topic = topic
        self._interval = interval
        self._clock = clock or SystemClock()
        self._folder: SnapshotFolder | None = None
        self._source: _Source | None = None
        self._positions: Mapping[int, MetadataPosition] = {}
        self._next = self._clock.monotonic()
        self._written_at: int | None = None
        self._failing = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._loaded = self._writes = self._failures = 0

    def open(self, partition_count: int) -> None:
        """Opens the folder and asks for the topic's id, before the topic is read.

        A failure is one WARNING. Without a folder there is no snapshot. Without the id none is loaded, and each write asks
        for it again.
        """
        self._source = source = _Source(partition_count)
        try:
            if self._folder is None:
                self._folder = SnapshotFolder(self._path)
            source.origin = self._identified(partition_count)
        except Exception as error:  # noqa: BLE001 - a defect too: the topic can be read without a snapshot
            self._failures += 1
            self._failing = True
            what = "read or written" if self._folder is None else "read, and none is written until the topic's id is known"
            _log.warning("no snapshot in %s is %s: %s", self._path, what, error)

    def load(self, bounds: Mapping[int, tuple[int, int]]) -> MetadataSnapshot | None:
        """Returns the snapshot of the topic. ``bounds``: first and end offset by partition. Call :meth:`open` before.

        It has only the positions at which reading can continue, and the user partitions that belong to them. Any failure is
        logged as one WARNING; then there is no snapshot, as if none was written.
        """
        origin = None if self._source is None else self._source.origin
        if self._folder is None or origin is None:
            return None
        try:
            data = self._folder.read()
            if data is None:
                _log.info("there is no snapshot %s yet: reading %s from the start", self._folder.file, self._topic)
                return None
            found = decode(data)
            _check_origin(found.origin, origin)
            return self._usable(found, bounds)
        except Exception as error:  # noqa: BLE001 - a defect too: the topic can be read without a snapshot
            self._failures += 1
            _log.warning("the snapshot %s is not used, reading %s from the start: %s", self._folder.file, self._topic, error)
            return None

    def wanted(self, positions: Mapping[int, MetadataPosition]) -> bool:
        """Whether it is time to write: something changed, ``interval`` is over, and no other write is in progress."""
        if self._folder is None or self._source is None or self._clock.monotonic() < self._next:
            return False
        return positions != self._positions and (self._thread is None or not self._thread.is_alive())

    def write(self, positions: Mapping[int, MetadataPosition], contents: Contents) -> None:
        """Begins to write ``contents``, known at ``positions``; metadata partitions that are not trusted are not in these."""
        assert self._source is not None
        self._next = self._clock.monotonic() + self._interval
        self._thread = start_thread("metadata-snapshot", self._write, self._source, positions, contents)

    def close(self) -> None:
        """Stops a write in progress and frees the folder. Called when the follower has ended, may be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def metrics(self) -> dict[str, int]:
        """The metrics by name, without ``metadata_snapshot_age_seconds`` before the first snapshot."""
        written_at = self._written_at
        numbers = {
            "metadata_snapshot_segments_loaded": self._loaded,
            "metadata_snapshot_writes": self._writes,
            "metadata_snapshot_failures": self._failures,
        }
        if written_at is not None:
            numbers["metadata_snapshot_age_seconds"] = max(0, self._clock.time_ms() - written_at) // 1000
        return numbers

    def _identified(self, partition_count: int) -> SnapshotOrigin:
        admin = AdminClient({name: value for name, value in self._config.items() if name != "group.id"})
        found = admin.describe_topics(TopicCollection([self._topic]), request_timeout=_REQUEST_SECONDS)
        topic_id = found[self._topic].result(_REQUEST_SECONDS).topic_id
        cluster_id: Any = admin.list_topics(self._topic, timeout=_REQUEST_SECONDS).cluster_id
        high, low = (bits & _HALF for bits in (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()))
        known = UUID(int=high << 64 | low)
        if not known.int or not cluster_id:
            raise ConfigurationError("the broker gives no cluster id or no topic id")
        return SnapshotOrigin(cluster_id, self._topic, known, partition_count)

    def _usable(self, found: MetadataSnapshot, bounds: Mapping[int, tuple[int, int]]) -> MetadataSnapshot:
        # Without a leader epoch nothing was read, or a truncation since then cannot be recognized.
        known = {number: one for number, one in found.positions.items() if one.leader_epoch != UNKNOWN_EPOCH}
        positions = {number: one for number, one in known.items() if bounds[number][0] < one.next_offset <= bounds[number][1]}
        outside = sorted(known.keys() - positions.keys())
        if outside:
            _log.warning(
                "the snapshot's offsets of the partitions %s of %s are outside the topic: reading these from the start",
                ", ".join(map(str, outside)),
                self._topic,
            )
        partitions = {
            tip: packed for tip, packed in found.partitions.items() if metadata_partition(tip, len(bounds)) in positions
        }
        self._loaded = sum(map(packed_segments, partitions.values()))
        self._written_at = found.written_at_ms
        self._positions = found.positions
        _log.info(
            "loaded %d segments in %d partitions from the snapshot %s; %d of %d partitions of %s continue from it",
            *(self._loaded, len(partitions), self._path, len(positions), len(bounds), self._topic),
        )
        return MetadataSnapshot(found.origin, found.written_at_ms, positions, partitions)

    def _write(self, source: _Source, positions: Mapping[int, MetadataPosition], contents: Contents) -> None:
        folder = self._folder
        assert folder is not None
        known = [one for tip, one in contents if metadata_partition(tip, source.partition_count) in positions]
        written_at = self._clock.time_ms()
        try:
            origin = source.origin = source.origin or self._identified(source.partition_count)
            size = folder.write(encode(origin, written_at, positions, self._packed(known), len(known)))
        except _StoppedError:
            return
        except Exception as error:  # noqa: BLE001 - a defect too: it must not end the follower
            self._failures += 1
            _log.log(
                logging.DEBUG if self._failing else logging.WARNING,
                "writing the snapshot %s failed, trying again in %.0f s: %s",
                *(folder.file, self._interval, error),
            )
            self._failing = True
            return
        self._failing = False
        self._writes += 1
        self._written_at = written_at
        self._positions = positions
        _log.info("wrote the snapshot %s: %d partitions, %d bytes", folder.file, len(known), size)

    def _packed(self, known: Sequence[CacheContents | bytes]) -> Iterator[bytes]:
        for one in known:
            if self._stop.is_set():
                raise _StoppedError
            yield one if isinstance(one, bytes) else pack(one)


def _check_origin(found: SnapshotOrigin, known: SnapshotOrigin) -> None:
    """Raises RemoteLogMetadataError for a snapshot of other records."""
    if found.cluster_id != known.cluster_id:
        raise RemoteLogMetadataError(f"the snapshot is of cluster {found.cluster_id}, not {known.cluster_id}")
    if (found.topic, found.topic_id) != (known.topic, known.topic_id):
        raise RemoteLogMetadataError(
            f"the snapshot is of the topic {found.topic} with id {found.topic_id}, not {known.topic} with id {known.topic_id}"
        )
    if found.partition_count != known.partition_count:
        raise RemoteLogMetadataError(
            f"the snapshot is of {found.partition_count} metadata partitions, not {known.partition_count}"
        )
