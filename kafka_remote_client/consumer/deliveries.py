"""Deliveries: records of both tiers, gathered into one list and handed out when the application's call returns.

Calls that deliver also poll the inner consumer, because only that counts for ``max.poll.interval.ms`` and serves callbacks:
each call, or ten times a second while the tier alone delivers. A callback that runs in between may seek, pause or revoke;
gathered records of that partition are then taken back. An exception of a callback is held until the inner call has returned
its records (held_exceptions.py), and the rest of the list then belongs to the next call. Records that :meth:`Deliveries.poll`
gathers ahead, from either tier, wait in delivery_queue.py: nearly all calls of ``poll`` only take the next message of it.

Positions and stored offsets follow the delivered records, and pass later markers by librdkafka's rule (passed_markers.py).
tier_log.py records the tiers at each change of a route, so this adds no cost per record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

import attrs
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.error import ConsumeError

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.call_arguments import both
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from kafka_remote_client.consumer.gathered import Gathered
from kafka_remote_client.consumer.held_exceptions import HeldExceptions
from kafka_remote_client.consumer.inner_behaviour import InnerBehaviour
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.message_positions import end_of, key_of, offset_of
from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.partition_flow import PartitionFlow, with_metadata
from kafka_remote_client.consumer.passed_markers import PassedMarkers
from kafka_remote_client.consumer.read_progress import ProgressCallback, ProgressReports
from kafka_remote_client.consumer.route_state import Route, RouteEvent
from kafka_remote_client.consumer.routing import Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.tier_log import Tier, TierLogs
from kafka_remote_client.fetch.engine import FetchEngine

__all__ = ["Deliveries"]

_AHEAD = 500
_AHEAD_BYTES = 4 * 1024 * 1024
_SAMPLE = 8
"""The most messages that poll() gathers, and the most bytes of values, estimated from some of the last ones."""

_INNER_SECONDS = 0.1
"""The longest inner call between two checks of the routes, because a callback in it may have changed them."""
_LEAST_SECONDS = 0.001
"""librdkafka's unit of time-outs: it does not wait for less."""
_WAKE_SECONDS = 0.01
"""The longest wait for the engine between two looks at both tiers."""

_FATAL = KafkaError._FATAL
_LATE = KafkaError._MAX_POLL_EXCEEDED
_LOSS_SECONDS = 1.0
"""How long nothing of the store is delivered after that error, while librdkafka takes the partitions away."""
_ASYNCHRONOUS_SECONDS = 0.25
_SYNCHRONOUS_SECONDS = 1.0
"""How long a commit may wait for the committed offsets of partitions that begin there."""

_Take = Callable[[int], Sequence[Piece] | None]
"""Returns at most so many available records of the tier, as messages or runs; ``None`` if there are none."""


