"""Wraps any consumer with confluent_kafka's methods and records its events. See ``tests.support.history``.

The wrapper does not change the consumer's behaviour, with one exception: if a partition starts at its committed offset,
that offset is requested first, because otherwise the required start is unknown. Callbacks get the wrapper, so
that what they call is recorded too. Commits are seen by ``on_commit`` and by the answers of synchronous ones; fallbacks by the
log line that the consumer writes for each.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.fallback import Fallback
from tests.support.arrow_reading import taken_by_arrow
from tests.support.history import (
    Assigned,
    Closed,
    Committed,
    Counted,
    Failure,
    FellBack,
    History,
    Key,
    Opened,
    Paused,
    Place,
    Polled,
    Positioned,
    Record,
    Refused,
    Resumed,
    Revoked,
    Sought,
    Stored,
)

__all__ = ["RecordedConsumer", "recorded"]

_COMMITTED_SECONDS = 30.0
_FOR_GOOD_MS = 600_000
_RESETS = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}


def recorded(
    make: Callable[[dict[str, Any]], confluent_kafka.Consumer],
    config: Mapping[str, Any],
    history: History,
    name: str = "consumer",
) -> RecordedConsumer:
    """Makes a consumer of ``config`` with ``make`` and records it under ``name``: ``recorded(Consumer, settings, history)``."""
    return RecordedConsumer(make, config, history, name)


class RecordedConsumer:
    """See the module. ``inner`` is the consumer itself: calls on it are not recorded, nor are methods not listed here."""

    def __init__(
        self, make: Callable[[dict[str, Any]], confluent_kafka.Consumer], config: Mapping[str, Any], history: History, name: str
    ) -> None:
        self.history = history
        self.name = name
        self._on_commit = config.get("on_commit")
        reset = str(config.get("auto.offset.reset", "largest")).lower()
        self._reset = _RESETS.get(reset, reset)
        strategy = str(config.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or config.get("group.protocol") == "consumer"
        self._assigned_by_user = False
        self._closed = False
        history.add(
            Opened,
            name,
            group=str(config.get("group.id")),
            isolation=str(config.get("isolation.level", "read_committed")),
            reset=self._reset,
            announces_ends=str(config.get("enable.partition.eof", False)).lower() == "true",
            falls_back_once=int(config.get("fetch.remote.fallback.backoff.ms", 0)) >= _FOR_GOOD_MS,
        )
        self.inner = make({**config, "on_commit": self._committed})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    # -- assignment --------------------------------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None) -> None:
        def assigned(_: Any, partitions: list[TopicPartition]) -> None:
            places, committed = self._starts(partitions)
            self._assigned_by_user = False
            if on_assign is not None:
                on_assign(self, partitions)
            if not self._assigned_by_user:
                self._add(Assigned, places=places, committed=committed, incremental=self._incremental)

        def revoked(callback: Any, *, lost: bool) -> Callable[..., None]:
            def on_gone(_: Any, partitions: list[TopicPartition]) -> None:
                if callback is not None:
                    callback(self, partitions)
                self._add(Revoked, keys=_keys(partitions), lost=lost)

            return on_gone

        lost = on_revoke if on_lost is None else on_lost
        self._called(
            self.inner.subscribe,
            topics,
            on_assign=assigned,
            on_revoke=revoked(on_revoke, lost=False),
            on_lost=revoked(lost, lost=True),
        )

    def unsubscribe(self) -> None:
        self._called(self.inner.unsubscribe)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        places, committed = self._starts(partitions)
        self._called(self.inner.assign, partitions)
        self._add(Assigned, places=places, committed=committed)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        places, committed = self._starts(partitions)
        self._called(self.inner.incremental_assign, partitions)
        self._add(Assigned, places=places, committed=committed, incremental=True)

    def unassign(self) -> None:
        keys = _keys(self.inner.assignment())
        self._called(self.inner.unassign)
        self._add(Revoked, keys=keys)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._called(self.inner.incremental_unassign, partitions)
        self._add(Revoked, keys=_keys(partitions))

    def _starts(self, partitions: list[TopicPartition]) -> tuple[tuple[Place, ...], frozenset[Key]]:
        """Returns where reading has to start, and which partitions start at a committed offset."""
        asked = [TopicPartition(tp.topic, tp.partition) for tp in partitions if tp.offset in (OFFSET_INVALID, OFFSET_STORED)]
        known: dict[Key, int] = {}
        if asked and not self._closed:  # a member that leaves a group gets no more answers
            try:
                answered = self.inner.committed(asked, timeout=_COMMITTED_SECONDS)
            except KafkaException:
                answered = []
            known = {(tp.topic, tp.partition): tp.offset for tp in answered if tp.error is None}
            self._note_commit(answered, seen=True)
        reset = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(self._reset, OFFSET_INVALID)
        places, committed = [], set()
        for tp in partitions:
            key, offset = (tp.topic, tp.partition), tp.offset
            if offset in (OFFSET_INVALID, OFFSET_STORED):
                offset = known.get(key, OFFSET_INVALID)
                if offset >= 0:
                    committed.add(key)
                elif key in known:
                    offset = reset
            places.append(Place(*key, offset))
        return tuple(places), frozenset(committed)

    # -- delivery ----------------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Message | None:
        began = self.history.now()
        message: Message | None = self._called(self.inner.poll, timeout)
        self._polled(began, () if message is None else (message,))
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        began = self.history.now()
        messages: list[Message] = self._called(self.inner.consume, num_messages, timeout)
        self._polled(began, messages)
        return messages

    def consume_arrow(self, max_records: int = 1, timeout: float = -1) -> list[Message]:
        """Returns messages from ``consume_arrow``, or from ``consume`` if the consumer has no ``consume_arrow``."""
        if not isinstance(self.inner, Consumer):
            return self.consume(max_records, timeout)
        began = self.history.now()
        messages: list[Message] = taken_by_arrow(lambda: self._called(self.inner.consume_arrow, max_records, timeout))
        self._polled(began, messages)
        return messages

    def _polled(self, began: float, messages: Iterable[Message]) -> None:
        records, errors = [], []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(Record.of(message))
            else:
                topic, partition = message.topic(), message.partition()
                key = None if topic is None or partition is None else (topic, partition)
                errors.append(Failure(error.code(), key, message.offset(), str(error)))
        self._add(Polled, began=began, records=tuple(records), errors=tuple(errors))

    def seek(self, partition: TopicPartition) -> None:
        self._called(self.inner.seek, partition)
        self._add(Sought, place=Place.of(partition))

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._called(self.inner.pause, partitions)
        self._add(Paused, keys=_keys(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._add(Resumed, keys=_keys(partitions))
        self._called(self.inner.resume, partitions)

    # -- offsets and the end -----------------------------------------------------------------------------------------------

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        answered = self._called(self.inner.commit, *args, **kwargs)
        if answered:
            self._note_commit(answered)
        return answered

    def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        self._called(self.inner.store_offsets, *args, **kwargs)
        if kwargs.get("offsets"):
            self._add(Stored, places=tuple(map(Place.of, kwargs["offsets"])))

    def committed(self, partitions: list[TopicPartition], timeout: float = _COMMITTED_SECONDS) -> list[TopicPartition]:
        answered: list[TopicPartition] = self._called(self.inner.committed, partitions, timeout)
        self._note_commit(answered, seen=True)
        return answered

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        answered: list[TopicPartition] = self._called(self.inner.position, partitions)
        self._add(Positioned, places=tuple(Place.of(tp) for tp in answered if tp.error is None))
        return answered

    def _committed(self, error: Any, partitions: list[TopicPartition]) -> None:
        if error is None:
            self._note_commit(partitions)
        refused: dict[int, list[Place]] = {}
        for tp in partitions:
            failed = tp.error if error is None else error
            if failed is not None and tp.offset >= 0:
                refused.setdefault(failed.code(), []).append(Place.of(tp))
        for code, places in refused.items():
            self._add(Refused, places=tuple(places), code=code)
        if self._on_commit is not None:
            self._on_commit(error, partitions)

    def _note_commit(self, partitions: list[TopicPartition], *, seen: bool = False) -> None:
        places = tuple(Place.of(tp) for tp in partitions if tp.error is None and tp.offset >= 0)
        if places:
            self._add(Committed, places=places, seen=seen)

    def count(self) -> None:
        """Records the consumer's counters; close() does this too."""
        if isinstance(self.inner, DirectConsumer):
            metrics: dict[str, Any] = self.inner.metrics()
            self._add(
                Counted,
                from_store=metrics["remote-fetch-records-total"],
                from_broker=metrics["broker-fetch-records-total"],
                fallbacks=dict(metrics["remote-fetch-fallbacks-total"]),
            )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.count()
            self._called(self.inner.close)
            self._add(Closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- recording ---------------------------------------------------------------------------------------------------------

    def _add(self, kind: Any, **fields: Any) -> None:
        self.history.add(kind, self.name, **fields)

    def _called(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the consumer; log lines of this thread during the call belong to it."""
        with _FALLBACKS.to(self):
            return method(*args, **kwargs)


class _Fallbacks(logging.Handler):
    """Finds the log lines of fallbacks and gives each to the recorder whose consumer is being called on that thread."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._current = threading.local()
        logger = logging.getLogger("kafka_remote_client.consumer.routing")
        logger.addHandler(self)
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)

    def to(self, recorder: RecordedConsumer) -> _Directed:
        return _Directed(self._current, recorder)

    def emit(self, line: logging.LogRecord) -> None:
        recorders = getattr(self._current, "recorders", ())
        if not recorders or not isinstance(line.args, tuple) or not line.args:
            return
        event = line.args[0]
        if isinstance(event, Fallback) and event.taken_over:
            recorders[-1]._add(FellBack, key=(event.topic, event.partition), offset=event.offset, cause=event.cause)


class _Directed:
    def __init__(self, current: threading.local, recorder: RecordedConsumer) -> None:
        self._current, self._recorder = current, recorder

    def __enter__(self) -> None:
        self._current.recorders = (*getattr(self._current, "recorders", ()), self._recorder)

    def __exit__(self, *_: object) -> None:
        self._current.recorders = self._current.recorders[:-1]


_FALLBACKS = _Fallbacks()


def _keys(partitions: Iterable[TopicPartition]) -> tuple[Key, ...]:
    return tuple((tp.topic, tp.partition) for tp in partitions)
