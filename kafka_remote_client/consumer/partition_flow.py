"""The state of one assigned partition: the path that delivers it, what was delivered, and what comes next.

A flow on the REMOTE route owns a reader and keeps the inner consumer's partition paused; on the BROKER route the inner consumer
delivers. Before either, a flow may wait for the answer that decides its route. Nothing is delivered until then, and the inner
consumer's partition is paused. route_state.py has every change of a route.

A record is first *gathered* from either tier and then *handed out* (delivered to the application): stored offset and position
follow the second, and records that are gathered but not handed out can be taken back.

======================  ================================================================================================
``next_offset``         the offset to gather next, or a logical one while that is not known; on the BROKER route the offset of
                        the inner consumer's last start or seek, and not its position
``assigned_at``         the result of ``Consumer.assignment``: the offset that the partition was assigned with, with its epoch
                        and the application's metadata
``reached``             the offset after the records gathered from the tier and the markers and aborted records that follow;
                        ``reached_epoch`` is the leader epoch there
``position``            the result of ``Consumer.position``: the offset after the last record handed out and the markers that
                        were passed after it (passed_markers.py); OFFSET_INVALID before the first and after a seek
``stored``              the stored offset that librdkafka would have, ``highest_stored`` the highest so far
``floor``               the committed offset that the partition began at: no stored offset up to it is committed, until another
                        commit was made (committed_offsets.py)
======================  ================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, TopicPartition

from kafka_remote_client.consumer.damage import Damage, damage_of
from kafka_remote_client.consumer.message_positions import end_of, epoch_of
from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.route_state import IllegalRouteError, Route, RouteEvent, next_route
from kafka_remote_client.consumer.tier_log import Tier, TierLogs
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, PartitionOffsets
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["PartitionFlow", "topic_partition", "with_metadata"]

_T = TypeVar("_T")

_LONGEST_BACKOFF_SECONDS = 15.0
"""Together with the breaker's 10 s this stays below the 30 s within which a recovered store is used again."""


_TIERS = {Route.BROKER: Tier.BROKER, Route.REMOTE: Tier.REMOTE}


def topic_partition(topic: str, partition: int, offset: int, leader_epoch: int) -> TopicPartition:
    """confluent_kafka's value, with the leader epoch where there is an offset and the epoch is known."""
    if offset >= 0 and leader_epoch != UNKNOWN_EPOCH:
        return TopicPartition(topic, partition, offset, leader_epoch=leader_epoch)
    return TopicPartition(topic, partition, offset)


def with_metadata(place: TopicPartition, metadata: str | None) -> TopicPartition:
    """``place`` with the application's metadata, which cannot be set."""
    if metadata is None:
        return place
    return TopicPartition(place.topic, place.partition, place.offset, metadata, epoch_of(place.leader_epoch))


