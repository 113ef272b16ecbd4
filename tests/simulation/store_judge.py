"""Judges the requests of a client to the store and to the peer: how often, how soon, and when not. judge.py has the rules."""

from __future__ import annotations

from collections import deque

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    LocationThrottledError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.partition_read import Fetch, Locate, PartitionRead
from kafka_remote_client.model import LocationAnswer, LocationPending
from tests.simulation.breaker_judge import BreakerJudge
from tests.simulation.judge import ViolationError
from tests.simulation.pace_judge import PaceJudge
from tests.simulation.scenario import OVERDUE_SECONDS

__all__ = ["StoreJudge"]

_FAILURE_WINDOW_SECONDS = 10.0
_LONG_SECONDS = 2.0
"""A Retry-After above this keeps all requests from the store, at most for the next constant."""
_LONGEST_SECONDS = 30.0
_THROTTLED_RETRIES = 10
_LEAST_HEDGE_SECONDS = 0.025
_FREE_HEDGES = 5
_COUNTED = (RemoteStorageUnavailableError, RemoteStorageAccessError, RemoteStorageTimeoutError)


@attrs.define
class _Range:
    """The GETs of a range without hedges, how often it came, the last failure of all its GETs, and until when it must wait.

    ``damages``: how often what came of it was damaged. ``damaged``: whether it was after its last GET.
    """

    gets: int = 0
    came: int = 0
    damages: int = 0
    damaged: bool = False
    error: RemoteStorageError | None = None
    not_before: float = 0.0


