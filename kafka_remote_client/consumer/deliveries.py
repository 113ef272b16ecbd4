"""What the application gets: records of both tiers, gathered into one list and handed out when its call returns.

Every call that delivers also polls the inner consumer, because only that counts for ``max.poll.interval.ms`` and serves
callbacks. A callback that runs in between may seek, pause or revoke; what was gathered of that partition is then taken back.
What a callback raises is held until the inner call has given its records (held_exceptions.py), and what is left in the list
then belongs to the next call. What :meth:`Deliveries.poll` gathers ahead, from either tier, waits in delivery_queue.py: nearly
all calls of ``poll`` take the next message of that and do nothing else.

Positions and stored offsets follow what is handed out, and pass the markers behind it by librdkafka's rule (passed_markers.py).
Where tiers begin to deliver is noted as partitions change their route (tier_log.py): nothing here costs a record anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

import attrs
from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.error import ConsumeError

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.arguments import both
from kafka_remote_client.consumer.assemble import InnerBehaviour
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from kafka_remote_client.consumer.held_exceptions import HeldExceptions
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.message_run import MessageRun, Piece
from kafka_remote_client.consumer.messages import key_of, offset_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.passed_markers import PassedMarkers
from kafka_remote_client.consumer.progress import ProgressCallback, ProgressReports
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.routing import Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.tier_log import Tier, TierLogs
from kafka_remote_client.fetch.engine import FetchEngine

__all__ = ["Deliveries"]

_AHEAD = 500
_AHEAD_BYTES = 4 * 1024 * 1024
_SAMPLE = 8
"""How many messages poll() gathers at most, of how many bytes of values, as some of the last ones tell."""

_WAKE_SECONDS = 0.01
_LEAST_SECONDS = 0.001
_ASYNCHRONOUS_SECONDS, _SYNCHRONOUS_SECONDS = 0.25, 1.0
"""How long a commit may wait for committed offsets that partitions begin at."""

_INNER_SECONDS = 0.1
"""How long an inner call may last before routes are looked at again: a callback in it may have changed them."""


@attrs.define(eq=False, slots=False)
class Deliveries:
    """See the module. Only calls inside the consumer's gate use it, but for :attr:`closing` and :meth:`switch`."""

    _inner: InnerConsumer
    _engine: FetchEngine
    _flows: SubscriptionState
    _tiers: TierLogs
    _routing: Routing
    _commits: CommittedOffsets
    _remote: RemoteFetchConfig
    _behaviour: InnerBehaviour
    _clock: Clock
    gathered: list[Piece] = attrs.field(factory=list, init=False)
    """In the order in which it came; runs are among it only where :meth:`consume_runs` has gathered them."""
    broker_records: int = attrs.field(default=0, init=False)
    """How many records the inner consumer gave."""
    serves_callbacks: bool = attrs.field(default=False, init=False)
    """Whether the inner consumer is polled at the moment, so that this call comes from a callback."""
    closing: bool = attrs.field(default=False, init=False)
    """Whether calls that wait are to end: another thread closes the consumer."""

    def __attrs_post_init__(self) -> None:
        self._stores = self._behaviour.stores_offsets is True
        self.queue = DeliveryQueue(self._commits.store_last if self._stores else None)
        store_passed = self._commits.store_passed if self._stores else None
        self.markers = PassedMarkers(self._flows, self.queue, self._inner.position, store_passed)
        self.held = HeldExceptions()
        self._progress = ProgressReports(self._remote.progress_interval_ms / 1000)
        self._switched = self._broker_turn = self._of_one_partition = False
        self._runs: list[MessageRun] = []
        self._error_waits = False
        self._serve_at = 0.0
        self._ahead = _AHEAD // _SAMPLE

    # -- calls that deliver ------------------------------------------------------------------------------------------------

    def poll(self, timeout: float) -> Message | None:
        """What poll() does where nothing waits, or the inner consumer: gathers a slice and gives its first message."""
        if self.queue.due:
            self._serve_at = 0.0
        deadline = self._begin(timeout)
        left = 0.0
        while True:
            self._look(_left(deadline) if left else 0.0)
            self._gather_slice(left)
            message = self._begin_slice() if self.gathered else None
            if message is not None or self._ends(deadline):
                return message
            left = _patience(deadline)

    def consume(self, wanted: int, timeout: float) -> list[Message]:
        """Waits for ``wanted`` messages until ``timeout`` seconds are over."""
        self._gather(wanted, timeout, self._routing.take)
        self._as_messages()
        return cast("list[Message]", self._hand_out(wanted))

    def consume_runs(self, wanted: int, timeout: float) -> list[Piece]:
        """The same with runs in place of the messages that come from the store, and without errors.

        An error ends the batch, also before ``timeout``: what came before it is given, and the next call raises it as
        ConsumeError.
        """
        self.settle()
        self._look_for_errors()
        self._gather(wanted, timeout, self._take_run, to_error=True)
        batch = self._hand_out(self._pieces_of(wanted))
        self._runs = [piece for piece in self.gathered if isinstance(piece, MessageRun)]
        if batch and (error := batch[0].error()) is not None:
            raise ConsumeError(error, kafka_message=cast("Message", batch[0]))
        return batch

    def _gather(
        self, wanted: int, timeout: float, take: Callable[[int], Sequence[Piece] | None], *, to_error: bool = False
    ) -> None:
        """Until ``wanted`` are gathered or ``timeout`` seconds are over; ``to_error``: or an error is."""
        deadline = self._begin(timeout)
        left = _INNER_SECONDS if deadline is None else min(timeout, _INNER_SECONDS)
        while True:
            self._look(_left(deadline))
            if self._flows.routes.any_not_by_broker:
                self._gather_both(wanted, take)
            else:
                self._gather_broker(wanted - self._in_runs, 0 if to_error and self._error_waits else left)
            if self._count_gathered >= wanted or (to_error and self._error_waits) or self._ends(deadline):
                return
            left = _patience(deadline)
            if self._flows.routes.any_not_by_broker:
                self._engine.wait(min(left, _WAKE_SECONDS))

    def _begin(self, timeout: float) -> Deadline | None:
        self.settle()
        self.markers.delivery_begins(self.gathered)
        self._of_one_partition = False
        return None if timeout < 0 else Deadline(self._clock, timeout)

    def _look(self, seconds: float) -> None:
        """What comes before records are looked for: routes follow what has changed, and where partitions begin is learnt."""
        if self._flows.routes.undecided and not self.closing:
            self._routing.decide(seconds)
        if self._switched:
            self._switched = False
            self._routing.switched(self.take_back)
        if self._routing.recheck():
            self.markers.look(self.gathered)
            tell: ProgressCallback | None = self._remote.progress_cb
            for progress in () if tell is None else self._progress.due(self._clock.monotonic(), self._flows):
                if tell is not None and self._flows.get(progress.topic, progress.partition) is not None:
                    tell(progress)  # the callback may take partitions away

    def _ends(self, deadline: Deadline | None) -> bool:
        """Whether a call that waits returns with what it has. Raises where it has no end but another thread closes."""
        if deadline is None and self.closing:
            raise RuntimeError("Consumer closed")
        return deadline is not None and (self.closing or deadline.expired())

    # -- gathering ---------------------------------------------------------------------------------------------------------

    def _gather_slice(self, seconds: float) -> None:
        """Gathers what poll() hands out next, unless something waits; serves the inner consumer ten times a second."""
        if seconds and self._flows.routes.any_not_by_broker:
            self._engine.wait(min(seconds, _WAKE_SECONDS))
        now = self._clock.monotonic()
        serves = now >= self._serve_at
        if self.gathered:
            if serves:
                self._serve_at = now + _INNER_SECONDS
                self._gather_broker(len(self.gathered) + 1, 0)
        elif self._flows.routes.any_not_by_broker:
            self._gather_in_turn(now, serves=serves)
        else:
            self._gather_broker(1 if seconds else self._ahead, seconds)

    def _gather_in_turn(self, now: float, *, serves: bool) -> None:
        """What is there at once: the tiers in turn, or where the broker delivers nothing, its callbacks now and then."""
        asks_broker = self._broker_turn or serves
        if asks_broker:
            self._broker_turn = False
            self._serve_at = now + _INNER_SECONDS
            self._gather_broker(self._ahead if self._flows.routes.by_broker else 1, 0)
            if self.gathered:
                return
        self._broker_turn = bool(self._flows.routes.by_broker)
        taken = self._routing.take(self._ahead)
        if taken is not None:
            self.gathered, self._of_one_partition = cast("list[Piece]", taken), True
        elif not asks_broker:
            self._gather_broker(self._ahead, 0)

    def _gather_both(self, wanted: int, take: Callable[[int], Sequence[Piece] | None]) -> None:
        """What is there at once: up to half from the broker, then from the tier, then what the broker has for the rest."""
        self._broker_turn = not self._broker_turn
        room = wanted - self._count_gathered
        # Where enough waits already the inner consumer is still polled; what it gives then waits for the next call.
        share = (room + self._broker_turn) // 2 if room > 0 else 1
        more = self._gather_broker(len(self.gathered) + share, 0) == share
        while (room := wanted - self._count_gathered) > 0:
            taken = take(room)
            if taken is None:
                break
            self.gathered += taken
        if more:
            self._gather_broker(wanted - self._in_runs, 0)

    def _take_run(self, limit: int) -> Sequence[Piece] | None:
        run = self._routing.take_run(limit)
        if run is None:
            return None
        self._runs.append(run)
        return [run]

    @property
    def _in_runs(self) -> int:
        """How many records more than pieces are gathered."""
        return sum(map(len, self._runs)) - len(self._runs)

    @property
    def _count_gathered(self) -> int:
        """How many records and errors are gathered."""
        return len(self.gathered) + self._in_runs

    def _as_messages(self) -> None:
        """A call that gives messages hands out what one has gathered that gives Arrow."""
        if self._runs:
            self._runs = []
            pieces = [piece.messages() if isinstance(piece, MessageRun) else [piece] for piece in self.gathered]
            self.gathered = [message for messages in pieces for message in messages]

    def _look_for_errors(self) -> None:
        self._error_waits = any(piece.error() is not None for piece in self.gathered)

    def _gather_broker(self, wanted: int, seconds: float) -> int:
        """Gathers from the inner consumer until ``wanted`` are gathered; how many messages it gave."""
        room = wanted - len(self.gathered)
        if room <= 0:
            return 0
        self.serves_callbacks = self.markers.unseen = True
        try:
            arrived = self._inner.consume(room, seconds)
        finally:
            self.serves_callbacks = False
        count = len(arrived)
        if count and self._flows.routes.redirected:
            arrived = [heeded for message in arrived if (heeded := self._heeded(message)) is not None]
        if arrived:
            self._count(arrived)
            if self.gathered:
                self.gathered += arrived
            else:
                self.gathered = cast("list[Piece]", arrived)
        self.held.come_out()
        return count

    def _count(self, arrived: list[Message]) -> None:
        """Counts records. To look at each message for an error costs as much as half of the delivery."""
        if self._behaviour.announces_ends or arrived[-1].error() is not None:
            records = sum(message.error() is None for message in arrived)
            self.broker_records += records
            self._error_waits |= records < len(arrived)
        else:
            self.broker_records += len(arrived)

    def _heeded(self, message: Message) -> Message | None:
        """What counts of a message of the inner consumer: see :meth:`Routing.heeded`."""
        topic, partition = message.topic(), message.partition()
        flow = None if topic is None or partition is None else self._flows.get(topic, partition)
        return message if flow is None else self._routing.heeded(flow, message)

    # -- handing out -------------------------------------------------------------------------------------------------------

    def _begin_slice(self) -> Message | None:
        self._as_messages()
        messages, self.gathered = cast("list[Message]", self.gathered), []
        if self._tiers.unplaced:
            self._place(messages)
        largest = max(map(len, messages[:: len(messages) // _SAMPLE + 1]))
        self._ahead = max(1, min(2 * self._ahead, _AHEAD, _AHEAD_BYTES // (largest + 1)))
        return self.queue.hand_out(messages, of_one_partition=self._of_one_partition or len(self._flows) == 1)

    def _pieces_of(self, wanted: int) -> int:
        """How many pieces have the first ``wanted`` records, up to the first error; 1 where that is an error.

        A run that would go beyond is split.
        """
        records = 0
        for index, piece in enumerate(self.gathered):
            if piece.error() is not None:
                return max(index, 1)
            if records == wanted:
                return index
            if isinstance(piece, MessageRun):
                if len(piece) > wanted - records:
                    self.gathered[index : index + 1] = piece.split(wanted - records)
                    return index + 1
                records += len(piece)
            else:
                records += 1
        return len(self.gathered)

    def _hand_out(self, limit: int) -> list[Piece]:
        """The first ``limit`` pieces of what was gathered; positions and stored offsets follow it."""
        batch = self.gathered
        if len(batch) > limit:
            batch, self.gathered = batch[:limit], batch[limit:]
            reached = self._reached_in(batch)
        else:
            self.gathered = []
            reached = self._reached(batch) if batch else []
        if self._tiers.unplaced:
            self._place(batch)
        if reached:
            with suppress(KafkaException):  # all were lost meanwhile, and lost partitions store nothing
                self._inner.store_offsets(offsets=reached)
        return batch

    def _reached(self, batch: list[Piece]) -> list[TopicPartition]:
        """Moves positions to where everything gathered, ``batch``, is handed out; gives what is to be stored."""
        flows, self._flows.advanced = self._flows.advanced, set()
        for flow in flows:
            flow.handed_out()
        flows.update(self.markers.delivered(batch))
        return [flow.stores(flow.handed) for flow in flows] if self._stores else []

    def _reached_in(self, batch: list[Piece]) -> list[TopicPartition]:
        """Moves positions past the last record of each partition in ``batch``; gives what is to be stored."""
        for message in batch:
            self._note_handed_out(message)
        flows = {key: self._flows.get(*key) for key in map(key_of, batch)} if self._stores else {}
        return [flow.stores(flow.handed) for flow in flows.values() if flow is not None and flow.position >= 0]

    def _note_handed_out(self, message: Piece) -> None:
        flow = self._flows.get(*key_of(message))
        if flow is not None and message.error() is None:
            flow.handed_out_to(message)

    def _place(self, batch: Sequence[Piece]) -> None:
        """Notes the starts that were unknown, now that records are handed out."""
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
        """Before anything that could tell: what poll() handed out counts, and what waits behind it is gathered again."""
        lasts, waiting = self.queue.settle()
        for last in lasts:
            self._note_handed_out(last)
        self.gathered[:0] = waiting

    def seal(self, flows: Iterable[PartitionFlow]) -> None:
        """Settles, and notes what was handed out of partitions whose place may be lost."""
        self.settle()
        sealed = list(flows)
        self.markers.before_loss(sealed, self.gathered)
        for flow in sealed:
            self._tiers.seal(flow.key, flow.position)

    def take_back(self, flow: PartitionFlow) -> None:
        """Takes what was gathered of a partition out of the list; the first of it has to come again."""
        self.settle()
        mine = [message for message in self.gathered if key_of(message) == flow.key]
        if mine:
            self._runs = [run for run in self._runs if key_of(run) != flow.key]
            self.gathered[:] = [message for message in self.gathered if key_of(message) != flow.key]
            records = [offset_of(message) for message in mine if message.error() is None]
            self._look_for_errors()
            if records:
                flow.take_back(min(records))
                self._flows.advanced.discard(flow)
                self._flows.reroute()

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
        if message is None and offsets is None:  # confluent_kafka's values refuse to be compared
            self.markers.before_commit(self.gathered)
        return self._commits.commit(args, kwargs)

    def position(self, answered: list[TopicPartition]) -> list[TopicPartition]:
        """The offsets after what was handed out, where the inner consumer has ``answered`` with its own. Changes the list."""
        gathered = {key_of(message) for message in self.gathered if message.error() is None} if self.gathered else ()
        for index, tp in enumerate(answered):
            key = tp.topic, tp.partition
            flow = self._flows.get(*key)
            if flow is None or tp.error is not None:
                continue
            # Not settled: poll() would gather its read-ahead again for each position.
            last, waits = self.queue.stand(key)
            if last is not None:
                flow.handed_out_to(last)
            if waits or not flow.delivered_by_broker or tp.offset < 0 or key in gathered:
                answered[index] = flow.handed
        return answered

    def tier(self, message: Message, ask: Callable[[list[TopicPartition]], list[TopicPartition]]) -> Tier | None:
        """Which tier delivered a record last. ``ask``: the consumer's ``position``, for where it has to be asked."""
        offset = message.offset()
        if message.error() is not None or offset is None:
            return None
        key = key_of(message)
        position = -1
        if self._flows.get(*key) is not None:
            last = self.queue.last
            if last is not None and key_of(last) == key:  # what waits behind it need not be gathered again
                position = offset_of(last) + 1
            else:
                position = ask([TopicPartition(*key)])[0].offset
        return self._tiers.tier(key, offset, position)

    def switch(self, enabled: bool) -> None:
        """Turns direct fetch off, or on again, in the next call that delivers or in the one that waits. Any thread may."""
        self._routing.on = enabled
        self._switched = True
        self.queue.due = True  # poll() hands out what it has gathered without a look at anything else

    def before_close(self) -> None:
        """The inner consumer is closed next: it commits what is stored by then."""
        self.seal(self._flows)
        self.markers.before_close(self.gathered)

    def close(self) -> None:
        """What is gathered by now is never handed out."""
        self.gathered.clear()
        self._runs.clear()
        self.queue.close()


def _left(deadline: Deadline | None) -> float:
    return math.inf if deadline is None else deadline.remaining()


def _patience(deadline: Deadline | None) -> float:
    """How long the next inner call may last: not less than the millisecond in which librdkafka counts, or it would not wait."""
    return _INNER_SECONDS if deadline is None else min(max(deadline.remaining(), _LEAST_SECONDS), _INNER_SECONDS)
