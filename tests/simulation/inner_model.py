"""A model of librdkafka's consumer in virtual time: what DirectConsumer has inside in a simulated world.

::

    application's call ──► pause, seek, assign: a new version of the partition, so that queued and late records are dropped
    consume ◄── queue ◄── records, markers, ends, rebalances ◄── fetch, after some time, from the leader's log

========================  ===========================================================================================
rule of librdkafka        here
========================  ===========================================================================================
start                     an assigned partition is started a moment later; until then a seek fails with ``_STATE``
position                  the offset after the last record that ``consume`` returned, or after a marker that it passed
rebalance in a call       drops what the call has taken of partitions that are given up
rebalance                 stops all assigned partitions until its callback is over; those that are kept then go on
increments                a cooperative member assigns and gives up partitions in increments only, an eager one never
close                     serves the rebalance that waits; nothing that it assigns is started
pause                     drops what is queued; a resume continues at the position, or at the start without a position
logical offsets           are looked up in the background; a resume meanwhile looks them up again
stored offsets            only of assigned partitions; committed if they are past the committed offset that it knows
assignments               giving up a partition commits its stored offset, with ``enable.auto.commit``
out of range              the partition begins again where ``auto.offset.reset`` says
log start                 as the last answered fetch told it, also in a later assignment; asked for without one
leader epochs             a fetch finds a new leader; then, and after a seek, a position with an epoch is validated:
                          reading goes back to the epoch's end as by a seek, or begins again as out of range
no READ                   a fetch brings nothing until the client may read again; librdkafka reports that as well
========================  ===========================================================================================

References: ``rd_kafka_toppar_pause_resume``, ``rd_kafka_toppar_seek``, ``rd_kafka_q_serve_rkmessages``,
``rd_kafka_purge_outdated_messages``, ``rd_kafka_commit``, ``rd_kafka_toppar_handle_OffsetForLeaderEpoch``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.message_positions import epoch_of
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel
from tests.simulation.coordinator import Coordinator, Rebalance

if TYPE_CHECKING:
    from tests.simulation.produced_log import ProducedLog
    from tests.simulation.topic_logs import LedPartition
    from tests.simulation.world import World

__all__ = ["InnerModel", "failure"]

_QUEUED = 60
"""With as many records in the queue no more are fetched."""
_START_SECONDS = 0.002
_RESETS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}


def failure(code: int) -> KafkaException:
    """The exception of a call that fails with that code."""
    return KafkaException(KafkaError(code, "simulated"))


class _State(Enum):
    STARTING = auto()
    LOOKING = auto()
    VALIDATING = auto()
    ACTIVE = auto()


@attrs.define(eq=False)
class _Toppar:
    """An assigned partition. ``start``: where a resume continues without a position. ``fetched``: the next offset to fetch.

    ``held``: a rebalance waits for its callback.
    """

    partition: LedPartition
    start: int
    start_epoch: int = UNKNOWN_EPOCH
    state: _State = _State.STARTING
    version: int = 0
    fetched: int = OFFSET_INVALID
    fetched_epoch: int = UNKNOWN_EPOCH
    position: int = OFFSET_INVALID
    position_epoch: int = UNKNOWN_EPOCH
    stored: tuple[int, int] = (OFFSET_INVALID, UNKNOWN_EPOCH)
    queued: int = 0
    fetching: bool = False
    held: bool = False
    end_told_at: int = OFFSET_INVALID

    @property
    def number(self) -> int:
        return self.partition.number

    @property
    def log(self) -> ProducedLog:
        return self.partition.log


@attrs.frozen
class _Op:
    """An entry of the queue: a message (``offset`` -1: an error), or a marker at ``offset``."""

    toppar: _Toppar
    version: int
    offset: int
    epoch: int
    message: Message | None


@attrs.define(eq=False)
class _CommitRequest:
    """``told``: ``on_commit`` gets the outcome. ``refused``: the code of the coordinator's error, when it has answered."""

    places: list[TopicPartition]
    told: bool
    refused: int | None = None


