"""Which path feeds each partition, and the hand-over between the two.

To the tier: the inner consumer's partition is paused and a reader starts at the exact next offset. To the broker: the reader is
stopped, the inner consumer is resumed and then sought to the exact next offset with its leader epoch (seek before resume can
cost a second in librdkafka). A partition goes to the tier only when it lies below the broker's local log and stays there until
the tier has no more for it, so that it does not flap where both hold the data.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial

import attrs
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.arguments import is_stored
from kafka_remote_client.consumer.damage import Damage, damage_of, is_damage, told
from kafka_remote_client.consumer.messages import epoch_of, nothing_committed
from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.topic_filter import TopicFilter
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.fallback import Fallback, FallbackLog
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER
from kafka_remote_client.fetch.remote_reader import ReadEnd
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, IsolationLevel, PartitionOffsets

__all__ = ["TURNED_OFF", "InnerConsumer", "Routing"]

TURNED_OFF = "turned-off"
"""The reason under which a fallback counts that the application asked for."""

_log = logging.getLogger(__name__)

_RECHECK_TICK_SECONDS = 0.1
_START_SECONDS = 1.0
"""How long librdkafka may take to start an assigned partition before it is assigned again."""
_NEVER = math.inf


@attrs.frozen
class InnerConsumer:
    """The methods of the inner consumer that concern a partition's place: bound, and free of any override."""

    pause: Callable[[list[TopicPartition]], None]
    resume: Callable[[list[TopicPartition]], None]
    seek: Callable[[TopicPartition], None]
    position: Callable[[list[TopicPartition]], list[TopicPartition]]
    incremental_unassign: Callable[[list[TopicPartition]], None]
    incremental_assign: Callable[[list[TopicPartition]], None]
    store_offsets: Callable[..., None]