class StoreJudge:
    """There is one store. Times are in seconds."""

    def __init__(self, config: RemoteFetchConfig, *, knows_breaker: bool = False) -> None:
        """``knows_breaker``: each result that counts for the breaker is seen here (breaker_judge.py)."""
        self._config = config
        self._breaker = BreakerJudge(config.breaker_failures, config.breaker_reset_ms / 1000) if knows_breaker else None
        self._pace = PaceJudge(config.slow_bytes_per_second)
        self._ranges: dict[RangeRead, _Range] = {}
        self._racing: dict[RangeRead, list[tuple[Fetch, float]]] = {}
        self._failures: deque[float] = deque()
        self._ill_since: float | None = None
        self._tries = 0
        self._quiet_until = 0.0
        self._gets = self._hedges = 0
        self._locate_at: dict[PartitionRead, float] = {}
        self._pending_since: dict[PartitionRead, float] = {}
        self._timed_out: set[PartitionRead] = set()

    # -- GETs ------------------------------------------------------------------------------------------------------------

    def sends(self, command: Fetch, now: float) -> None:
        """A GET begins."""
        name = command.read.name
        self._health(name, now)
        if self._breaker is not None:
            self._breaker.sends(name, now)
        if command.hedges:
            self._hedge(command, now)
        else:
            self._first_or_repeated(command, now)
        self._racing.setdefault(command.range, []).append((command, now))

    def returned(self, command: Fetch, error: RemoteStorageError | None, began: float, now: float, in_flight: int = 1) -> None:
        """A GET ends, one of ``in_flight``, before the scheduler is told. One that was given up or overtaken says nothing."""
        racing = self._racing[command.range]
        racing.remove((command, began))
        if command.overtaken or now - began >= OVERDUE_SECONDS:
            return
        of_range = self._ranges[command.range]
        if error is None:
            of_range.came += 1
            of_range.error = None
            self._failures.clear()
            self._ill_since = None
            if self._breaker is not None:
                self._breaker.succeeded(now)
            if command.read.stop_at_local and command.read.owns(command.grant):
                with_it = in_flight - sum(not one.overtaken for one, _ in racing)
                self._pace.landed(command.read.partition, command.range.size, now - began, max(with_it, 1))
            return
        if isinstance(error, RemoteStorageThrottledError):
            after = error.retry_after or 0.0
            if after > _LONG_SECONDS:
                self._quiet_until = max(self._quiet_until, now + min(after, _LONGEST_SECONDS))
        elif isinstance(error, _COUNTED):
            self._failed(now)
        if not any(not one.overtaken and now - at < OVERDUE_SECONDS for one, at in racing):
            of_range.error, of_range.not_before = error, now + (getattr(error, "retry_after", None) or 0.0)

    def damaged(self, one: RangeRead) -> None:
        """What has come of a range, perhaps only its beginning, is damaged."""
        self._ranges[one].damages += 1
        self._ranges[one].damaged = True

    def _failed(self, now: float) -> None:
        if self._breaker is not None:
            self._breaker.failed(now)
        self._failures.append(now)
        while self._failures[0] < now - _FAILURE_WINDOW_SECONDS:
            self._failures.popleft()
        if len(self._failures) >= self._config.breaker_failures:
            self._ill_since, self._tries = now, 0
            self._failures.clear()

    def _health(self, name: str, now: float) -> None:
        if now < self._quiet_until:
            raise ViolationError("J11", f"{name}: a GET is sent {self._quiet_until - now:.3f} s before Retry-After is over")
        if self._ill_since is None or now >= self._ill_since + self._config.breaker_reset_ms / 1000:
            return
        self._tries += 1
        if self._tries > 1:
            raise ViolationError("J11", f"{name}: {self._tries} GETs are sent to a store that has failed repeatedly")

    def _first_or_repeated(self, command: Fetch, now: float) -> None:
        of_range, name = self._ranges.setdefault(command.range, _Range()), command.read.name
        damaged, of_range.damaged = of_range.damaged, False
        if of_range.gets == 0:
            self._gets += 1
        elif damaged:
            if of_range.damages > 1:
                raise ViolationError("J12", f"{name}: a range that was damaged {of_range.damages} times is requested again")
        elif of_range.error is None:
            if of_range.came > 1:
                raise ViolationError("J12", f"{name}: a range that came {of_range.came} times is requested again")
        else:
            if (getattr(of_range.error, "retry_after", None) or 0.0) > _LONG_SECONDS:
                raise ViolationError("J12", f"{name}: a range waits for a long Retry-After")
            if isinstance(of_range.error, RemoteStorageTimeoutError):
                raise ViolationError("J12", f"{name}: a range is requested again after a time-out")
            most = _THROTTLED_RETRIES if isinstance(of_range.error, RemoteStorageThrottledError) else self._config.retries
            if of_range.gets > most:
                raise ViolationError("J12", f"{name}: a range is requested again after {of_range.gets} GETs")
            if now < of_range.not_before:
                raise ViolationError("J12", f"{name}: a range is requested {of_range.not_before - now:.3f} s too early")
        of_range.gets += 1

    def _hedge(self, command: Fetch, now: float) -> None:
        self._hedges += 1
        most = _FREE_HEDGES + self._gets * self._config.hedge_max_percent / 100
        if self._hedges > most:
            raise ViolationError("J13", f"{self._hedges} hedges are sent for {self._gets} GETs")
        youngest = max(at for _, at in self._racing[command.range])
        if now - youngest < _LEAST_HEDGE_SECONDS:
            raise ViolationError("J13", f"{command.read.name}: a hedge is sent {now - youngest:.4f} s after its GET")

    def left(self, partition: int) -> None:
        """A read ends because the broker is faster."""
        self._pace.left(partition)

    def refused(self, name: str, opened_at: float) -> None:
        """A read that was opened then ends because the breaker is open."""
        if self._breaker is not None:
            self._breaker.refused(name, opened_at)

    # -- location requests -----------------------------------------------------------------------------------------------

    def asks(self, command: Locate, now: float) -> None:
        """A location is requested."""
        read = command.read
        if now < self._locate_at.get(read, 0.0):
            raise ViolationError("J12", f"{read.name}: a location is requested before the throttle time is over")
        if read in self._timed_out:
            raise ViolationError("J12", f"{read.name}: a location is requested although it was pending for too long")

    def located(self, command: Locate, answer: LocationAnswer, now: float) -> None:
        """The answer to a location request, before the scheduler is told."""
        read = command.read
        if isinstance(answer, LocationPending):
            since = self._pending_since.setdefault(read, now)
            if now - since >= self._config.pending_timeout_ms / 1000:
                del self._pending_since[read]
                if not command.ahead:  # otherwise the read ends where its grants do
                    self._timed_out.add(read)
            return
        self._pending_since.pop(read, None)
        if isinstance(answer, LocationThrottledError) and not command.ahead and answer.retry_after <= _LONGEST_SECONDS:
            self._locate_at[read] = now + answer.retry_after
