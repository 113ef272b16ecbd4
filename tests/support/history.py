"""The history of consumers, event by event: a recorder writes it, ``tests.support.invariants`` checks it.

A test records the consumer under test and, in a separate history, the oracle: a plain ``confluent_kafka.Consumer`` with
``check.crcs=true`` on the same topics. Then it lets the invariants compare the two::

    history, truth = History(), History()
    with recorded(Consumer, direct_settings(...), history) as consumer:          # tests.support.recorder
        consumer.subscribe(["orders"])
        while not done:
            consumer.poll(1.0)                                                   # any call of confluent_kafka's
    with recorded(confluent_kafka.Consumer, plain_settings(...), truth) as plain:
        ...                                                                      # reads everything to its ends
    check(history, Oracle.of(truth))                                             # tests.support.invariants.checker; raises

The test adds other facts with :meth:`History.add`: the produced records and the ends of transactions
(:class:`Produced`), when the broker was unreachable (:class:`Outage`), when the log's bounds moved (:class:`Moved`), which
fault fired (:class:`Fired`), what the store and the broker sent by their own logs (:class:`Served`). Without these the checks
use only the oracle.

Events have one order: their ``number``. ``at`` is monotonic seconds, which on Linux all processes of a machine share, so that
histories of several processes can be merged (``journal``, :meth:`History.merged`): the events of a killed process are
in its journal.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import attrs
from confluent_kafka import OFFSET_INVALID, KafkaError, Message, TopicPartition

__all__ = [
    "Assigned",
    "Closed",
    "Committed",
    "Counted",
    "Event",
    "Failure",
    "FellBack",
    "Fired",
    "History",
    "Key",
    "Measured",
    "Moved",
    "Opened",
    "Outage",
    "Outcome",
    "Paused",
    "Place",
    "Polled",
    "Positioned",
    "Produced",
    "Record",
    "Refused",
    "Resumed",
    "Revoked",
    "Served",
    "Sought",
    "Source",
    "Stored",
]

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Record(NamedTuple):
    """All fields of a record. ``timestamp`` is (type, milliseconds), ``headers`` None if there are none."""

    topic: str
    partition: int
    offset: int
    timestamp: tuple[int, int] | None
    leader_epoch: int | None
    key: Any
    value: Any
    headers: Any

    @classmethod
    def of(cls, message: Message) -> Record:
        """The record of a message without an error."""
        headers = message.headers()
        return cls(
            str(message.topic()),
            int(message.partition() or 0),
            int(message.offset() or 0),
            message.timestamp(),
            message.leader_epoch(),
            message.key(),
            message.value(),
            None if headers is None else tuple(map(tuple, headers)),
        )

    @property
    def place(self) -> Key:
        return self.topic, self.partition


@attrs.frozen
class Place:
    """A partition at an offset: numeric, or one of confluent_kafka's logical ones (OFFSET_INVALID: not known)."""

    topic: str
    partition: int
    offset: int = OFFSET_INVALID
    leader_epoch: int | None = None

    @classmethod
    def of(cls, partition: TopicPartition) -> Place:
        return cls(partition.topic, partition.partition, partition.offset, partition.leader_epoch)

    @property
    def key(self) -> Key:
        return self.topic, self.partition


@attrs.frozen
class Failure:
    """An error that a poll returned, including the end of a partition."""

    code: int
    key: Key | None = None
    offset: int | None = None
    text: str = ""

    @property
    def is_end(self) -> bool:
        return self.code == KafkaError._PARTITION_EOF


@attrs.frozen(kw_only=True)
class Event:
    """``consumer``: the name of the consumer, "" if there is none."""

    number: int
    at: float
    consumer: str = ""


@attrs.frozen(kw_only=True)
class Opened(Event):
    """A consumer was created. ``announces_ends``: it reports the ends of partitions.

    ``falls_back_once``: a partition that fell back to the broker does not return to the store within the run.
    """

    group: str
    isolation: str = "read_committed"
    reset: str = "latest"
    announces_ends: bool = False
    falls_back_once: bool = False


class Outcome(Enum):
    """The end of a record's transaction; PLAIN: it had none, UNKNOWN: not acknowledged."""

    PLAIN = "plain"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


@attrs.frozen(kw_only=True)
class Produced(Event):
    """The broker acknowledged a record; to be added once the outcome is known. ``headers`` None: not compared."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: Any = None
    outcome: Outcome = Outcome.PLAIN


@attrs.frozen(kw_only=True)
class Assigned(Event):
    """Partitions were assigned. ``places`` are the starts; committed offsets are already looked up.

    ``committed``: of these the ones that start at a committed offset. ``incremental`` False: all others are gone.
    """

    places: tuple[Place, ...]
    committed: frozenset[Key] = frozenset()
    incremental: bool = False


@attrs.frozen(kw_only=True)
class Revoked(Event):
    """Partitions were revoked by a rebalance, unassigned, or ``lost``."""

    keys: tuple[Key, ...]
    lost: bool = False


@attrs.frozen(kw_only=True)
class Polled(Event):
    """poll() or consume() returned, at the event's own time; called at ``began``. Callbacks that ran in it come before it."""

    began: float
    records: tuple[Record, ...] = ()
    errors: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True)
