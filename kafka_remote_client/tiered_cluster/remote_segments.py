"""What the metadata says is in the tier: Kafka's RemoteLogMetadataCache and RemoteLogLeaderEpochState, as a value.

::

    state                     allowed next
    (unknown)                 COPY_SEGMENT_STARTED
    COPY_SEGMENT_STARTED      COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED
    COPY_SEGMENT_FINISHED     DELETE_SEGMENT_STARTED
    DELETE_SEGMENT_STARTED    DELETE_SEGMENT_FINISHED, after which the segment is unknown

Each state may also follow itself. Each leader epoch refers to the finished segments that serve its reads, by the first offset
of the epoch in them. A segment that is finished later replaces those that it covers.

References: KIP-405; Kafka's RemoteLogMetadataCache, RemoteLogLeaderEpochState, RemoteLogSegmentState.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.tiered_cluster.metadata_records import MetadataEvent, SegmentUpdate, updated

__all__ = ["ALLOWED", "RemoteSegments"]

_K = TypeVar("_K")
_V = TypeVar("_V")

_STARTED, _FINISHED, _DELETING, _DELETED = RemoteLogSegmentState
ALLOWED = {
    _STARTED: {_STARTED, _FINISHED, _DELETING},
    _FINISHED: {_FINISHED, _DELETING},
    _DELETING: {_DELETING, _DELETED},
}
"""The module's table: the states that may follow each state."""


def _with(mapping: MappingProxyType[_K, _V], key: _K, value: _V) -> MappingProxyType[_K, _V]:
    return MappingProxyType(mapping | {key: value})  # copies without hashing the keys again


def _without(mapping: MappingProxyType[_K, _V], key: _K) -> MappingProxyType[_K, _V]:
    return MappingProxyType({kept: value for kept, value in mapping.items() if kept != key})


@attrs.frozen
class _Epoch:
    """``serving``: segment ids by the first offset of the epoch in them, rising. ``highest``: the last offset ever finished."""

    serving: MappingProxyType[int, UUID] = MappingProxyType({})
    unreferenced: frozenset[UUID] = frozenset()
    highest: int = -1

    def with_unreferenced(self, segment: UUID) -> _Epoch:
        return attrs.evolve(self, unreferenced=self.unreferenced | {segment})

    def with_serving(self, segment: UUID, start: int, end: int) -> _Epoch:
        """Segments whose part of the epoch begins in this one, if it reaches as far as all before, serve no longer."""
        serving, unreferenced = dict(self.serving), self.unreferenced - {segment}
        while serving and max(serving) >= start and self.highest <= end:
            unreferenced |= {serving.pop(max(serving))}
        serving[start] = segment
        ordered = MappingProxyType(dict(sorted(serving.items())))
        return _Epoch(ordered, unreferenced - {segment}, max(self.highest, end))

    def without_serving(self, segment: UUID, start: int) -> _Epoch:
        serving = _without(self.serving, start) if self.serving.get(start) == segment else self.serving
        return attrs.evolve(self, serving=serving, unreferenced=self.unreferenced | {segment})

    def without(self, segment: UUID) -> _Epoch:
        return attrs.evolve(self, unreferenced=self.unreferenced - {segment})


@attrs.frozen
class RemoteSegments:
    """The segments of a partition that are not deleted, of all copies and leaders."""

    segments: MappingProxyType[UUID, RemoteLogSegmentMetadata] = MappingProxyType({})
    _epochs: MappingProxyType[int, _Epoch] = MappingProxyType({})

    def applied(self, event: MetadataEvent) -> RemoteSegments:
        """The segments after an event. An event that is not allowed changes nothing, as in Kafka, which logs it."""
        segment_id = event.remote_log_segment_id.id
        known = self.segments.get(segment_id)
        if isinstance(event, SegmentUpdate):
            if known is None or event.state not in ALLOWED[known.state] or event.state is _STARTED:
                return self
            return self._moved(updated(known, event))
        if event.state is not _STARTED or (known is not None and known.state is not _STARTED):
            return self
        return self._changed(
            event,
            {entry.epoch: self._epoch(entry.epoch).with_unreferenced(segment_id) for entry in event.segment_leader_epochs},
        )

    def _moved(self, segment: RemoteLogSegmentMetadata) -> RemoteSegments:
        segment_id = segment.remote_log_segment_id.id
        epochs = {}
        for number, entry in enumerate(segment.segment_leader_epochs):
            epoch = self._epoch(entry.epoch)
            if segment.state is _FINISHED:
                epochs[entry.epoch] = epoch.with_serving(segment_id, entry.start_offset, segment.epoch_end(number))
            elif segment.state is _DELETING:
                epochs[entry.epoch] = epoch.without_serving(segment_id, entry.start_offset)
            else:
                epochs[entry.epoch] = epoch.without(segment_id)
        return self._changed(segment, epochs)

    def _changed(self, segment: RemoteLogSegmentMetadata, epochs: dict[int, _Epoch]) -> RemoteSegments:
        segment_id = segment.remote_log_segment_id.id
        gone = segment.state is _DELETED
        segments = _without(self.segments, segment_id) if gone else _with(self.segments, segment_id, segment)
        return RemoteSegments(segments, MappingProxyType(self._epochs | epochs))

    def _epoch(self, epoch: int) -> _Epoch:
        return self._epochs.get(epoch, _Epoch())

    def serving(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The finished segment that has ``offset`` as one of ``epoch``."""
        serving = self._epoch(epoch).serving
        starts = list(serving)
        before = bisect_right(starts, offset)
        if not before:
            return None
        found = self.segments[serving[starts[before - 1]]]
        (end,) = (found.epoch_end(n) for n, entry in enumerate(found.segment_leader_epochs) if entry.epoch == epoch)
        return found if offset <= end else None

    def of_epoch(self, epoch: int) -> tuple[RemoteLogSegmentMetadata, ...]:
        """All segments with records of an epoch, whatever their state, by their start offset."""
        known = self._epoch(epoch)
        found = [self.segments[segment] for segment in {*known.serving.values(), *known.unreferenced}]
        return tuple(sorted(found, key=lambda segment: (segment.start_offset, segment.remote_log_segment_id.id)))

    def highest_offset(self, epoch: int) -> int:
        """The last offset of the epoch that was ever in the tier; -1 when none was."""
        return self._epoch(epoch).highest

    def epochs(self) -> Iterator[int]:
        """The epochs with segments, rising."""
        return iter(sorted({entry.epoch for segment in self.segments.values() for entry in segment.segment_leader_epochs}))
