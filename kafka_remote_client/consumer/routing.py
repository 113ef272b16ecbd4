"""The path that delivers each partition, and the hand-over between the two.

To the tier: the inner consumer's partition is paused and a reader starts at the exact next offset. To the broker: the reader is
stopped, and the inner consumer is sought to the exact next offset with its leader epoch, resumed, and sought again (README.md
says why). A partition goes to the tier only when it lies below the broker's local log, and stays there until the tier has no
more for it, so that it does not flap where both hold the data.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sized
from contextlib import suppress
from functools import partial
from typing import TypeVar

import attrs
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.call_arguments import is_stored
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.damage import Damage, damage_message, is_damage
from kafka_remote_client.consumer.inner_behaviour import InnerBehaviour
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.inner_start import ends_of
from kafka_remote_client.consumer.lost_start import LostStarts
from kafka_remote_client.consumer.message_positions import epoch_of, key_of, nothing_committed, offset_of
from kafka_remote_client.consumer.message_run import MessageRun, Piece
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route, RouteEvent
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.topic_filter import TopicFilter
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.fallback import Fallback, FallbackLog
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import UNKNOWN_OFFSET, PartitionOffsets
from kafka_remote_client.records import RecordBlock

__all__ = ["TURNED_OFF", "Routing"]

_Records = TypeVar("_Records", bound=Sized)

TURNED_OFF = "turned-off"
"""The reason of a fallback that the application requested."""

_log = logging.getLogger(__name__)

_RECHECK_TICK_SECONDS = 0.1
_NEVER = math.inf
_OFFSET_ERRORS = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})
"""Errors of librdkafka about the fetched offset, not about the partition. A fetch may be in flight when it is paused."""


@attrs.define(eq=False, slots=False)
class Routing:
    """Moves flows between the routes. Not thread-safe: only the application's calls use it."""

    _inner: InnerConsumer
    _engine: FetchEngine
    _flows: SubscriptionState
    _commits: CommittedOffsets
    _config: RemoteFetchConfig
    _behaviour: InnerBehaviour
    _clock: Clock
    _metrics: FetchMetrics
    _next_tick: float = attrs.field(default=0.0, init=False)
    on: bool = attrs.field(default=True, init=False)
    """Whether direct reads are allowed. Any thread may change it; see :meth:`switched`."""

    def __attrs_post_init__(self) -> None:
        self._topics = TopicFilter(self._config.topics)
        self._fallbacks = FallbackLog(_log, self._clock)
        self._lost_starts = LostStarts(self._flows, self._clock)

    def begin(self, flows: list[PartitionFlow], *, assigned: bool) -> None:
        """Decides which tier delivers newly assigned or sought partitions, or looks it up in the background.

        Never waits. It uses known bounds, but not for the beginning: a log start that has moved is out of range. They may have
        moved otherwise too, so a partition on the broker path is checked again soon. The broker delivers excluded topics, and
        reads from the log's end. Only an ``assigned`` partition can begin at its committed offset (:meth:`decide`).
        """
        now = self._clock.monotonic()
        asked = []
        for flow in flows:
            flow.recheck_at = now + self._config.fallback_backoff_ms / 1000
            if not (self.on and self._topics.allows(flow.topic)):
                continue
            if assigned and is_stored(flow.here):
                flow.change_route(RouteEvent.COMMITTED_ASKED)
            elif flow.may_be_tiered and self._awaits_bounds(flow, now):
                asked.append(flow.key)
        self._engine.watch.ask(asked)

    def _awaits_bounds(self, flow: PartitionFlow, now: float) -> bool:
        """Whether to ask for the tiers' bounds. Takes the route if they are unknown, or may give an outdated log start."""
        if flow.offsets.high_watermark != UNKNOWN_OFFSET and flow.next_offset != OFFSET_BEGINNING:
            flow.recheck_at = 0.0
            return not flow.below_local
        if now < flow.unknown_until:
            return False
        flow.decide_by = now + self._config.location_timeout_ms / 1000
        flow.change_route(RouteEvent.BOUNDS_ASKED)
        return True

    def decide(self, seconds: float = 0.0) -> None:
        """Takes answers about the starts of partitions; waits for committed offsets, at most about ``seconds``.

        It also waits for the ends of logs (inner_start.py) where nothing is committed and the reset policy leads there.
        """
        asked = [flow.bare for flow in self._flows.routes.undecided if flow.route is Route.AWAITS_COMMITTED]
        starts = self._commits.starts(asked, seconds) if asked else {}
        without = [key for key, start in starts.items() if start is not None and start.offset < 0]
        ends = ends_of(self._inner, without) if without and self._behaviour.reset_offset == OFFSET_END else {}
        for key, start in starts.items():
            flow = self._flows.get(*key)
            if flow is not None and start is None:
                self._leave_start_to_inner(flow)
            elif flow is not None and start is not None:
                self._commits.adopt(flow)
                flow.begins_at(start, self._behaviour.reset_offset, ends.get(key))
                self._started(flow, at_end=key in ends)
        self._take_bounds()

    def _started(self, flow: PartitionFlow, *, at_end: bool) -> None:
        """The next offset of a partition is known, after the committed one was requested."""
        if self.on and not at_end and flow.may_be_tiered and self._awaits_bounds(flow, self._clock.monotonic()):
            self._engine.watch.ask([flow.key])
        if flow.route is Route.AWAITS_BOUNDS:
            self._flows.reroute()
        else:
            self._decided(flow)

    def _leave_start_to_inner(self, flow: PartitionFlow) -> None:
        """The coordinator rejects the look-up of a committed offset: the inner consumer repeats it, and reports the error."""
        with suppress(KafkaException):  # increments are not for an eager group, which a refusal ends soon
            self._inner.incremental_unassign([flow.bare])
            self._inner.incremental_assign([TopicPartition(flow.topic, flow.partition, OFFSET_STORED)])
            flow.change_route(RouteEvent.BROKER_CHOSEN)
            flow.moved = False
            self._flows.parked.discard(flow.key)
            if not flow.paused:
                self._inner.resume([flow.bare])
            self._flows.reroute()

    def _take_bounds(self) -> None:
        """Chooses the routes of partitions whose bounds arrived; the broker's route after the location time-out."""
        now = self._clock.monotonic()
        for flow in self._flows.routes.undecided:
            if flow.route is not Route.AWAITS_BOUNDS:
                continue
            answer = self._engine.watch.answer(flow.key)
            if answer is None and self.on:
                if now < flow.decide_by:
                    continue
                peer = self._config.bootstrap_servers
                answer = LocationError(f"{peer or 'the location source'} timed out").with_context(host=peer)
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
        """The route is known as far as possible. The next check of the routes comes immediately, before any record."""
        self._next_tick = 0.0
        if flow.below_local:
            self.go_remote(flow)
        else:
            self._leave(flow)

    def adopt(self, flow: PartitionFlow) -> None:
        """Starts a newly assigned partition: from the tier if it has the offset, otherwise from the inner consumer.

        A partition without a decided route waits for :meth:`decide`.
        """
        self._flows.add(flow)
        if flow.route.awaits:
            self._flows.parked.add(flow.key)
        elif flow.below_local:
            self.go_remote(flow)
        elif self._flows.is_only_parked(flow.key):
            self.go_broker(flow, RouteEvent.BROKER_CHOSEN)
        else:
            flow.change_route(RouteEvent.BROKER_CHOSEN)
            self._flows.parked.discard(flow.key)

    def sought(self, flow: PartitionFlow, *, resumed: bool) -> None:
        """Starts a partition after a seek, with the inner consumer. ``resumed``: the inner consumer is already resumed."""
        if flow.route.awaits:
            self._flows.parked.add(flow.key)
        elif flow.below_local:
            self.go_remote(flow)
        else:
            flow.change_route(RouteEvent.BROKER_CHOSEN)
            self._flows.parked.discard(flow.key)
            if not flow.paused and not resumed:
                self._resume_inner(flow)
        self._flows.reroute()

    def go_remote(self, flow: PartitionFlow, event: RouteEvent = RouteEvent.TIER_CHOSEN) -> None:
        """Reads the flow from the tier, from its next offset on; later if the user has paused it."""
        if not self.on:
            self._leave(flow)
            return
        self._inner.pause([flow.bare])
        self._flows.parked.add(flow.key)
        flow.change_route(event)
        flow.moved = True
        flow.doubted = False
        flow.damage = None
        if not flow.paused:
            flow.reader = self._engine.reader(
                ReadRequest(
                    flow.topic,
                    flow.partition,
                    flow.next_offset,
                    leader_epoch=flow.leader_epoch,
                    isolation_level=self._behaviour.isolation_level,
                    stop_at_local=True,
                    borrow=True,
                    offsets=flow.offsets,
                    topic_id=flow.topic_id,
                ),
                on_ready=partial(self._flows.announce, flow),
                on_passed=partial(self._flows.announce_passed, flow),
            )
        self._flows.reroute()

    def go_broker(self, flow: PartitionFlow, event: RouteEvent) -> None:
        """Makes the inner consumer deliver from the flow's next offset."""
        flow.detach()
        flow.change_route(event)
        flow.halted = False
        self._flows.reroute()
        recheck_at, flow.recheck_at, flow.moved = flow.recheck_at, 0.0, True  # for recheck(), if a signal's handler raises
        try:
            # A seek before the resume stops the resumed fetcher from one fetch at the old position: a remote read, or out of
            # range, after which librdkafka starts at the reset policy's offset, even if a seek came meanwhile.
            if flow.is_sought_first:
                self._inner.seek(flow.here)
            self._resume_inner(flow)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                flow.recheck_at = recheck_at
                raise
            # librdkafka still applies the assignment. Nothing is delivered until recheck() has tried again.
            self._park(flow, recheck_at=0.0)
            self._lost_starts.refused(self._inner, flow)
        else:
            self._flows.parked.discard(flow.key)
            flow.moved, flow.recheck_at, flow.refused_at = False, recheck_at, None
            flow.went_back = False

    def _resume_inner(self, flow: PartitionFlow) -> None:
        """Makes the inner consumer fetch from the flow's next offset now.

        librdkafka wakes a broker's thread when a partition becomes active. A resume does not do that, nor does a seek to offset
        0: the thread then sleeps for up to a second. A seek to offset 1 does (``rd_kafka_toppar_seek``).
        """
        place = flow.here
        self._inner.resume([place])
        # Only if offset 1 has a record: at the log's end the fetch would wait, and below its start it is an error.
        if place.offset == flow.offsets.log_start == 0 and flow.offsets.high_watermark > 1:
            self._inner.seek(TopicPartition(flow.topic, flow.partition, 1))
        if place.offset >= 0 or not flow.is_sought_first:  # otherwise the look-up runs: the resume delays it by half a second
            self._inner.seek(place)

    def switched(self, take_back: Callable[[PartitionFlow], None]) -> None:
        """Direct fetch was turned off, or on: partitions move to the broker, or are checked again.

        ``take_back``: removes a flow's gathered records from the pending ones, and moves the flow back to the first of them.
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
        """The broker continues from the flow's next offset; later if the user has paused it."""
        if not flow.paused:
            self.go_broker(flow, RouteEvent.BROKER_CHOSEN)
            return
        flow.change_route(RouteEvent.BROKER_CHOSEN)
        flow.moved = True
        self._flows.reroute()

    def deliverable(self, flow: PartitionFlow, message: Message) -> Message | None:
        """Returns the application's message for a message of the inner consumer, while ``flow`` is not simply on its path.

        ``None`` for a record or an end that another path delivers, or that follows damage in both tiers, and for an
        out-of-range error about a position of the inner consumer alone.
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
            has_place = flow.doubted and (error is None or error.code() == KafkaError._PARTITION_EOF)
            if has_place and self._looks_again(flow, offset_of(message)):
                return None
            if flow.damage is None or (error is not None and not is_damage(error)):
                return message
            if error is not None:
                return self._halt(flow, flow.damage, error)
            if offset_of(message) < flow.damage.offset and not flow.damage.sought_again:
                flow.damage = attrs.evolve(flow.damage, sought_again=True)
                self._park(flow, recheck_at=0.0)
                return None
            if offset_of(message) < flow.damage.offset and self._looks_again(flow, offset_of(message)):
                return None  # the log has been replaced, or librdkafka was reset twice
            flow.damage = None  # the broker's copy is good
            self._flows.reroute()
            return message
        return None if error is None or error.code() in _OFFSET_ERRORS else message

    def _looks_again(self, flow: PartitionFlow, offset: int) -> bool:
        """Ends the doubt. If the log ends at ``offset``, before the hand-over, a reader asks the leader which log it has.

        Without direct fetch the broker continues, as for the plain consumer.
        """
        again = self.on and flow.goes_back_to(offset)
        flow.doubted = False
        self._flows.reroute()
        if again:
            self.go_remote(flow)
        return again

    def _park(self, flow: PartitionFlow, *, recheck_at: float) -> None:
        """Pauses the inner consumer's partition; from ``recheck_at`` on :meth:`recheck` seeks and resumes it again."""
        self._inner.pause([flow.bare])
        self._flows.parked.add(flow.key)
        flow.moved = True
        flow.recheck_at = recheck_at
        self._flows.reroute()

    def _halt(self, flow: PartitionFlow, damage: Damage, error: KafkaError) -> Message:
        """The broker's copy is damaged too. go_broker() and a seek end this state."""
        self._park(flow, recheck_at=_NEVER)
        flow.halted = True
        message = damage_message(flow.topic, flow.partition, damage, error)
        _log.error("%s", message.error())
        return message

    def take(self, limit: int) -> list[Message] | None:
        """Returns the next slice of the next partition in turn, as messages. It also handles ends of readers."""
        return self._take(limit, RecordBlock.messages)

    def take_run(self, limit: int) -> MessageRun | None:
        """The same as a run."""
        return self._take(limit, MessageRun.of)

    def _take(self, limit: int, form: Callable[[RecordBlock, str, int, int, int], _Records]) -> _Records | None:
        while (flow := self._flows.next_ready()) is not None:
            taken = flow.take(limit, form)
            if isinstance(taken, ReadEnd):
                self._end(flow, taken)
            elif taken is not None:
                records, size = taken
                self._metrics.add("remote-fetch-records-total", len(records))
                self._metrics.add("remote-fetch-record-bytes-total", size)
                self._flows.advanced.add(flow)
                return records
        return None

    def recheck(self, gathered: Collection[Piece] = ()) -> bool:
        """Returns True ten times a second, and then moves partitions that fell behind the local log back to the tier.

        ``gathered``: the messages that wait to be delivered.
        """
        now = self._clock.monotonic()
        if now < self._next_tick:
            return False
        self._next_tick = now + _RECHECK_TICK_SECONDS
        for flow in [flow for flow in self._flows if flow.is_unread]:
            flow.detach()
            self.go_remote(flow, RouteEvent.RESUMED)
        due = [flow for flow in self._flows if flow.route is Route.BROKER and not flow.paused and flow.recheck_at <= now]
        unmoved = [flow for flow in due if not flow.moved and not flow.went_back]
        for flow in [flow for flow in due if flow.moved]:
            self.go_broker(flow, RouteEvent.RESUMED)
        if unmoved:
            self._compare_with_local_logs(unmoved, gathered, now)
        return True

    def _compare_with_local_logs(self, flows: list[PartitionFlow], gathered: Collection[Piece], now: float) -> None:
        """Compares positions of the inner consumer with the starts of the local logs. One call for all of them."""
        allowed = []
        for flow in flows:
            if self.on and self._topics.allows(flow.topic):
                allowed.append(flow)
            else:
                flow.recheck_at = _NEVER
        places = self._inner.position([flow.bare for flow in allowed]) if allowed else []
        unknown = any(place.offset < 0 for place in places)
        waiting = {key_of(message) for message in gathered if message.error() is None} if unknown else ()
        placed = {}
        for flow, place in zip(allowed, places, strict=True):
            flow.inner_has_read |= place.offset >= 0 or flow.key in waiting
            if place.offset >= 0:
                flow.gathered_to(place.offset, epoch_of(place.leader_epoch))
                self._flows.advanced.add(flow)
            elif flow.inner_went_back or flow.next_offset < 0:
                continue  # where librdkafka stands is not known yet
            placed[flow.key] = flow
        for key, answer in self._engine.watch.offsets_of(placed).items():
            self._take_answer(placed[key], answer, now)

    def _take_answer(self, flow: PartitionFlow, answer: PartitionOffsets | DirectFetchError, now: float) -> None:
        """Takes the answer to the question of an earlier tick. A flow below the local log is read from the tier again."""
        if isinstance(answer, DirectFetchError):
            self._metrics.error(answer.cause)
            self._fallbacks.write(Fallback(answer.cause, answer, *flow.key, flow.next_offset, taken_over=False))
            flow.recheck_at = now + self._config.fallback_backoff_ms / 1000
            return  # known bounds stay valid: the local log's start never moves back
        flow.offsets = answer
        flow.recheck_at = now + self._config.recheck_interval_ms / 1000
        if flow.next_offset < answer.log_start:
            return  # the broker applies the reset policy, which may be to report this once and to stop
        if flow.doubted and answer.high_watermark != UNKNOWN_OFFSET and self._looks_again(flow, answer.high_watermark):
            return
        if not flow.below_local:
            return
        admission = self._engine.admission
        suspended_until = admission.suspended_until(now)
        if suspended_until > now:
            flow.recheck_at = min(flow.recheck_at, suspended_until)  # a read would be refused, and count as a fallback
        elif admission.preference.returns(flow.key, flow.next_offset, now):
            self.go_remote(flow)

    def _end(self, flow: PartitionFlow, end: ReadEnd) -> None:
        """The tier has no more records of this partition, or cannot be read: the broker continues at the exact next offset."""
        now = self._clock.monotonic()
        flow.offsets = end.offsets
        if end.next_offset > flow.next_offset:  # markers, or aborted records
            flow.gathered_to(end.next_offset, end.leader_epoch)
            self._flows.advanced.add(flow)
        flow.ended(end)
        if end.error is None and 0 <= end.offsets.earliest_local <= flow.next_offset:
            self._metrics.add("remote-fetch-handovers-total")
            flow.failures = 0
            flow.recheck_at = now + self._config.recheck_interval_ms / 1000
        else:
            if end.reason == SLOWER_THAN_BROKER:
                pause = self._engine.admission.preference.left(flow.key, flow.next_offset, now)
            else:
                pause = flow.backoff_seconds(self._config.fallback_backoff_ms / 1000)
            flow.recheck_at = now + pause
            self._fell_back(end.fallback(*flow.key))
        self.go_broker(flow, RouteEvent.READ_ENDED)

    def _fell_back(self, fallback: Fallback) -> None:
        self._metrics.fallback(fallback.cause)
        self._fallbacks.write(fallback)