class Routing:
    """Moves flows between the routes. Not thread-safe: only the application's calls use it."""

    def __init__(
        self,
        inner: InnerConsumer,
        engine: FetchEngine,
        flows: SubscriptionState,
        config: RemoteFetchConfig,
        *,
        isolation_level: IsolationLevel,
        clock: Clock,
        metrics: FetchMetrics,
    ) -> None:
        self._inner = inner
        self._engine = engine
        self._flows = flows
        self._config = config
        self._isolation_level = isolation_level
        self._clock = clock
        self._metrics = metrics
        self._topics = TopicFilter(config.topics)
        self._fallbacks = FallbackLog(_log, clock)
        self._next_tick = 0.0
        self.on = True
        """Whether anything may be read directly. Any thread may change it; see :meth:`switched`."""

    def begin(self, flows: list[PartitionFlow], *, assigned: bool) -> None:
        """Decides who delivers newly assigned or sought partitions, or asks in the background where that is not known.

        Waits for nobody. Known bounds serve; they may have moved, so a partition on the broker path is looked at again soon.
        Topics that may not be read directly and the log's end are the broker's. Only an ``assigned`` partition can begin at its
        committed offset, which the owner asks for: :meth:`started_at`.
        """
        now = self._clock.monotonic()
        asked = []
        for flow in flows:
            flow.recheck_at = now + self._config.fallback_backoff_ms / 1000
            if not (self.on and self._topics.allows(flow.topic)):
                continue
            if assigned and is_stored(flow.here):
                flow.route = Route.AWAITS_COMMITTED
            elif flow.may_be_tiered and self._awaits_bounds(flow, now):
                asked.append(flow.key)
        self._engine.watch.ask(asked)

    def _awaits_bounds(self, flow: PartitionFlow, now: float) -> bool:
        """Whether to ask for the tiers' bounds: they are unknown, or may have moved. Takes the route in the first case."""
        if flow.offsets.high_watermark != UNKNOWN_OFFSET:
            flow.learn(flow.offsets)
            flow.recheck_at = 0.0
            return not flow.below_local
        if now < flow.unknown_until:
            return False
        flow.goes_by(Route.AWAITS_BOUNDS)
        flow.decide_by = now + self._config.location_timeout_ms / 1000
        return True

    def started_at(self, flow: PartitionFlow, start: TopicPartition) -> None:
        """The committed offset of a partition came, or what stands in for it where none is."""
        flow.next_offset, flow.leader_epoch = start.offset, epoch_of(start.leader_epoch)
        flow.nothing_committed = start.offset == OFFSET_INVALID
        if self.on and flow.may_be_tiered and self._awaits_bounds(flow, self._clock.monotonic()):
            self._engine.watch.ask([flow.key])
        if flow.route is Route.AWAITS_BOUNDS:
            self._flows.reroute()
        else:
            self._decided(flow)

    def begun_inside(self, flow: PartitionFlow) -> None:
        """The inner consumer was assigned the partition at its committed offset, and finds that out itself."""
        flow.goes_by(Route.BROKER)
        flow.moved = False
        self._flows.parked.discard(flow.key)
        if not flow.paused:
            self._inner.resume([flow.bare])
        self._flows.reroute()

    def decide(self) -> None:
        """Takes the routes of partitions whose bounds came. Where they did not within the location time-out, the broker's."""
        now = self._clock.monotonic()
        for flow in self._flows.undecided:
            if flow.route is not Route.AWAITS_BOUNDS:
                continue
            answer = self._engine.watch.answer(flow.key)
            if answer is None and self.on:
                if now < flow.decide_by:
                    continue
                answer = LocationError("the bounds of its tiers did not come within fetch.remote.location.timeout.ms")
            soon = now + self._config.fallback_backoff_ms / 1000
            if isinstance(answer, PartitionOffsets):
                flow.learn(answer)
            elif answer is not None:
                flow.unknown_until = soon
                self._metrics.error(answer.cause)
                self._fell_back(Fallback(answer.cause, answer, *flow.key, flow.next_offset))
            flow.recheck_at = soon
            self._decided(flow)

    def _decided(self, flow: PartitionFlow) -> None:
        """Who delivers is known, as far as it can be. The next look at the routes comes at once, before any record does."""
        self._next_tick = 0.0
        if flow.below_local and self.on:
            self.go_remote(flow)
        else:
            self._leave(flow)

    def assign(self, inner_assign: Callable[[list[TopicPartition]], None], flows: list[PartitionFlow]) -> None:
        """Has the inner consumer assigned partitions by ``inner_assign``, each where it is to begin.

        Those that it is not to fetch are paused before that. Paused a moment later, librdkafka may already wait for a page of
        one of them, up to ``fetch.wait.max.ms``, and other partitions of that broker wait with it.

        One whose place is looked up is resumed before that: a resume meanwhile would make librdkafka look it up once more, and
        the records between the two places would never come.
        """
        looked_up = [
            flow.bare for flow in flows if not flow.held and flow.next_offset < 0 and self._flows.is_only_parked(flow.key)
        ]
        held = [flow.bare for flow in flows if flow.held and not self._flows.is_paused(flow.key)]
        if looked_up:
            self._inner.resume(looked_up)
        if held:
            self._inner.position(held)  # librdkafka pauses only partitions that it has heard of, and hears of them by this
            self._inner.pause(held)
        try:
            inner_assign([flow.inner_start for flow in flows])
        except KafkaException:
            if looked_up:
                self._inner.pause(looked_up)
            if held:
                self._inner.resume(held)
            raise
        self._flows.parked.difference_update((tp.topic, tp.partition) for tp in looked_up)

    def adopt(self, flow: PartitionFlow) -> None:
        """Takes up a partition that was just assigned: to the tier where it lies there, else the inner consumer runs.

        One whose route is not decided waits for :meth:`started_at` and :meth:`decide`.
        """
        self._flows.add(flow)
        if not flow.route.decided:
            self._flows.parked.add(flow.key)
        elif flow.below_local:
            self.go_remote(flow)
        elif self._flows.is_only_parked(flow.key):
            self.go_broker(flow)
        else:
            flow.goes_by(Route.BROKER)
            self._flows.parked.discard(flow.key)

    def go_remote(self, flow: PartitionFlow) -> None:
        """Reads the flow from the tier, from its next offset on; while the user has it paused, later."""
        if not self.on:
            self._leave(flow)
            return
        self._inner.pause([flow.bare])
        self._flows.parked.add(flow.key)
        flow.goes_by(Route.REMOTE)
        flow.moved = True
        flow.damage = None
        if not flow.paused:
            flow.reader = self._engine.reader(
                flow.topic,
                flow.partition,
                flow.next_offset,
                leader_epoch=flow.leader_epoch,
                isolation_level=self._isolation_level,
                stop_at_local=True,
                borrow=True,
                offsets=flow.offsets,
                on_ready=partial(self._flows.announce, flow),
            )
        self._flows.reroute()

    def go_broker(self, flow: PartitionFlow) -> None:
        """Lets the inner consumer deliver from the flow's next offset."""
        flow.detach()
        flow.goes_by(Route.BROKER)
        flow.halted = False
        self._flows.reroute()
        partition = flow.here
        try:
            # The first seek keeps the resumed fetcher from asking for one page at the old place, which may be a remote read. It
            # is not to a logical offset: the resume would have that looked up once more, half a second later.
            if partition.offset >= 0:
                self._inner.seek(partition)
            self.resume_inner(flow)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            # librdkafka still applies the assignment. Nothing is delivered until recheck() has tried again.
            self._inner.pause([partition])
            self._flows.parked.add(flow.key)
            flow.moved = True
            flow.recheck_at = 0.0
            self._start_again(flow)
        else:
            self._flows.parked.discard(flow.key)
            flow.moved = False
            flow.refused_at = None

    def _start_again(self, flow: PartitionFlow) -> None:
        """Assigns a partition again whose start librdkafka has lost: it would be refused forever and deliver nothing.

        A start is a message to librdkafka's main thread. A pause or seek that another thread makes while that message is being
        sent has a newer version and arrives first. The start then counts as outdated, and nothing sends it again.

        References: ``rd_kafka_toppar_op_fetch_start``, ``rd_kafka_toppar_op_serve`` ("outdated op FETCH_START").
        """
        now = self._clock.monotonic()
        if flow.refused_at is None:
            flow.refused_at = now
        if now - flow.refused_at < _START_SECONDS:
            return
        flow.refused_at = now
        _log.warning("librdkafka has not started %s-%d after %g s: assigning it again", *flow.key, _START_SECONDS)
        try:
            self._inner.resume([flow.bare])  # not after the start, which it could outdate again
            self._flows.parked.discard(flow.key)
            self._inner.incremental_unassign([flow.bare])
            self._inner.incremental_assign([flow.here])
            if flow.stored is not None:
                self._inner.store_offsets(offsets=[flow.stores(flow.stored)])
        except KafkaException as error:
            _log.warning("assigning %s-%d again failed: %s", *flow.key, error)
        else:
            flow.moved = False

    def resume_inner(self, flow: PartitionFlow) -> None:
        """Has the inner consumer fetch from the flow's next offset on, now.

        librdkafka wakes a broker's thread as a partition becomes active. A resume is no such change, nor is a seek to offset 0;
        the thread then sleeps up to a second, or until the fetch under way ends (``fetch.wait.max.ms``). A seek to offset 1 is.

        References: ``rd_kafka_toppar_set_fetch_state``, ``rd_kafka_toppar_seek``.
        """
        place = flow.here
        self._inner.resume([place])
        # Only where offset 1 has a record: at the log's end it would wait for one, below the log's start it would be an error.
        if place.offset == flow.offsets.log_start == 0 and flow.offsets.high_watermark > 1:
            self._inner.seek(TopicPartition(flow.topic, flow.partition, 1))
        self._inner.seek(place)

    def switched(self, take_back: Callable[[PartitionFlow], None]) -> None:
        """Direct fetch was turned off, or on: partitions go over to the broker, or are looked at again.

        ``take_back``: takes what was gathered of a flow out of what is to be handed out, and moves the flow back to there.
        """
        for flow in self._flows:
            if self.on:
                flow.recheck_at = flow.recheck_at if flow.halted else 0.0
            elif flow.route is Route.REMOTE:
                flow.detach()
                take_back(flow)
                self._fell_back(Fallback(TURNED_OFF, None, *flow.key, flow.next_offset))
                self._leave(flow)

    def _leave(self, flow: PartitionFlow) -> None:
        """The broker goes on from the flow's next offset; while the user has it paused, later."""
        if not flow.paused:
            self.go_broker(flow)
            return
        flow.goes_by(Route.BROKER)
        flow.moved = True
        self._flows.reroute()

    def heeded(self, flow: PartitionFlow, message: Message) -> Message | None:
        """What the application gets of a message of the inner consumer, while ``flow`` is not plainly on its path.

        Nothing of a record or an end whose turn comes elsewhere or that is behind damage in both tiers.
        """
        error = message.error()
        if flow.halted:
            return None
        if flow.nothing_committed and flow.route is Route.BROKER:
            flow.nothing_committed = False
            self._flows.reroute()
            if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                return nothing_committed(*flow.key)
        if flow.route is Route.BROKER and not flow.moved:
            if flow.damage is None or (error is not None and not is_damage(error)):
                return message
            if error is not None:
                return self._halt(flow, flow.damage, error)
            flow.damage = None  # the broker's copy is good
            self._flows.reroute()
            return message
        return None if error is None or error.code() == KafkaError._PARTITION_EOF else message

    def _halt(self, flow: PartitionFlow, damage: Damage, error: KafkaError) -> Message:
        """The broker's copy is bad too. go_broker() and a seek end it."""
        self._inner.pause([flow.bare])
        self._flows.parked.add(flow.key)
        flow.halted = flow.moved = True
        flow.recheck_at = _NEVER
        self._flows.reroute()
        message = told(flow.topic, flow.partition, damage, error)
        _log.error("%s", message.error())
        return message

    def take(self, limit: int) -> list[Message] | None:
        """The next slice of the partition whose turn it is. Ends of readers are acted on in passing."""
        while (flow := self._flows.next_ready()) is not None:
            taken = flow.take(limit)
            if isinstance(taken, ReadEnd):
                self._end(flow, taken)
            elif taken is not None:
                messages, size = taken
                self._metrics.add("remote-fetch-records-total", len(messages))
                self._metrics.add("remote-fetch-record-bytes-total", size)
                self._flows.advanced.add(flow)
                return messages
        return None

    def recheck(self) -> bool:
        """Sends partitions back to the tier that have fallen behind the local log, once their pause is over.

        Does so, and says so, ten times a second.
        """
        now = self._clock.monotonic()
        if now < self._next_tick:
            return False
        self._next_tick = now + _RECHECK_TICK_SECONDS
        for flow in self._flows:
            if flow.route is Route.BROKER and not flow.paused and flow.recheck_at <= now:
                if flow.moved:
                    self.go_broker(flow)
                else:
                    self._look_again(flow, now)
        return True

    def _look_again(self, flow: PartitionFlow, now: float) -> None:
        if not (self.on and self._topics.allows(flow.topic)):
            flow.recheck_at = _NEVER
            return
        (inner,) = self._inner.position([flow.bare])
        if inner.offset >= 0:
            flow.gathered_to(inner.offset, UNKNOWN_EPOCH if inner.leader_epoch is None else inner.leader_epoch)
            self._flows.advanced.add(flow)
        if flow.next_offset < 0:
            return  # nothing was delivered yet, so its place is not known
        offsets = self._engine.watch.offsets(flow.topic, flow.partition)
        if offsets is None:
            return  # asked for in the background; a later tick sees the answer
        if isinstance(offsets, DirectFetchError):
            self._metrics.error(offsets.cause)
            flow.recheck_at = now + self._config.fallback_backoff_ms / 1000
            return  # what was known before still is: the local log's start never moves back
        flow.offsets = offsets
        flow.recheck_at = now + self._config.recheck_interval_ms / 1000
        if flow.below_local and self._engine.preference.returns(flow.key, flow.next_offset, now):
            self.go_remote(flow)

    def _end(self, flow: PartitionFlow, end: ReadEnd) -> None:
        """The tier has no more for this partition, or cannot be read: the broker goes on at the exact next offset."""
        now = self._clock.monotonic()
        flow.offsets = end.offsets
        if end.next_offset > flow.next_offset:  # markers, or aborted records
            flow.gathered_to(end.next_offset, end.leader_epoch)
            self._flows.advanced.add(flow)
        flow.next_offset = end.next_offset
        flow.leader_epoch = end.leader_epoch
        flow.damage = damage_of(end)
        if end.error is None and 0 <= end.offsets.earliest_local <= flow.next_offset:
            self._metrics.add("remote-fetch-handovers-total")
            flow.failures = 0
            flow.recheck_at = now + self._config.recheck_interval_ms / 1000
        else:
            if end.reason == SLOWER_THAN_BROKER:
                pause = self._engine.preference.left(flow.key, flow.next_offset, now)
            else:
                pause = flow.backoff_seconds(self._config.fallback_backoff_ms / 1000)
            flow.recheck_at = now + pause
            self._fell_back(end.fallback(*flow.key))
        self.go_broker(flow)

    def _fell_back(self, fallback: Fallback) -> None:
        self._metrics.fallback(fallback.cause)
        self._fallbacks.write(fallback)