class InnerModel(Consumer):
    """The methods of confluent_kafka's Consumer that the direct consumer calls; a base class of the simulated one."""

    def begin(self, world: World, coordinator: Coordinator, settings: dict[str, Any], name: str, principal: str) -> None:
        """Takes the place of the constructor. Settings as confluent_kafka's."""
        self._world, self._coordinator = world, coordinator
        self._name, self._principal = name, principal
        self._level = IsolationLevel[str(settings["isolation.level"]).upper()]
        self._reset = _RESETS[settings["auto.offset.reset"]]
        self._auto_commits = bool(settings["enable.auto.commit"])
        self._announces_ends = bool(settings["enable.partition.eof"])
        self._on_commit: Callable[..., None] = settings["on_commit"]
        self._answered_by = 0.0
        self._commit_requests: deque[_CommitRequest] = deque()
        self._interval = settings["auto.commit.interval.ms"] / 1000
        self._toppars: dict[int, _Toppar] = {}
        self._paused: set[int] = set()
        self._committed: dict[int, int] = {}
        self._log_starts: dict[int, int] = {}
        self._leader_epochs: dict[int, int] = {}
        self._ops: deque[_Op] = deque()
        self._taken: list[_Op] = []
        """What the call that runs has taken from the queue and not returned yet."""
        self._callbacks: deque[Callable[[], None]] = deque()
        self._rebalances: tuple[Callable[..., None], ...] = ()
        self._in_group = self._closed = self._closing = self._assigned_in_callback = False
        world.after(self._interval, self._commits_in_background)

    # -- assignment --------------------------------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self._in_group = True
        self._rebalances = callbacks["on_assign"], callbacks["on_revoke"]
        self._coordinator.join(self._name, self._told_rebalance, self._rebalance)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._check_open()
        if self._in_group and self._closing:
            partitions = []
        elif self._in_group and self._coordinator.cooperative:
            raise failure(KafkaError._STATE)
        self._assigned_in_callback = True
        self._give_up(list(self._toppars))
        self._start(partitions)

    def unassign(self) -> None:
        InnerModel.assign(self, [])

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._check_open()
        if self._in_group and self._closing:
            InnerModel.assign(self, [])
            return
        if not self._takes_increments or any(tp.partition in self._toppars for tp in partitions):
            raise failure(KafkaError._STATE)
        self._assigned_in_callback = True
        self._start(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._check_open()
        if self._in_group and self._closing:
            InnerModel.assign(self, [])
            return
        if not self._takes_increments or any(tp.partition not in self._toppars for tp in partitions):
            raise failure(KafkaError._STATE)
        self._assigned_in_callback = True
        self._give_up([tp.partition for tp in partitions])

    @property
    def _takes_increments(self) -> bool:
        return not self._in_group or self._coordinator.cooperative

    def assignment(self) -> list[TopicPartition]:
        self._check_open()
        return [TopicPartition("orders", number) for number in self._toppars]

    def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        return None

    def _start(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            partition = self._world.brokers.partitions[tp.partition]
            toppar = self._toppars[tp.partition] = _Toppar(partition, tp.offset, epoch_of(tp.leader_epoch))
            self._world.after(self._world.some(_START_SECONDS), partial(self._started, toppar))

    def _started(self, toppar: _Toppar) -> None:
        if self._has(toppar) and toppar.state is _State.STARTING:
            self._begin_at(toppar, toppar.start, toppar.start_epoch)

    def _has(self, toppar: _Toppar) -> bool:
        return self._toppars.get(toppar.number) is toppar and not self._closed

    def _give_up(self, numbers: list[int]) -> None:
        """The stored offsets are committed, if that is automatic, and the partitions are stopped."""
        if self._auto_commits:
            stored = [self._toppars[number] for number in numbers]
            self._send(
                [
                    _at(one.number, *one.stored)
                    for one in stored
                    if one.stored[0] not in (OFFSET_INVALID, self._known_commit(one))
                ]
            )
        for number in numbers:
            toppar = self._toppars.pop(number)
            toppar.version += 1

    def _told_rebalance(self, serve: Callable[[], None]) -> None:
        """The next delivering call serves the event. Until then no partition delivers."""
        for toppar in self._toppars.values():
            toppar.held = True
            self._stop_at_position(toppar)
        self._callbacks.append(serve)

    def _rebalance(self, event: Rebalance, numbers: list[int]) -> None:
        """Runs in a delivering call, or in close()."""
        on_assign, on_revoke = self._rebalances
        self._assigned_in_callback = False
        partitions = [TopicPartition("orders", number) for number in numbers]
        if event is Rebalance.ASSIGN:
            on_assign(self, partitions)
        else:
            on_revoke(self, partitions)
        if not self._assigned_in_callback:
            self._apply(event, partitions)
        for toppar in list(self._toppars.values()):
            if toppar.held:
                toppar.held = False
                if toppar.number not in self._paused:
                    self._go_on(toppar)

    def _apply(self, event: Rebalance, partitions: list[TopicPartition]) -> None:
        """What confluent_kafka does if the callback has not done it."""
        if self._coordinator.cooperative and not self._closing:
            increment = InnerModel.incremental_assign if event is Rebalance.ASSIGN else InnerModel.incremental_unassign
            increment(self, partitions)
        else:
            InnerModel.assign(self, partitions if event is Rebalance.ASSIGN else [])

    # -- where partitions are read -----------------------------------------------------------------------------------------

    def _begin_at(self, toppar: _Toppar, offset: int, epoch: int = UNKNOWN_EPOCH, *, validates: bool = False) -> None:
        """The next fetch is at ``offset``; a logical one is looked up first. ``validates``: and before it ``epoch`` is."""
        toppar.start, toppar.start_epoch = offset, epoch
        if offset >= 0:
            toppar.fetched, toppar.fetched_epoch = offset, epoch
            toppar.state = _State.ACTIVE
            if validates:
                self._validate(toppar)
            self._fetch(toppar)
            return
        toppar.state = _State.LOOKING
        self._world.after(self._delay(), partial(self._looked_up, toppar, toppar.version))

    def _looked_up(self, toppar: _Toppar, version: int) -> None:
        if not self._has(toppar) or toppar.version != version or toppar.state is not _State.LOOKING:
            return
        offset, epoch = toppar.start, UNKNOWN_EPOCH
        if offset in (OFFSET_STORED, OFFSET_INVALID):
            committed, epoch = self._coordinator.committed(toppar.number)
            self._committed[toppar.number] = committed
            self._leader_epochs.setdefault(toppar.number, toppar.partition.last_epoch)
            offset = committed if committed >= 0 else self._reset
        if offset == OFFSET_BEGINNING:
            known = self._log_starts.get(toppar.number)
            log_start = toppar.partition.log_start
            offset, epoch = (log_start, toppar.partition.epoch_at(log_start)) if known is None else (known, UNKNOWN_EPOCH)
            toppar.log.continued_at.add(offset)
        elif offset < 0:
            offset, epoch = self._end(toppar), toppar.partition.last_epoch
            self._leader_epochs[toppar.number] = epoch
        self._begin_at(toppar, offset, epoch)

    def _validate(self, toppar: _Toppar) -> None:
        """Asks the leader where the epoch of the position ends, if it may have another log. Until then nothing is fetched."""
        self._leader_epochs[toppar.number] = toppar.partition.last_epoch
        if self._world.scenario.replaces_logs and toppar.state is _State.ACTIVE and toppar.fetched_epoch != UNKNOWN_EPOCH:
            toppar.state = _State.VALIDATING
            self._world.after(self._delay(), partial(self._validated, toppar, toppar.version))

    def _validated(self, toppar: _Toppar, version: int) -> None:
        if not self._has(toppar) or toppar.version != version or toppar.state is not _State.VALIDATING:
            return
        epoch, end = toppar.partition.end_of_epoch(toppar.fetched_epoch)
        if end < 0:
            self._world.seen.saw("broker-out-of-range")
            self._begin_at(toppar, self._reset)
        elif end < toppar.fetched:
            self._world.seen.saw("broker-went-back")
            toppar.log.continued_at.add(end)
            self._go_back(toppar, end, epoch)
        else:
            toppar.state = _State.ACTIVE
            self._fetch(toppar)

    def _go_back(self, toppar: _Toppar, offset: int, epoch: int) -> None:
        """Like a seek. But what is queued stays, if it is below ``offset``, and what was taken. librdkafka drops it as well."""
        kept = [op for op in self._ops if op.toppar is not toppar or 0 <= op.offset < offset]
        toppar.queued -= len(self._ops) - len(kept)
        toppar.end_told_at = OFFSET_INVALID
        self._ops = deque(kept)
        start = toppar.start, toppar.start_epoch
        waits = toppar.queued or any(op.toppar is toppar and self._is_current(op) for op in self._taken)
        if not waits:
            toppar.position, toppar.position_epoch = OFFSET_INVALID, UNKNOWN_EPOCH
        self._begin_at(toppar, offset, epoch)
        if waits and toppar.position < 0 and start[0] <= offset:
            toppar.start, toppar.start_epoch = start

    def seek(self, partition: TopicPartition) -> None:
        self._check_open()
        toppar = self._toppars.get(partition.partition)
        if toppar is None or toppar.state is _State.STARTING:
            self._world.seen.saw("seek-refused")
            raise failure(KafkaError._STATE)
        self._drop(toppar)
        toppar.position, toppar.position_epoch = OFFSET_INVALID, UNKNOWN_EPOCH
        self._begin_at(toppar, partition.offset, epoch_of(partition.leader_epoch), validates=True)

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._check_open()
        for tp in partitions:
            self._paused.add(tp.partition)
            toppar = self._toppars.get(tp.partition)
            if toppar is not None:
                self._stop_at_position(toppar)

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._check_open()
        for tp in partitions:
            was_paused = tp.partition in self._paused
            self._paused.discard(tp.partition)
            toppar = self._toppars.get(tp.partition)
            if was_paused and toppar is not None:
                self._go_on(toppar)

    def _stop_at_position(self, toppar: _Toppar) -> None:
        self._drop(toppar)
        if toppar.position >= 0:
            toppar.start, toppar.start_epoch = toppar.position, toppar.position_epoch

    def _go_on(self, toppar: _Toppar) -> None:
        if toppar.state is not _State.STARTING:
            self._drop(toppar)
            known = toppar.position, toppar.position_epoch
            self._begin_at(toppar, *((toppar.start, toppar.start_epoch) if toppar.position < 0 else known))

    def _drop(self, toppar: _Toppar) -> None:
        toppar.version += 1
        toppar.queued = 0
        toppar.fetching = False
        toppar.end_told_at = OFFSET_INVALID

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        self._check_open()
        return [self._place(tp.partition) for tp in partitions]

    def _place(self, number: int) -> TopicPartition:
        toppar = self._toppars.get(number)
        if toppar is None or toppar.position < 0:
            return TopicPartition("orders", number)
        return _at(number, toppar.position, toppar.position_epoch)

    # -- fetching ----------------------------------------------------------------------------------------------------------

    def log_changed(self) -> None:
        """Called after logs have grown or were replaced: fetches that waited at an end are answered."""
        for toppar in self._toppars.values():
            if self._is_active(toppar):
                self._ask_leader(toppar)
            if self._is_active(toppar) and not toppar.fetching:
                self._log_starts[toppar.number] = toppar.partition.log_start
            self._fetch(toppar)

    def _ask_leader(self, toppar: _Toppar) -> None:
        """A fetch finds whether there is a new leader. If so, its answer has no log start, and the position is validated."""
        if not self._knows_leader(toppar):
            self._log_starts.pop(toppar.number, None)
            self._validate(toppar)

    def _knows_leader(self, toppar: _Toppar) -> bool:
        known = self._leader_epochs.get(toppar.number)
        return known == toppar.partition.last_epoch or not self._world.scenario.replaces_logs

    def _is_active(self, toppar: _Toppar) -> bool:
        return toppar.state is _State.ACTIVE and toppar.number not in self._paused and not toppar.held

    def _end(self, toppar: _Toppar) -> int:
        return toppar.log.stable_end(self._level)

    def _delay(self) -> float:
        return self._world.chance.uniform(0.5, 1.5) * self._world.scenario.latency

    def _fetch(self, toppar: _Toppar) -> None:
        """Sends a fetch if one is due. At the end of the log it waits until the log grows."""
        end = self._end(toppar)
        knows_end = toppar.fetched > end or toppar.end_told_at == end or not self._announces_ends
        waits = end <= toppar.fetched <= toppar.log.end and knows_end and self._knows_leader(toppar)
        if self._is_active(toppar) and not toppar.fetching and toppar.queued < _QUEUED and not waits:
            toppar.fetching = True
            self._world.after(self._delay(), partial(self._arrived, toppar, toppar.version))

    def _arrived(self, toppar: _Toppar, version: int) -> None:
        if not self._has(toppar) or toppar.version != version:
            return
        if self._principal in self._world.brokers.denied:
            self._world.seen.saw("broker-denied")
            self._world.after(self._delay(), partial(self._arrived, toppar, version))
            return
        toppar.fetching = False
        self._ask_leader(toppar)
        if toppar.state is not _State.ACTIVE:
            return
        if not toppar.partition.log_start <= toppar.fetched <= toppar.log.end:
            self._world.seen.saw("broker-out-of-range")
            self._log_starts.pop(toppar.number, None)
            self._begin_at(toppar, self._reset)
            return
        self._log_starts[toppar.number] = toppar.partition.log_start
        log_end = self._end(toppar)
        end = max(toppar.fetched, min(toppar.fetched + self._world.chance.randint(1, 80), log_end))
        for offset, entry in toppar.log.readable(self._level, toppar.fetched, end):
            message = None
            if entry.value is not None:
                stamp, epoch = (TIMESTAMP_CREATE_TIME, entry.time_ms), entry.epoch
                message = Message("orders", toppar.number, offset, None, entry.value, None, None, stamp, leader_epoch=epoch)
            self._queue(_Op(toppar, toppar.version, offset, entry.epoch, message))
        if end > toppar.fetched:
            toppar.fetched_epoch = toppar.log.epoch_before(end)
        toppar.fetched = end
        if end == log_end and self._announces_ends and toppar.end_told_at != end:
            toppar.end_told_at = end
            told = Message("orders", toppar.number, end, error=KafkaError(KafkaError._PARTITION_EOF, "simulated"))
            self._queue(_Op(toppar, toppar.version, -1, UNKNOWN_EPOCH, told))
        self._fetch(toppar)

    def _queue(self, op: _Op) -> None:
        self._ops.append(op)
        op.toppar.queued += 1

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._check_open()
        self._taken = []
        until = self._world.clock.now + max(timeout, 0.0)
        while True:
            while self._callbacks:
                self._callbacks.popleft()()
            self._taken = [op for op in self._taken if self._is_current(op)]
            messages = sum(op.message is not None for op in self._taken)
            while self._ops and messages < num_messages:
                op = self._ops.popleft()
                if self._is_current(op):
                    op.toppar.queued -= 1
                    self._taken.append(op)
                    messages += op.message is not None
                    self._fetch(op.toppar)
            left = until - self._world.clock.now
            if messages >= num_messages or left <= 0 or not self._world.wait(left, self._has_more):
                return self._given()

    def _given(self) -> list[Message]:
        """Returns the messages of a call, which move positions only now."""
        passed, self._taken = self._taken, []
        for op in passed:
            if op.offset >= 0 and self._is_current(op):
                op.toppar.position, op.toppar.position_epoch = op.offset + 1, op.epoch
        return [op.message for op in passed if op.message is not None and self._is_current(op)]

    def _has_more(self) -> bool:
        return bool(self._ops or self._callbacks)

    def _is_current(self, op: _Op) -> bool:
        """Whether its partition is still read as when the entry was queued."""
        return self._has(op.toppar) and op.toppar.version == op.version

    def get_watermark_offsets(self, partition: TopicPartition, *args: Any, **kwargs: Any) -> tuple[int, int]:
        held = self._world.brokers.partitions[partition.partition]
        return held.log_start, held.log.end

    # -- offsets -----------------------------------------------------------------------------------------------------------

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        self._check_open()
        delay, fails = self._answer_in(), self._world.happens(self._world.scenario.coordinator_fails)
        self._world.wait(min(delay, timeout))
        if delay > timeout or fails:
            self._world.seen.saw("coordinator-silent")
            raise failure(KafkaError._TIMED_OUT if delay > timeout else KafkaError._TRANSPORT)
        return [_at(tp.partition, *self._coordinator.committed(tp.partition)) for tp in partitions]

    def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        self._check_open()
        places = offsets or []
        known = [(toppar, tp) for tp in places if (toppar := self._toppars.get(tp.partition)) is not None]
        if places and not known:
            raise failure(KafkaError._STATE)
        for toppar, tp in known:
            toppar.stored = tp.offset, epoch_of(tp.leader_epoch)

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> Any:
        self._check_open()
        places = self._due(self._toppars.values()) if offsets is None else offsets
        if not places:
            raise failure(KafkaError._NO_OFFSET)
        request = _CommitRequest(places, told=asynchronous)
        self._commit_requests.append(request)
        if asynchronous:
            self._world.after(self._answer_in(), partial(self._handle, request))
            return None
        self._world.wait(self._answer_in())
        self._handle(request)
        if request.refused is not None:
            raise failure(request.refused)
        return places

    def _answer_in(self) -> float:
        """Returns the time of the coordinator's next answer. It answers in the order of the requests."""
        now = self._world.clock.now
        self._answered_by = max(self._answered_by, now + self._delay())
        return self._answered_by - now

    def _due(self, toppars: Iterable[_Toppar]) -> list[TopicPartition]:
        """The stored offsets that are past the committed ones."""
        return [_at(toppar.number, *toppar.stored) for toppar in toppars if toppar.stored[0] > self._known_commit(toppar)]

    def _known_commit(self, toppar: _Toppar) -> int:
        return self._committed.get(toppar.number, OFFSET_INVALID)

    def _send(self, places: list[TopicPartition]) -> None:
        """Commits offsets without an application's call."""
        if places:
            self._commit_requests.append(_CommitRequest(places, told=True))
            self._handle(self._commit_requests[-1])

    def _commits_in_background(self) -> None:
        if self._closed:
            return
        if self._auto_commits:
            self._send(self._due(self._toppars.values()))
        self._world.after(self._interval, self._commits_in_background)

    def _handle(self, request: _CommitRequest) -> None:
        """The coordinator handles a request, and before it all earlier ones: they came by the same connection."""
        while request in self._commit_requests and not self._closed:
            first = self._commit_requests.popleft()
            first.refused = self._coordinator.commit(self._name if self._in_group else None, first.places)
            if first.told:
                error = None if first.refused is None else KafkaError(first.refused, "simulated")
                self._callbacks.append(partial(self._on_commit, error, first.places))
            if first.refused is None:
                self._committed.update((tp.partition, tp.offset) for tp in first.places)

    # -- the end -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._closed:
            return
        self._closing = True
        self._serve_callbacks()
        if self._in_group and self._toppars:
            self._rebalance(Rebalance.REVOKE, list(self._toppars))
        self._give_up(list(self._toppars))
        self._serve_callbacks()
        self._closed = True
        if self._in_group:
            self._coordinator.leave(self._name)

    def _serve_callbacks(self) -> None:
        """Serves what waits, but not what a rebalance that ends here would do next."""
        waiting = list(self._callbacks)
        self._callbacks.clear()
        for callback in waiting:
            callback()

    def crash(self) -> None:
        """The process ends: nothing is committed, and the group notices it later."""
        self._closed = True
        self._ops.clear()
        self._callbacks.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")


def _at(number: int, offset: int, epoch: int) -> TopicPartition:
    if offset >= 0 and epoch != UNKNOWN_EPOCH:
        return TopicPartition("orders", number, offset, leader_epoch=epoch)
    return TopicPartition("orders", number, offset)
