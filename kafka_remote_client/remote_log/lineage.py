"""The lineage of a log: which leader epoch wrote which offsets.

A lineage is a list of (epoch, first offset), rising in both. The leader has it on its disk, and every tiered segment has a copy
up to its own end. The tier may also have segments of an older leader that an unclean election truncated. Their epochs differ
from the lineage, and these offsets are not part of the log.

References: Kafka's LeaderEpochFileCache, RemoteLogManager.isRemoteSegmentWithinLeaderEpochs; KIP-101.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kafka_remote_client.model import UNKNOWN_EPOCH, EpochEntry, RemoteLogSegmentMetadata, is_epoch_possible

__all__ = ["LeaderEpochLineage"]


class LeaderEpochLineage:
    """An immutable lineage, without epochs that have no offsets (the next epoch has the same start)."""

    __slots__ = ("_entries", "_pairs", "_starts")

    def __init__(self, entries: Sequence[EpochEntry]) -> None:
        """Raises ValueError unless epochs rise and start offsets do not fall."""
        kept: list[EpochEntry] = []
        for entry in entries:
            if kept and (entry.epoch <= kept[-1].epoch or entry.start_offset < kept[-1].start_offset):
                raise ValueError(f"leader epochs are not in order: {kept[-1]} before {entry}")
            if kept and kept[-1].start_offset == entry.start_offset:
                kept.pop()
            kept.append(entry)
        self._entries = tuple(kept)
        self._pairs = [(entry.epoch, entry.start_offset) for entry in kept]
        self._starts = [entry.start_offset for entry in kept]

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    def __iter__(self) -> Iterator[EpochEntry]:
        return iter(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochLineage) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(self._entries)

    def __repr__(self) -> str:
        return f"LeaderEpochLineage({', '.join(f'{e.epoch}@{e.start_offset}' for e in self._entries)})"

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote ``offset``; UNKNOWN_EPOCH below the first entry."""
        at = bisect_right(self._starts, offset)
        return self._entries[at - 1].epoch if at else UNKNOWN_EPOCH

    def may_hold(self, epoch: int, first_offset: int, last_offset: int) -> bool:
        """Whether a batch with those offsets may have that epoch."""
        return is_epoch_possible(self._pairs, epoch, first_offset, last_offset)

    def entry_number(self, offset: int) -> int:
        """The place in ``entries`` of the epoch that wrote ``offset``; 0 below the first entry."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def next_start(self, offset: int) -> int | None:
        """The start offset of the epoch after the one of ``offset``; None in the last one."""
        at = bisect_right(self._starts, offset)
        return self._starts[at] if at < len(self._starts) else None

    def agreed_end(self, metadata: RemoteLogSegmentMetadata, offset: int) -> int:
        """The first offset at or after ``offset`` where the segment's epochs differ from the lineage, else its end + 1."""
        at = offset
        while at <= metadata.end_offset and metadata.epoch_for_offset(at) == self.epoch_for_offset(at):
            boundaries = [entry.start_offset for entry in metadata.segment_leader_epochs if entry.start_offset > at]
            if (following := self.next_start(at)) is not None:
                boundaries.append(following)
            at = min([*boundaries, metadata.end_offset + 1])
        return at