class PartitionFlow:
    """See the module. Not thread-safe: only the application's calls touch it."""

    def __init__(
        self,
        topic: str,
        partition: int,
        next_offset: int,
        leader_epoch: int = UNKNOWN_EPOCH,
        tiers: TierLogs | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.assigned_at, self.assigned_epoch = next_offset, leader_epoch
        self.assigned_metadata: str | None = None
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.reached = self.position = OFFSET_INVALID
        self.reached_epoch = self.position_epoch = UNKNOWN_EPOCH
        self.stored: TopicPartition | None = None
        self.highest_stored = self.floor = OFFSET_INVALID
        self.inner_position = OFFSET_INVALID
        """Where the inner consumer stood when it was last asked."""
        self.inner_has_read = False
        """Whether the inner consumer is known to have had a position since it was started or sought."""
        self.went_back = False
        """Whether the inner consumer delivered records below the position. Its own position then stays at the higher one until
        a seek, because ``rd_kafka_q_serve_rkmessages`` never lowers it."""
        self.floor_epoch = UNKNOWN_EPOCH
        self.route = Route.STARTING
        self.decide_by = math.inf
        """The time, on the monotonic clock, from which the broker delivers even with unknown bounds."""
        self.unknown_until = 0.0
        """The time until which a seek does not request the bounds, because they were unknown shortly before."""
        self.paused = self.revoked = False
        self.moved = False
        """Whether ``next_offset`` differs from where the inner consumer stands, so that a hand-over has to seek."""
        self.topic_id = ZERO_UUID
        """The id of the topic whose records were read from the tier; zeros = not known."""
        self.doubted = self.looked_again = False
        """Whether librdkafka may take another topic's log for this one (:meth:`goes_back_to`), and whether that was checked."""
        self.refused_at: float | None = None
        """Since when librdkafka refuses to seek the partition because it has not started it."""
        self.damage: Damage | None = None
        """The damage in the tier that was found and has not been passed."""
        self.halted = False
        """Whether it is damaged at the broker too, so that nothing is delivered."""
        self.nothing_committed = False
        """Whether nothing is committed, and ``auto.offset.reset`` makes an error of that, which has not arrived yet."""
        self.was_empty = False
        """Whether the log was empty when its end was looked up for the start."""
        self.offsets = PartitionOffsets()
        self.recheck_at = 0.0
        self.failures = 0
        self.tiers = TierLogs() if tiers is None else tiers
        self.record_bytes = 0
        """Bytes of keys, values and headers gathered from the tier."""
        self.reader: RemoteReader | None = None
        self._block: RecordBlock | None = None
        self._index = 0

    def __repr__(self) -> str:
        return f"PartitionFlow({self.topic}-{self.partition}, {self.route.name}, next_offset={self.next_offset})"

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def bare(self) -> TopicPartition:
        """This partition without an offset."""
        return TopicPartition(self.topic, self.partition)

    @property
    def here(self) -> TopicPartition:
        """This partition at its next offset."""
        return topic_partition(self.topic, self.partition, self.next_offset, self.leader_epoch)

    @property
    def handed(self) -> TopicPartition:
        """This partition at its position."""
        return topic_partition(self.topic, self.partition, self.position, self.position_epoch)

    @property
    def inner_start(self) -> TopicPartition:
        """The position for an assignment or a seek of the inner consumer.

        A partition that it does not deliver yet is paused first, so it sends no fetch for it. The position is a number: a
        look-up of a logical offset runs in the background and could undo a later seek.
        """
        if self.below_local and not self.route.awaits:
            self.moved = True
            return TopicPartition(self.topic, self.partition, self.offsets.high_watermark)
        if self.route.awaits and self.next_offset < 0:
            self.moved = True
            return TopicPartition(self.topic, self.partition, 0)
        return self.here

    @property
    def is_sought_first(self) -> bool:
        """Whether the inner consumer is sought to the next offset before it is resumed, so that it fetches nowhere else.

        Not to the end of an empty log, which starts at 0, where the inner consumer stands: a resume delays a look-up by half a
        second. Nor to an error (-1001), which it would drop.
        """
        return self.next_offset >= 0 or not (self.next_offset == OFFSET_INVALID or self.was_empty)

    def begins_at(self, committed: TopicPartition, reset_offset: int, end: int | None) -> None:
        """The committed offset arrived. Without one, the partition begins at ``reset_offset``.

        ``end``: the end of the log, if that was looked up. It is used as a number, except 0.
        """
        self.next_offset, self.leader_epoch = committed.offset, epoch_of(committed.leader_epoch)
        if committed.offset < 0:
            self.next_offset = end or reset_offset
            self.nothing_committed = reset_offset == OFFSET_INVALID
        self.was_empty = end == 0

    def learn(self, offsets: PartitionOffsets) -> None:
        """Takes the tiers' bounds; "the beginning" becomes the log's start."""
        self.offsets = offsets
        if self.next_offset == OFFSET_BEGINNING and offsets.log_start != UNKNOWN_OFFSET:
            self.next_offset = offsets.log_start

    @property
    def bounds(self) -> PartitionOffsets:
        """The latest known bounds of the tiers. Any thread may call it."""
        reader = self.reader
        return self.offsets if reader is None or reader.offsets.high_watermark == UNKNOWN_OFFSET else reader.offsets

    @property
    def may_be_tiered(self) -> bool:
        """Whether the next offset names a place in the log's past."""
        return self.next_offset >= 0 or self.next_offset == OFFSET_BEGINNING

    @property
    def below_local(self) -> bool:
        """Whether the next offset is known to lie below the broker's local log."""
        known = self.offsets.high_watermark != UNKNOWN_OFFSET
        return known and 0 <= self.next_offset < self.offsets.earliest_local

    @property
    def held(self) -> bool:
        """Whether the inner consumer must not fetch: the tier delivers, or the route is not decided."""
        return self.route.awaits or self.below_local

    def change_route(self, event: RouteEvent) -> None:
        """Sets the route after ``event``; a tier delivers from the next offset on. Raises IllegalRouteError."""
        try:
            self.route = next_route(self.route, event)
        except IllegalRouteError as error:
            raise IllegalRouteError(f"{self.topic}-{self.partition}: {error}") from None
        self.inner_position, self.inner_has_read = OFFSET_INVALID, False
        if self.route in _TIERS:
            self.tiers.begin(self.key, _TIERS[self.route], self._first_offset)

    @property
    def _first_offset(self) -> int | None:
        """The next record's offset or one before it; ``None`` where the broker decides where to begin."""
        outside = self.offsets.high_watermark != UNKNOWN_OFFSET and not (
            self.offsets.log_start <= self.next_offset <= self.offsets.high_watermark
        )
        return None if self.next_offset < 0 or outside else self.next_offset

    def sought(self, target: PartitionFlow) -> None:
        """The application moved the partition to the position of ``target``, and the inner consumer with it.

        The caller must choose the route, unless the route of ``target`` waits for an answer.
        """
        self.next_offset = target.next_offset
        self.leader_epoch = target.leader_epoch
        self.offsets = target.offsets
        self.recheck_at = target.recheck_at
        self.reached = self.position = OFFSET_INVALID
        self.reached_epoch = self.position_epoch = UNKNOWN_EPOCH
        self.went_back = False
        self.tiers.leave(self.key)
        self.change_route(RouteEvent.SOUGHT)
        if target.route.awaits:
            self.change_route(RouteEvent.BOUNDS_ASKED)
        self.decide_by, self.unknown_until = target.decide_by, target.unknown_until
        self.moved, self.halted, self.nothing_committed = target.moved, False, False
        self.damage = None
        self.was_empty = False
        self.topic_id, self.doubted, self.looked_again = ZERO_UUID, False, False

    def detach(self) -> None:
        """Stops reading. Records that were read ahead are dropped."""
        if self.reader is not None:
            self.offsets = self.bounds
            self.topic_id = self.reader.topic_id
            self.reader.stop()
        self.reader = None
        self._block = None
        self._index = 0

    @property
    def is_unread(self) -> bool:
        """Whether the tier delivers, but nothing reads it: a signal's handler raised in the middle of a hand-over."""
        if self.route is not Route.REMOTE or self.paused or self.revoked or self._block is not None:
            return False
        return self.reader is None or self.reader.state is ReaderState.ENDED

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`take` would return something. Takes no lock."""
        return self._block is not None or (self.reader is not None and self.reader.has_ready)

    def take(self, limit: int, form: Callable[[RecordBlock, str, int, int, int], _T]) -> tuple[_T, int] | ReadEnd | None:
        """Returns up to ``limit`` next records and their share of the block's bytes, the reader's end, or ``None``.

        ``form`` makes the result from the block, its topic and partition, the first record and the one after the last. It must
        copy, because the block's memory is reused. The records count as gathered: ``next_offset`` and ``reached`` move past
        them.
        """
        if self._block is None:
            item = self.reader.take() if self.reader is not None else None
            if item is None or isinstance(item, ReadEnd):
                return item
            self._block, self._index = item, 0
        block = self._block
        stop = min(len(block), self._index + limit)
        taken = form(block, self.topic, self.partition, self._index, stop)
        size = block.nbytes * (stop - self._index) // len(block)
        self.moved = True
        self.record_bytes += size
        self._index = stop
        if stop < len(block):
            self.gathered_to(block.offset(stop - 1) + 1, block.leader_epoch(stop - 1))
        else:
            self.gathered_to(block.next_offset, block.last_leader_epoch)  # with the markers at its end
            self._block = None
            if self.reader is not None:
                self.reader.release()  # the taken records are copies, and all partitions share the memory
        return taken, size

    def ended(self, end: ReadEnd) -> None:
        """The reader's end was taken: the broker continues.

        In the log of another topic the plain consumer's fetch is out of range, and the reset policy applies. If it is sought
        with an epoch of the old log, librdkafka compares the logs and continues at the end of the new one instead.
        """
        self.next_offset = end.next_offset
        self.leader_epoch = UNKNOWN_EPOCH if end.is_of_another_topic else end.leader_epoch
        self.damage = damage_of(end)
        self.doubted = self.leader_epoch != UNKNOWN_EPOCH and self.damage is None and not self.looked_again
        self.looked_again = False

    def goes_back_to(self, offset: int) -> bool:
        """Whether the log ends before the hand-over, at ``offset`` or before. If so, a reader has to look again.

        Either it was cut, or the topic was deleted and created again. To librdkafka, which compares epochs, both look alike.
        """
        self.doubted, self.looked_again = False, offset < self.next_offset
        return self.looked_again

    def pass_over(self) -> bool:
        """Counts offsets that the reader passed without a record as gathered. Returns whether there were any."""
        passed = None if self.reader is None or self.has_ready else self.reader.passed()
        if passed is None or passed[0] <= self.next_offset:
            return False
        self.gathered_to(*passed)
        self.moved = True
        return True

    def gathered_to(self, offset: int, leader_epoch: int) -> None:
        """All records below ``offset`` were gathered; ``leader_epoch`` is that of the last batch there."""
        self.next_offset = self.reached = offset
        self.leader_epoch = self.reached_epoch = leader_epoch

    def stands_at(self, place: TopicPartition) -> None:
        """The inner consumer delivered everything before ``place`` to the application."""
        self.inner_has_read = True
        self.position, self.position_epoch = place.offset, epoch_of(place.leader_epoch)

    def handed_out(self) -> bool:
        """All gathered records were delivered. Returns whether the position moves: the broker may have passed it."""
        if self.reached <= self.position:
            return False
        self.position, self.position_epoch = self.reached, self.reached_epoch
        return True

    @property
    def delivered_by_broker(self) -> bool:
        """Whether the inner consumer delivers, and has not moved."""
        return self.route is Route.BROKER and not self.moved

    @property
    def inner_went_back(self) -> bool:
        """Whether an inner consumer that has no position now had one since it was started or sought.

        It found that the log was cut before its position, and continues at the cut. Where that is, only its next record tells
        (``rd_kafka_toppar_handle_OffsetForLeaderEpoch``).
        """
        return self.inner_has_read or self.position > self.next_offset >= 0

    def inner_stands_at(self, place: TopicPartition) -> bool:
        """The inner consumer has passed everything before ``place``, and no record waits. Returns whether the position moves.

        If the inner consumer has not moved, its position is not reliable: ``rd_kafka_q_serve_rkmessages`` keeps the higher one
        when a log starts again below it.
        """
        before, self.inner_position = self.inner_position, place.offset
        if place.offset == before or place.offset <= self.position:
            return False
        self.stands_at(place)
        return True

    def handed_out_to(self, last: Piece) -> None:
        """Records up to ``last`` were delivered to the application."""
        end, epoch = end_of(last)
        self.went_back |= end < self.position
        self.position, self.position_epoch = end, epoch

    def continue_at_position(self) -> None:
        """The inner consumer's own position is too high: a seek has to bring it to the next record."""
        self.gathered_to(self.position, self.position_epoch)
        self.moved = True

    def stores(self, place: TopicPartition) -> TopicPartition:
        """Sets the stored offset to ``place``. Returns what the inner consumer must store: this, or "nothing is stored"."""
        self.stored = place
        offset = place.offset
        self.highest_stored = max(self.highest_stored, offset)
        if offset > self.floor:
            return place
        return self.bare if offset < 0 or self.withheld is not None else place

    @property
    def withheld(self) -> TopicPartition | None:
        """The stored offset that may not be committed: it is not past ``floor``, by leader epochs first if both have one."""
        place = self.stored
        if place is None or not 0 <= place.offset <= self.floor:
            return None
        epoch = epoch_of(place.leader_epoch)
        known = UNKNOWN_EPOCH not in (epoch, self.floor_epoch)
        return None if known and epoch > self.floor_epoch else place

    def lift(self) -> TopicPartition | None:
        """Another commit was made: the stored offset may be committed. Returns the withheld one."""
        withheld = self.withheld
        self.floor, self.floor_epoch = OFFSET_INVALID, UNKNOWN_EPOCH
        return withheld

    def take_back(self, offset: int) -> None:
        """Records gathered from ``offset`` on were not delivered, and must be read again."""
        self.moved = True
        self.next_offset = offset
        self.leader_epoch = self.position_epoch
        self.reached, self.reached_epoch = self.position, self.position_epoch

    def backoff_seconds(self, first: float) -> float:
        """The pause after one more failure in a row: doubles from ``first`` to 15 s, or stays at a longer ``first``."""
        self.failures += 1
        longest = max(first, _LONGEST_BACKOFF_SECONDS)
        return min(longest, first * float(2 ** min(self.failures - 1, 10)))
