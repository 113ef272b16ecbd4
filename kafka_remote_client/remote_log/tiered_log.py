"""The tier of one partition as a log: its segments in order, along a lineage of leader epochs.

The next segment is the one that holds the end + 1 in the epoch that the lineage has for this offset, as in the broker's own
reader. If the lineage leaves a segment before its end, the next segment begins there.

References: Kafka's RemoteLogManager (fetchNextSegmentWithTxnIndex, findHighestRemoteOffset).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.segment_spans import SegmentSpan, proportional

__all__ = ["TieredLog", "TieredSegment"]


@attrs.frozen
class TieredSegment:
    """A segment and the offsets ``[start, end)`` of it that belong to the log."""

    metadata: RemoteLogSegmentMetadata
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether the log holds the segment up to the segment's own end."""
        return self.end == self.metadata.end_offset + 1

    @property
    def span(self) -> SegmentSpan:
        """The offsets of it that belong to the log, with bytes in proportion."""
        metadata = self.metadata
        whole = metadata.end_offset + 1 - metadata.start_offset
        size = proportional(metadata.segment_size_in_bytes, self.end - self.start, whole)
        youngest = metadata.max_timestamp_ms if metadata.max_timestamp_ms >= 0 else None
        return SegmentSpan(self.start, self.end, size, youngest)


@attrs.frozen
class TieredLog:
    """The segments of ``cache`` that are on ``lineage``."""

    cache: RemoteLogMetadataCache
    lineage: LeaderEpochLineage

    def segment_for_offset(self, offset: int) -> TieredSegment | None:
        """The segment that holds ``offset``; None when the tier has no such offset in this lineage."""
        metadata = self.cache.remote_log_segment_metadata(self.lineage.epoch_for_offset(offset), offset)
        if metadata is None:
            return None
        end = self.lineage.agreed_end(metadata, offset)
        # A record may have epochs outside of its segment. Without offsets, a walk along the log would not end.
        return TieredSegment(metadata, offset, end) if end > offset else None

    def segments_from(self, offset: int) -> Iterator[TieredSegment]:
        """The segments from the one that holds ``offset`` up to the first missing offset."""
        while (segment := self.segment_for_offset(offset)) is not None:
            yield segment
            offset = segment.end

    def all_segments(self, offset: int = 0) -> Iterator[TieredSegment]:
        """All segments that hold offsets from ``offset`` on; offsets may be missing between them."""
        at: int | None = offset
        while at is not None:
            for segment in self.segments_from(at):
                yield segment
                at = segment.end
            at = self._next_start(at)

    def start_offset(self) -> int | None:
        """The lowest offset in the tier; None when there is none."""
        return next((segment.start for segment in self.all_segments()), None)

    def end_offset(self) -> int | None:
        """The first offset after the highest one that is tiered in this lineage (latest-tiered + 1)."""
        following: int | None = None
        for entry in reversed(self.lineage.entries):
            highest = self.cache.highest_offset_for_epoch(entry.epoch)
            if highest >= entry.start_offset:
                return highest + 1 if following is None else min(highest + 1, following)
            following = entry.start_offset
        return None

    def _next_start(self, offset: int) -> int | None:
        """The next offset above ``offset`` at which a segment begins, for the epochs of the lineage from there on."""
        entries = self.lineage.entries
        for number in range(self.lineage.entry_number(offset), len(entries)):
            entry = entries[number]
            following = self.lineage.next_start(entry.start_offset)
            # After DeleteRecords the lineage may begin within a segment.
            if entry.start_offset > offset and self.segment_for_offset(entry.start_offset) is not None:
                return entry.start_offset
            begin = max(offset + 1, entry.start_offset)
            metadata = self.cache.next_remote_log_segment_metadata(entry.epoch, begin)
            if metadata is None:
                continue
            start = next(e.start_offset for e in metadata.segment_leader_epochs if e.epoch == entry.epoch)
            if following is None or start < following:
                return start
        return None
