"""The GETs in flight, each with the deadline of its fetcher, and the late ones. Pure (no I/O).

A fetcher that does not return in time keeps its thread, and may write to its buffer at any later moment. So the GET is
abandoned without the buffer, and the thread counts as stuck until it returns. If too many threads hang, no GET may begin: the
rest of the threads must see that those in flight are overdue.

A GET that is late may get a hedge, another GET of the same range (:mod:`~kafka_remote_client.fetch.hedging`). All GETs of a
range race: they are in flight until one of them has brought the range. The others are then overtaken: they no longer count as
in flight, and their threads are stuck until they return. A GET that waits for its first byte has no buffer yet, and releases
its memory at once. A GET with a buffer holds it until it returns, or until it is overdue.

References: docs/design.md, "Failure".
"""

from __future__ import annotations

import heapq
from enum import Enum, auto
from itertools import count

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.fetch.range_place import located

__all__ = ["NO_THREAD", "Flights", "Return"]

NO_THREAD = "no-thread"
"""Why the broker takes over if no thread may begin a GET."""

_GRACE_SECONDS = 0.5


class Return(Enum):
    """The state of a GET when its thread returned: expected, overdue, or overtaken by another GET of its range."""

    WANTED = auto()
    GIVEN_UP = auto()
    OVERTAKEN = auto()


@attrs.define(eq=False)
class _Flight:
    """``race``: the GETs of the same range that are in flight, this one among them, in the order of their begin."""

    began: float
    overdue_at: float
    race: list[Fetch]
    overtaken: bool = False


class Flights:
    """Not thread-safe: the engine's lock guards it. Times are seconds on the monotonic clock."""

    def __init__(self, config: RemoteFetchConfig) -> None:
        self._most_hanging = config.max_in_flight
        self._seconds = (config.read_timeout_ms + config.connect_timeout_ms) / 1000 + _GRACE_SECONDS
        self._flights: dict[Fetch, _Flight] = {}
        self._watched: list[tuple[float, int, Fetch]] = []
        self._late: dict[Fetch, None] = {}
        self._numbers = count()
        self._overtaken = 0
        self._given_up = 0

    def __len__(self) -> int:
        return len(self._flights) - self._overtaken

    @property
    def stuck(self) -> int:
        """Threads whose GET is not needed any more."""
        return self._given_up + self._overtaken

    @property
    def exhausted(self) -> bool:
        """Whether as many threads hang in a fetcher as the engine replaces."""
        return self._given_up >= self._most_hanging

    @property
    def awaited_bytes(self) -> int:
        """Bytes of memory for GETs in flight that the store has not begun to answer: they have no buffer yet."""
        return sum(task.lease.size for task in self._flights if task.lease is not None and task.lease.buffer is None)

    def begin(self, task: Fetch, now: float, *, late_at: float | None = None) -> None:
        """A thread begins a GET. From ``late_at`` on it is one of :meth:`late`."""
        self._flights[task] = _Flight(now, now + self._seconds, [task])
        if late_at is not None:
            self.watch(task, late_at)

    def hedge(self, task: Fetch, hedge: Fetch, now: float, *, late_at: float | None) -> None:
        """A thread begins ``hedge``, one more GET of the range of ``task``."""
        self.begin(hedge, now, late_at=late_at)
        self._late.pop(task, None)
        race = self._flights[task].race
        race.append(hedge)
        self._flights[hedge].race = race

    def racing(self, task: Fetch) -> int:
        """How many GETs of the range of ``task`` are in flight."""
        return len(self._flights[task].race)

    def end(self, task: Fetch) -> tuple[Return, list[Fetch]]:
        """The thread has returned. Also returns the GETs of the same range that are still in flight."""
        flight = self._remove(task)
        if flight is None:
            self._given_up -= 1
            return Return.GIVEN_UP, []
        return (Return.OVERTAKEN if flight.overtaken else Return.WANTED), list(flight.race)

    def discard(self, task: Fetch) -> None:
        """Removes a GET that is not sent."""
        self._remove(task)

    def overtake(self, task: Fetch, now: float) -> float:
        """The GET is not needed any more: another one has brought the range. Returns its seconds in flight."""
        flight = self._flights[task]
        flight.overtaken = task.overtaken = True
        flight.race.remove(task)
        flight.race = []
        self._overtaken += 1
        self._late.pop(task, None)
        if task.lease is not None and task.lease.buffer is None:
            task.drop()
        return now - flight.began

    def age(self, task: Fetch, now: float) -> float:
        """For how many seconds a GET is in flight."""
        return now - self._flights[task].began

    def watch(self, task: Fetch, at: float) -> None:
        """From ``at`` on the GET is one of :meth:`late`, if it is in flight then."""
        self._late.pop(task, None)
        heapq.heappush(self._watched, (at, next(self._numbers), task))

    def late(self, now: float) -> list[Fetch]:
        """The GETs that are late and were not followed by a hedge, in the order in which they became so; none if exhausted."""
        while self._watched and self._watched[0][0] <= now:
            _, _, task = heapq.heappop(self._watched)
            flight = self._flights.get(task)
            if flight is not None and flight.race[-1:] == [task]:  # the last one of a running race
                self._late[task] = None
        return [] if self.exhausted else list(self._late)

    def patience(self, now: float, longest: float) -> float:
        """Seconds until a GET may be late, from 0 up to ``longest``."""
        while self._watched and self._watched[0][2] not in self._flights:
            heapq.heappop(self._watched)  # it has ended
        return min(longest, max(0.0, self._watched[0][0] - now)) if self._watched else longest

    def give_up(self, now: float) -> tuple[Fetch, RemoteStorageTimeoutError, list[Fetch]] | None:
        """One GET that is overdue, with its error and the other GETs of its range. ``None`` where none is overdue."""
        while self._flights:
            task, flight = next(iter(self._flights.items()))  # the oldest, because all have the same time-out
            if flight.overdue_at >= now:
                return None
            self._remove(task)
            self._given_up += 1
            if task.lease is not None:
                task.lease.buffer = None  # the hanging thread may still write to it
            if flight.overtaken:
                task.drop()
                continue
            granted = task.range.granted
            where = f"bytes {granted.range} of {task.range.host}"
            error = RemoteStorageTimeoutError(f"the fetcher did not return {where} in time")
            located(error, task.grant.location, granted)
            error.with_context(attempt=task.range.attempts, elapsed_seconds=now - flight.began)
            return task, error, list(flight.race)
        return None

    def _remove(self, task: Fetch) -> _Flight | None:
        flight = self._flights.pop(task, None)
        self._late.pop(task, None)
        if flight is not None:
            self._overtaken -= flight.overtaken
            if task in flight.race:
                flight.race.remove(task)
        return flight
