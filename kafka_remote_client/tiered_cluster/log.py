"""A partition's log as a value: segments, leader epochs, producers, and the offsets that bound it. Kafka's UnifiedLog.

Methods return changed logs. Followers need no model of their own: a follower that lags is an earlier value of the log, or the
log cut at an offset (:meth:`PartitionLog.truncated`).

References: Kafka's UnifiedLog, LocalLog, LogSegment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from kafka_remote_client.tiered_cluster import epochs, indexes
from kafka_remote_client.tiered_cluster.batches import Batch, placed, stamped
from kafka_remote_client.tiered_cluster.epochs import Lineage
from kafka_remote_client.tiered_cluster.indexes import AbortedEntry
from kafka_remote_client.tiered_cluster.producers import NO_OFFSET, ProducerState

__all__ = ["UNLIMITED", "PartitionLog", "Segment", "TopicConfig"]

UNLIMITED = -1


@attrs.frozen
class TopicConfig:
    """Each field is Kafka's setting of that name, without time limits by default. Sizes are in bytes, times in milliseconds.

    ``UNLIMITED``: no retention limit; for copy lags, a lag that never ends. A copy lag of 0 copies at once.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    index_interval_bytes: int = 4096
    log_append_time: bool = False
    delete_retention_ms: int = 24 * 3_600_000
    min_compaction_lag_ms: int = 0
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    local_retention_ms: int = UNLIMITED
    local_retention_bytes: int = UNLIMITED
    remote_copy_lag_ms: int = 0
    remote_copy_lag_bytes: int = 0
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False


@attrs.frozen
class Segment:
    """``base_offset`` is that of the file. ``began_with``: the producers before its first batch. ``size``: in bytes."""

    base_offset: int
    batches: tuple[Batch, ...] = attrs.field(default=(), repr=False)
    aborted: tuple[AbortedEntry, ...] = ()
    began_with: ProducerState = attrs.field(factory=ProducerState, repr=False)
    size: int = attrs.field(eq=False, repr=False)

    @size.default
    def _size(self) -> int:
        return sum([len(batch.data) for batch in self.batches])

    @property
    def max_timestamp(self) -> int:
        return indexes.max_timestamp(self.batches)

    @property
    def log(self) -> bytes:
        """The file ``.log``."""
        return b"".join(batch.data for batch in self.batches)

    def is_full(self, batch: Batch, config: TopicConfig) -> bool:
        """Whether the log rolls before this batch: for its size, or for its time since the segment's first batch."""
        if not self.batches:
            return False
        waited = batch.max_timestamp - self.batches[0].max_timestamp
        return batch.size > config.segment_bytes - self.size or waited > config.segment_ms

    def with_batch(self, batch: Batch, aborted: AbortedEntry | None) -> Segment:
        entries = self.aborted if aborted is None else (*self.aborted, aborted)
        return Segment(self.base_offset, (*self.batches, batch), entries, self.began_with, self.size + len(batch.data))