class Sought(Event):
    """A seek returned."""

    place: Place


@attrs.frozen(kw_only=True)
class Paused(Event):
    """A pause returned."""

    keys: tuple[Key, ...]


@attrs.frozen(kw_only=True)
class Resumed(Event):
    """A resume is about to be called."""

    keys: tuple[Key, ...]


@attrs.frozen(kw_only=True)
class Stored(Event):
    """The application stored offsets itself."""

    places: tuple[Place, ...]


@attrs.frozen(kw_only=True)
class Committed(Event):
    """The group's committed offsets, as an answer to a commit or to a query. ``seen`` = the latter."""

    places: tuple[Place, ...]
    seen: bool = False


@attrs.frozen(kw_only=True)
class Refused(Event):
    """A failed commit, as in ``on_commit``: its offsets, and the error's code."""

    places: tuple[Place, ...]
    code: int


@attrs.frozen(kw_only=True)
class Positioned(Event):
    """The result of ``position``."""

    places: tuple[Place, ...]


@attrs.frozen(kw_only=True)
class Closed(Event):
    """close() returned."""


@attrs.frozen(kw_only=True)
class Moved(Event):
    """The log begins at ``log_start`` from now on (retention, DeleteRecords) or was cut to ``end`` (an unclean election)."""

    key: Key
    log_start: int = 0
    end: int | None = None


@attrs.frozen(kw_only=True)
class Outage(Event):
    """The broker cannot be reached from here on; with ``over`` it can again. I9 does not apply in between."""

    over: bool = False


@attrs.frozen(kw_only=True)
class Fired(Event):
    """The injector observed a fault ``times`` times.

    ``causes``: the causes of fallbacks that it permits; None if the test does not say.
    """

    fault: str
    times: int = 1
    causes: frozenset[str] | None = None


class Source(Enum):
    """A sender of records."""

    STORE = "store"
    BROKER = "broker"


@attrs.frozen(kw_only=True)
class Served(Event):
    """The offsets of a partition that a server sent, by its own log; valid or damaged. ``local_start``: where the broker's
    local log began then, None if it was not requested.

    One event of a source, even an empty one, means that the history has everything that this source sends.
    """

    source: Source
    key: Key
    offsets: tuple[range, ...] = ()
    local_start: int | None = None


@attrs.frozen(kw_only=True)
class FellBack(Event):
    """A partition continued at the broker although its data is tiered, by the consumer's log."""

    key: Key
    offset: int
    cause: str


@attrs.frozen(kw_only=True)
class Counted(Event):
    """The consumer's counters so far."""

    from_store: int
    from_broker: int
    fallbacks: Mapping[str, int]


@attrs.frozen(kw_only=True)
class Measured(Event):
    """The resources of the process: ``moment`` is "before" the first consumer, "during", or "after" the last was closed.

    ``bound``: the byte limit; the bytes are -1 if they were not measured. ``sockets``: open connections, by their addresses.
    """

    moment: str
    threads: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    bytes_held: int = -1
    bound: int = -1


_E = TypeVar("_E", bound=Event)


class History:
    """Events in order. Thread-safe. ``journal``: each event is also written to that file at once."""

    def __init__(
        self, events: Iterable[Event] = (), *, journal: Path | None = None, now: Callable[[], float] | None = None
    ) -> None:
        self.events: list[Event] = list(events)
        self._now = now or time.monotonic
        self._shift = 0.0
        self._lock = threading.Lock()
        self._journal = None if journal is None else journal.open("ab", buffering=0)

    def add(self, kind: type[_E], consumer: str = "", **fields: Any) -> _E:
        """Adds an event of ``kind`` with the current time."""
        with self._lock:
            event = kind(number=len(self.events), at=self.now(), consumer=consumer, **fields)
            self.events.append(event)
            if self._journal is not None:
                self._journal.write(pickle.dumps(event))
        return event

    def now(self) -> float:
        """Seconds on the clock of the events."""
        return self._now() + self._shift

    def shift(self, seconds: float) -> None:
        """Moves the clock of the events forward by ``seconds``."""
        self._shift += seconds

    def of(self, kind: type[_E], consumer: str | None = None) -> list[_E]:
        """The events of a kind, of one consumer or of all."""
        return [event for event in self.events if isinstance(event, kind) and consumer in (None, event.consumer)]

    def consumers(self) -> list[str]:
        """The names of all consumers, in the order of their first events."""
        return list(dict.fromkeys(event.consumer for event in self.events if event.consumer))

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self.events))

    def close(self) -> None:
        """Ends the journal."""
        if self._journal is not None:
            self._journal.close()

    @classmethod
    def merged(cls, *parts: History | Path) -> History:
        """Merges histories, or journals of them, in the order of time. A truncated journal counts up to its end."""
        events = [event for part in parts for event in (part.events if isinstance(part, History) else _read(part))]
        events.sort(key=lambda event: event.at)
        return cls(attrs.evolve(event, number=number) for number, event in enumerate(events))


def _read(journal: Path) -> Iterator[Event]:
    with journal.open("rb") as file:
        while True:
            try:
                event = pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return
            yield event