@attrs.define(eq=False, slots=False)
class Deliveries:
    """See the module. Only calls inside the consumer's gate use it, except :attr:`closing`, :meth:`switch` and
    :meth:`serve_first`."""

    _inner: InnerConsumer
    _engine: FetchEngine
    _flows: SubscriptionState
    _tiers: TierLogs
    _routing: Routing
    _commits: CommittedOffsets
    _remote: RemoteFetchConfig
    _behaviour: InnerBehaviour
    _clock: Clock
    gathered: Gathered = attrs.field(factory=Gathered, init=False)
    broker_records: int = attrs.field(default=0, init=False)
    """The number of records from the inner consumer."""
    serves_callbacks: bool = attrs.field(default=False, init=False)
    """Whether a poll of the inner consumer runs, so that the current call comes from a callback."""
    closing: bool = attrs.field(default=False, init=False)
    """Whether waiting calls must end, because another thread closes the consumer."""

    def __attrs_post_init__(self) -> None:
        self._stores = self._behaviour.stores_offsets is True
        self.queue = DeliveryQueue(self._commits.store_last if self._stores else None)
        store_passed = self._commits.store_passed if self._stores else None
        self.markers = PassedMarkers(self._flows, self.queue, self._inner.position, store_passed)
        self.held = HeldExceptions()
        self._progress = ProgressReports(self._remote.progress_interval_ms / 1000)
        self._switched = self._broker_turn = self._of_one_partition = self._failed = False
        self._serve_at = self._lost_by = 0.0
        self._ahead = _AHEAD // _SAMPLE

    # -- calls that deliver ------------------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> Message | None:
        """The slow path of poll(): gathers a slice and returns its first message."""
        if self.queue.due:
            self._serve_at = 0.0
        deadline = self._begin(timeout)
        left = 0.0
        while True:
            self._look(_left(deadline) if left else 0.0)
            self._gather_slice(left)
            message = self._begin_slice() if self.gathered.pieces else None
            if message is not None or self._ends(deadline):
                return message
            left = _patience(deadline)

    def consume(self, wanted: int, timeout: float) -> list[Message]:
        """Waits for ``wanted`` messages until ``timeout`` seconds are over."""
        self._gather(wanted, timeout, self._routing.take)
        self.gathered.as_messages()
        return cast("list[Message]", self._hand_out(wanted))

    def consume_runs(self, wanted: int, timeout: float) -> list[Piece]:
        """The same with runs instead of messages from the store, and without errors.

        An error ends the batch, even before ``timeout``: the call returns the records before it, and the next call raises it as
        ConsumeError.
        """
        self.settle()
        self.gathered.look_for_errors()
        self._gather(wanted, timeout, self._take_run, to_error=True)
        batch = self._hand_out(self.gathered.pieces_of(wanted))
        if batch and (error := batch[0].error()) is not None:
            raise ConsumeError(error, kafka_message=cast("Message", batch[0]))
        return batch

    def _gather(self, wanted: int, timeout: float, take: _Take, *, to_error: bool = False) -> None:
        """Gathers until there are ``wanted`` records or ``timeout`` seconds are over; ``to_error``: or until an error."""
        deadline = self._begin(timeout)
        left = _INNER_SECONDS if deadline is None else min(timeout, _INNER_SECONDS)
        while True:
            self._look(_left(deadline))
            if self._flows.routes.any_not_by_broker:
                self._gather_both(wanted, take)
            else:
                room = wanted - len(self.gathered)
                enough = room <= 0 or (to_error and self.gathered.error_waits)
                self._gather_broker(max(room, 1), 0 if enough else left)  # with enough records too: it serves callbacks
            if len(self.gathered) >= wanted or (to_error and self.gathered.error_waits) or self._ends(deadline):
                return
            left = _patience(deadline)
            if self._flows.routes.any_not_by_broker:
                self._engine.wait(min(left, _WAKE_SECONDS))

    def _begin(self, timeout: float) -> Deadline | None:
        self.settle()
        self.markers.delivery_begins(self.gathered.pieces)
        self._of_one_partition = False
        return None if timeout < 0 else Deadline(self._clock, timeout)

    def _look(self, seconds: float) -> None:
        """Prepares gathering: updates the routes, and takes the answers about the starts of partitions."""
        if self._flows.routes.undecided and not self.closing:
            self._routing.decide(seconds)
        if self._switched:
            self._switched = False
            self._routing.switched(self.take_back)
        if self._routing.recheck(self.gathered.pieces):
            self._seek_what_went_back()
            self.markers.look(self.gathered.pieces)
            callback: ProgressCallback | None = self._remote.progress_cb
            for progress in () if callback is None else self._progress.due(self._clock.monotonic(), self._flows):
                if callback is not None and self._flows.get(progress.topic, progress.partition) is not None:
                    callback(progress)  # an earlier call may have revoked partitions
                    self._rejoin()

    def _seek_what_went_back(self) -> None:
        """Corrects the inner consumer's own positions, to which a pause or a rebalance would return."""
        for flow in [flow for flow in self._flows if flow.went_back and flow.delivered_by_broker and not flow.paused]:
            self.take_back(flow)
            self._routing.go_broker(flow, RouteEvent.RESUMED)

    def _ends(self, deadline: Deadline | None) -> bool:
        """Whether a waiting call returns with its records. Raises if it has no time-out and another thread closes."""
        if deadline is None and self.closing:
            raise RuntimeError("Consumer closed")
        return deadline is not None and (self.closing or deadline.expired())

    # -- gathering ---------------------------------------------------------------------------------------------------------

    def _gather_slice(self, seconds: float) -> None:
        """Gathers the next slice of poll(), unless records wait; polls the inner consumer ten times a second."""
        if seconds and self._flows.routes.any_not_by_broker:
            self._engine.wait(min(seconds, _WAKE_SECONDS))
        now = self._clock.monotonic()
        serves = now >= self._serve_at
        if self.gathered.pieces:
            if serves:
                self._serve_at = now + _INNER_SECONDS
                self._gather_broker(1, 0)
        elif self._flows.routes.any_not_by_broker:
            self._gather_in_turn(now, serves=serves)
        else:
            self._gather_broker(1 if seconds else self._ahead, seconds)

    def _gather_in_turn(self, now: float, *, serves: bool) -> None:
        """Gathers available records: the tiers in turn; if the broker delivers nothing, it sometimes serves callbacks."""
        asks_broker = self._broker_turn or serves
        if asks_broker:
            self._broker_turn = False
            self._serve_at = now + _INNER_SECONDS
            self._gather_broker(self._ahead if self._flows.routes.by_broker else 1, 0)
            if self.gathered.pieces:
                return
        self._broker_turn = bool(self._flows.routes.by_broker)
        taken = None if now < self._lost_by else self._routing.take(self._ahead)
        if taken is not None:
            self.gathered.add(cast("list[Piece]", taken))
            self._of_one_partition = True
        elif not asks_broker:
            self._gather_broker(self._ahead, 0)

    def _gather_both(self, wanted: int, take: _Take) -> None:
        """Gathers available records: up to half from the broker, then from the tier, then the rest from the broker.

        If the broker has no partition to deliver, and the tier fills the call, ten polls of the inner consumer a second do.
        Each of them releases the interpreter's lock, and the threads that read the store hold it when the poll returns.
        """
        now, routes = self._clock.monotonic(), self._flows.routes
        if now < self._serve_at and not routes.by_broker and not routes.undecided:
            self._gather_tier(wanted, take)
            if len(self.gathered) >= wanted:
                return
        self._serve_at = now + _INNER_SECONDS
        self._broker_turn = not self._broker_turn
        room = wanted - len(self.gathered)
        # With enough records the inner consumer is still polled; its records then wait for the next call.
        share = (room + self._broker_turn) // 2 if room > 0 else 1
        more = self._gather_broker(share, 0) == share
        self._gather_tier(wanted, take)
        if more:
            self._gather_broker(wanted - len(self.gathered), 0)

    def _gather_tier(self, wanted: int, take: _Take) -> None:
        """Gathers available records of the tier until there are ``wanted``."""
        if self._lost_by and self._clock.monotonic() < self._lost_by:
            return
        while (room := wanted - len(self.gathered)) > 0:
            taken = take(room)
            if taken is None:
                return
            self.gathered.add(cast("list[Piece]", taken))

    def _take_run(self, limit: int) -> list[Piece] | None:
        run = self._routing.take_run(limit)
        return None if run is None else [run]

    def _gather_broker(self, room: int, seconds: float) -> int:
        """Gathers up to ``room`` messages from the inner consumer. Returns the number of its messages."""
        if room <= 0:
            return 0
        self.serves_callbacks = self.markers.unseen = True
        try:
            arrived = self._inner.consume(room, 0.0 if self.held.call_waiting() else seconds)
        finally:
            self.serves_callbacks = False
        self._rejoin()
        count = len(arrived)
        if count and self._flows.routes.redirected:
            arrived = [taken for message in arrived if (taken := self._deliverable(message)) is not None]
        if arrived:
            self._count(arrived)
            last = arrived[-1].error()
            self._failed |= last is not None and last.code() == _FATAL
            if last is not None and last.code() == _LATE:
                # librdkafka takes all partitions away and delivers nothing of them any more. Another member may have them soon.
                for flow in list(self._flows):
                    self.take_back(flow)
                arrived = [arrived[-1]]
                self._serve_at, self._lost_by = 0.0, self._clock.monotonic() + _LOSS_SECONDS
            self.gathered.add(cast("list[Piece]", arrived))
        if self._failed:
            self._forget_lost()
        self.held.come_out()
        return count

    def _rejoin(self) -> None:
        """Puts back what a poll() of a callback has read ahead and not delivered: it comes first."""
        if self.queue.messages:
            self.settle()

    def _count(self, arrived: list[Message]) -> None:
        """Counts records. A check of each message for an error would cost half as much as the delivery."""
        if self._behaviour.announces_ends or arrived[-1].error() is not None:
            records = sum(message.error() is None for message in arrived)
            self.broker_records += records
            self.gathered.error_waits |= records < len(arrived)
        else:
            self.broker_records += len(arrived)

    def _deliverable(self, message: Message) -> Message | None:
        """Returns the message of the inner consumer to deliver, or ``None``: see :meth:`Routing.deliverable`."""
        topic, partition = message.topic(), message.partition()
        flow = None if topic is None or partition is None else self._flows.get(topic, partition)
        return message if flow is None else self._routing.deliverable(flow, message)

    # -- handing out -------------------------------------------------------------------------------------------------------

    def _begin_slice(self) -> Message | None:
        self.gathered.as_messages()
        messages = cast("list[Message]", self.gathered.take(len(self.gathered.pieces)))
        if self._tiers.unplaced:
            self._place(messages)
        largest = max(map(len, messages[:: len(messages) // _SAMPLE + 1]))
        self._ahead = max(1, min(2 * self._ahead, _AHEAD, _AHEAD_BYTES // (largest + 1)))
        return self.queue.hand_out(messages, of_one_partition=self._of_one_partition or len(self._flows) == 1)

    def _hand_out(self, limit: int) -> list[Piece]:
        """Returns the first ``limit`` gathered pieces; positions and stored offsets follow."""
        batch = self.gathered.take(limit)
        reached = self._reached_in(batch) if self.gathered.pieces else self._reached(batch) if batch else []
        if self._tiers.unplaced:
            self._place(batch)
        if reached:
            with suppress(KafkaException):  # all were lost meanwhile, and lost partitions store nothing
                self._inner.store_offsets(offsets=reached)
        return batch

    def _reached(self, batch: list[Piece]) -> list[TopicPartition]:
        """Moves positions past all gathered records, ``batch``. Returns the offsets to store."""
        flows, self._flows.advanced = self._flows.advanced, set()
        self._notice_backward(batch)
        for flow in flows:
            flow.handed_out()
        flows.update(self.markers.delivered(batch))
        return [flow.stores(flow.handed) for flow in flows] if self._stores else []

    def _notice_backward(self, batch: list[Piece]) -> None:
        """Notices records below the position. It examines only the ends of the batch, where each partition comes in turn."""
        for piece in (batch[0], batch[-1]):
            flow = self._flows.get(*key_of(piece))
            if flow is not None and piece.error() is None:
                flow.went_back |= end_of(piece)[0] < flow.position

    def _reached_in(self, batch: list[Piece]) -> list[TopicPartition]:
        """Moves positions past the last record of each partition in ``batch``. Returns the offsets to store."""
        for message in batch:
            self._note_handed_out(message)
        flows = {key: self._flows.get(*key) for key in map(key_of, batch)} if self._stores else {}
        return [flow.stores(flow.handed) for flow in flows.values() if flow is not None and flow.position >= 0]

    def _note_handed_out(self, message: Piece) -> None:
        flow = self._flows.get(*key_of(message))
        if flow is not None and message.error() is None:
            flow.handed_out_to(message)

    def _place(self, batch: Sequence[Piece]) -> None:
        """Records starts that were unknown, when the first records are delivered."""
        unplaced = [TopicPartition(*key) for key in self._tiers.unplaced]
        begun = {(tp.topic, tp.partition) for tp in self._inner.position(unplaced) if tp.offset >= 0}
        for message in batch:
            if not begun:
                return
            key = key_of(message)
            if key in begun and message.error() is None:
                self._tiers.place(key, offset_of(message))
                begun.discard(key)

    # -- what other calls ask of it ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Called before offsets can be observed: counts poll()'s delivered records, and regathers the waiting ones."""
        lasts, waiting = self.queue.settle()
        for last in lasts:
            self._note_handed_out(last)
        self.gathered.put_back(waiting)

    def seal(self, flows: Iterable[PartitionFlow]) -> None:
        """Settles, and records the delivered offsets of partitions whose position may be lost."""
        self.settle()
        sealed = list(flows)
        self.markers.before_loss(sealed, self.gathered.pieces)
        for flow in sealed:
            self._tiers.seal(flow.key, flow.position)

    def take_back(self, flow: PartitionFlow) -> None:
        """Removes a partition's gathered records from the list. Reading must continue at the first of them.

        If there are none, it continues at the position, which is not the inner consumer's own if that went back.
        """
        self.settle()
        first = self.gathered.take_back(flow.key)
        if first is not None:
            flow.take_back(first)
            self._flows.advanced.discard(flow)
        elif flow.went_back and flow.delivered_by_broker:
            flow.continue_at_position()
        else:
            return
        self._flows.reroute()

    def forget(self, keys: Iterable[tuple[str, int]]) -> None:
        """Partitions are not assigned any more."""
        for flow in self._flows.remove(keys):
            self._commits.forget(flow)
            self.take_back(flow)
            self._tiers.leave(flow.key)

    def _forget_lost(self) -> None:
        """Forgets the partitions that librdkafka took away after a fatal error, as from a static member that was fenced.

        rd_kafka_rebalance_op() then calls no callback, and another member may have them already.
        """
        if len(self._flows):
            lost = self._flows.beside(self._inner.assignment())
            self.seal(lost)
            self.forget(flow.key for flow in lost)

    def commit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The application commits. A partition that waits for its committed offset begins at the one before this commit."""
        if not self.serves_callbacks and any(flow.route is Route.AWAITS_COMMITTED for flow in self._flows.routes.undecided):
            asynchronous = kwargs.get("asynchronous", args[2] if len(args) > 2 else True)
            patience = _ASYNCHRONOUS_SECONDS if asynchronous else _SYNCHRONOUS_SECONDS
            self._commits.ask_at_once(patience)
            if not self.closing:
                self._routing.decide(patience)
        self.queue.store()
        message, offsets = both("message", "offsets", args, kwargs)
        if message is None and offsets is None:  # confluent_kafka's values do not support comparison
            self.markers.before_commit(self.gathered.pieces)
        return self._commits.commit(args, kwargs)

    def position(self, answered: list[TopicPartition]) -> list[TopicPartition]:
        """Replaces positions of the inner consumer by the offsets after the delivered records. Changes and returns the list."""
        gathered = {key_of(piece) for piece in self.gathered.pieces if piece.error() is None}
        for index, tp in enumerate(answered):
            key = tp.topic, tp.partition
            flow = self._flows.get(*key)
            if flow is None or tp.error is not None:
                continue
            # It does not settle, because poll() would then regather its read-ahead for each position.
            last, waits = self.queue.delivered(key)
            if last is not None:
                flow.handed_out_to(last)
            told_inside = tp.offset >= 0 or flow.inner_went_back
            if waits or not flow.delivered_by_broker or not told_inside or key in gathered:
                answered[index] = with_metadata(flow.handed, tp.metadata)
        return answered

    def tier(self, message: Message, ask: Callable[[list[TopicPartition]], list[TopicPartition]]) -> Tier | None:
        """Returns the tier that delivered a record last. ``ask``: the consumer's ``position``, used if necessary."""
        offset = message.offset()
        if message.error() is not None or offset is None:
            return None
        key = key_of(message)
        position = -1
        if self._flows.get(*key) is not None:
            last = self.queue.last
            if last is not None and key_of(last) == key:  # the waiting records need not be gathered again
                position = offset_of(last) + 1
            else:
                position = ask([TopicPartition(*key)])[0].offset
        return self._tiers.tier(key, offset, position)

    def switch(self, enabled: bool) -> None:
        """Turns direct fetch off, or on again, in the next delivering call or in the waiting one. Any thread may call it."""
        self._routing.on = enabled
        self._switched = True
        self.queue.due = True  # poll() returns gathered records without any other check

    def serve_first(self) -> None:
        """The next call that delivers serves the inner consumer's callbacks before it returns a record. Any thread may call it.

        librdkafka has queued a revocation, and delivers nothing of these partitions any more: rd_kafka_rebalance_op() pauses
        them. Without the call, records of the store would be delivered until the inner consumer is polled again.
        """
        self._serve_at = 0.0
        self.queue.due = True

    def before_close(self) -> None:
        """Called before the inner consumer closes, which commits the offsets that are stored then."""
        self.seal(self._flows)
        self.markers.before_close(self.gathered.pieces)

    def close(self) -> None:
        """Drops all gathered records."""
        self.gathered.clear()
        self.queue.close()


def _left(deadline: Deadline | None) -> float:
    return math.inf if deadline is None else deadline.remaining()


def _patience(deadline: Deadline | None) -> float:
    """Returns the time-out of the next inner call: at least 1 ms, librdkafka's unit, because it would not wait otherwise."""
    return _INNER_SECONDS if deadline is None else min(max(deadline.remaining(), _LEAST_SECONDS), _INNER_SECONDS)