@attrs.frozen
class PartitionLog:
    """``segments``: at least the active one, which is the last. ``highest_remote_offset``: -1 until a task knows it.

    ``log_start`` is the first offset in either tier, ``local_log_start`` the first one on the broker. ``cleaned_to``: where the
    cleaner has come to, which Kafka has in ``cleaner-offset-checkpoint``.
    """

    config: TopicConfig
    segments: tuple[Segment, ...] = (Segment(0),)
    producers: ProducerState = attrs.field(factory=ProducerState, repr=False)
    lineage: Lineage = ()
    log_start: int = 0
    high_watermark: int = 0
    highest_remote_offset: int = NO_OFFSET
    cleaned_to: int = 0

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        active = self.segments[-1]
        return active.batches[-1].last_offset + 1 if active.batches else active.base_offset

    @property
    def local_log_start(self) -> int:
        return max(self.log_start, self.segments[0].base_offset)

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, or the first offset below it whose transaction has no outcome yet."""
        unstable = self.producers.first_unstable_offset()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # What a leader does with a Produce.

    def appended(self, batches: Sequence[Batch], now_ms: int) -> PartitionLog:
        """The log with batches of a producer or a coordinator, one append each, in the last epoch of the lineage.

        Rolls first when a batch does not fit. The high watermark stays. Raises ValueError before the first election.
        """
        if not self.lineage:
            raise ValueError("no leader was elected: the log has no leader epoch")
        log = self
        for batch in batches:
            log = log._with_batch(stamped(batch, now_ms) if self.config.log_append_time else batch)
        return log

    def _with_batch(self, batch: Batch) -> PartitionLog:
        batch = placed(batch, self.end_offset, self.lineage[-1].epoch)
        log = self.rolled() if self.segments[-1].is_full(batch, self.config) else self
        producers, aborted = log.producers.appended(batch)
        active = log.segments[-1].with_batch(batch, aborted)
        return attrs.evolve(log, segments=(*log.segments[:-1], active), producers=producers)

    def rolled(self) -> PartitionLog:
        """The log with a new active segment, unless the active one is empty."""
        if not self.segments[-1].batches:
            return self
        active = Segment(self.end_offset, began_with=self.producers)
        return attrs.evolve(self, segments=(*self.segments, active))

    def replicated(self, offset: int | None = None) -> PartitionLog:
        """The log after the in-sync replicas have all records below ``offset``, by default all. It never moves back."""
        reached = self.end_offset if offset is None else min(offset, self.end_offset)
        high_watermark = max(self.high_watermark, reached)
        return attrs.evolve(self, high_watermark=high_watermark, producers=self.producers.replicated(high_watermark))

    # Elections.

    def elected(self, epoch: int) -> PartitionLog:
        """The log of a replica that becomes the leader of ``epoch``: it does not know yet what is in the tier."""
        lineage = epochs.assigned(self.lineage, epoch, self.end_offset)
        return attrs.evolve(self, lineage=lineage, highest_remote_offset=NO_OFFSET)

    def truncated(self, end_offset: int) -> PartitionLog:
        """The log of a replica that has no record from ``end_offset`` on, which lies at a batch's boundary or beyond the end.

        A segment that begins there stays, empty. The producers are those before the last segment, with its batches that are
        left: a transaction whose marker is lost is open again. Below the first segment none is known (truncateFullyAndStartAt).
        """
        if end_offset >= self.end_offset:
            return self
        kept = [segment for segment in self.segments if segment.base_offset <= end_offset] or [Segment(end_offset)]
        active, producers = Segment(kept[-1].base_offset, began_with=kept[-1].began_with), kept[-1].began_with
        for batch in kept[-1].batches:
            if batch.last_offset < end_offset:
                producers, aborted = producers.appended(batch)
                active = active.with_batch(batch, aborted)
        high_watermark = min(self.high_watermark, end_offset)
        return attrs.evolve(
            self,
            segments=(*kept[:-1], active),
            producers=producers.replicated(high_watermark),
            lineage=epochs.truncated_from_end(self.lineage, end_offset),
            log_start=min(self.log_start, end_offset),
            high_watermark=high_watermark,
            cleaned_to=min(self.cleaned_to, end_offset),
        )

    # What removes records.

    def with_log_start(self, offset: int) -> PartitionLog:
        """The log after DeleteRecords, or after the tier expired. Lower offsets change nothing.

        The lineage is cut, and segments below it leave the broker. Raises ValueError for an offset above the high watermark,
        which Kafka answers with OFFSET_OUT_OF_RANGE.
        """
        if offset > self.high_watermark:
            raise ValueError(f"offset {offset} is above the high watermark {self.high_watermark}")
        if offset <= self.log_start:
            return self
        kept = [segment for segment, following in self.sealed(offset)]
        lineage = epochs.truncated_from_start(self.lineage, offset)
        return attrs.evolve(self, segments=(*kept, self.segments[-1]), log_start=offset, lineage=lineage)

    def locally_expired(self, now_ms: int, *, keep_active: bool = False) -> PartitionLog:
        """The log after local retention: sealed segments from the oldest on, those in the tier only.

        A segment leaves if it is older than ``local.retention.ms``, or if the rest is still ``local.retention.bytes``. If that
        is true of all, the active segment is rolled, so that it can be copied, unless ``keep_active``.
        """
        log, excess = self, sum(segment.size for segment in self.segments) - self.config.local_retention_bytes
        while self._breaches(log.segments[0], excess, now_ms):
            if len(log.segments) == 1:
                return log.rolled() if log.end_offset == log.high_watermark and not keep_active else log
            if log.segments[1].base_offset > self.highest_remote_offset + 1:
                return log
            excess -= log.segments[0].size
            log = attrs.evolve(log, segments=log.segments[1:])
        return log

    def _breaches(self, segment: Segment, excess: int, now_ms: int) -> bool:
        config = self.config
        by_time = config.local_retention_ms != UNLIMITED and now_ms - segment.max_timestamp > config.local_retention_ms
        return by_time or (config.local_retention_bytes != UNLIMITED and excess >= segment.size)

    def sealed(self, from_offset: int) -> Iterator[tuple[Segment, Segment]]:
        """Sealed segments with the segments after them, from the one that holds ``from_offset``."""
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            if following.base_offset > from_offset:
                yield segment, following

    def only_local_size(self) -> int:
        """Bytes of the segments that are not in the tier, the active one too."""
        return sum(segment.size for segment in self.segments if segment.base_offset >= self.highest_remote_offset)
