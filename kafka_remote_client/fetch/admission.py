"""Whether the store may be asked for what a reader wants, and what its answers say of it. Pure (no I/O).

=====================================  ==============================================================  ======================
wanted                                 is refused while                                                as
=====================================  ==============================================================  ======================
a location                             the breaker of the host that was asked last is open             ``breaker-open``
a range                                the breaker of its host is open; a store opens it by asking     ``breaker-open``
                                       to be left alone for longer than 2 s (Retry-After)
a range, where the owner goes on by    the broker is the faster one (fetch/preference.py)              ``slower-than-broker``
the broker
=====================================  ==============================================================  ======================
"""

from __future__ import annotations

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import Action, DirectFetchError, RemoteStorageError, RemoteStorageTimeoutError
from kafka_remote_client.fetch import policy
from kafka_remote_client.fetch.breaker import StoresHealth
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER, BrokerPreference
from kafka_remote_client.fetch.range_io import store_host
from kafka_remote_client.fetch.reader_values import LocateTask, RangeTask
from kafka_remote_client.fetch.room import Room

__all__ = ["Admission"]

_BREAKER_OPEN = "breaker-open"


class Admission:
    """What is known of the stores of one engine. Not thread-safe: the engine's lock guards it. Times are monotonic seconds."""

    def __init__(self, config: RemoteFetchConfig, room: Room) -> None:
        self.preference = BrokerPreference(config.slow_bytes_per_second, config.recheck_interval_ms / 1000)
        self._retries = config.retries
        self._room = room
        self._stores = StoresHealth(config.breaker_failures, config.breaker_reset_ms / 1000)
        self._last_host: str | None = None
        self._failures: dict[str, str] = {}

    def refusal(self, task: LocateTask | RangeTask, now: float) -> str | None:
        """Why the task is not to be done, so that the broker takes over; ``None`` when it is, and then it has to be."""
        if isinstance(task, LocateTask):
            shut = self._last_host is not None and self._stores.of(self._last_host).is_open(now)
            return _BREAKER_OPEN if shut else None
        reader, host = task.reader, store_host(task.read.granted)
        self._last_host = host
        if reader.stop_at_local and self.preference.leaves((reader.topic, reader.partition), now):
            return SLOWER_THAN_BROKER
        return None if self._stores.of(host).allows(now) else _BREAKER_OPEN

    @property
    def last_failure(self) -> RemoteStorageError | None:
        """The last failure of the host that was asked last, for whoever has to say why its breaker is open."""
        if self._last_host is None or self._last_host not in self._failures:
            return None
        text = self._failures[self._last_host]
        failure = RemoteStorageError(f"{self._last_host} is left alone after failures; the last one: {text}")
        failure.host = self._last_host
        return failure

    def landed(self, task: RangeTask, seconds: float, error: RemoteStorageError | None, *, in_flight: int, now: float) -> None:
        """A range came or failed after ``seconds``, one of ``in_flight`` (itself included)."""
        read, reader = task.read, task.reader
        health = self._stores.of(store_host(read.granted))
        if error is None:
            health.succeeded()
            self._room.sizer.succeeded(read.size, seconds)
            self._room.read_ahead.landed(seconds)
            if reader.stop_at_local and reader.owns(task.grant):
                key, segment = (reader.topic, reader.partition), task.grant.location.metadata
                self.preference.landed(key, segment, read.size, seconds, in_flight=in_flight, now=now)
            return
        self._failures[store_host(read.granted)] = str(error)
        if policy.is_store_failure(error):
            health.failed(now)
        pause = policy.store_pause(error)
        if pause:
            health.left_alone(now + pause)
        if isinstance(error, RemoteStorageTimeoutError):
            self._room.sizer.timed_out()

    def decide(self, read: RangeRead, error: DirectFetchError, *, relocated: bool) -> Action:
        """What follows a failed range (fetch/policy.py)."""
        return policy.decide(
            error,
            attempts=read.attempts,
            corrupt=read.corrupt,
            retries=self._retries,
            relocated=relocated,
            health=self._stores.of(store_host(read.granted)),
        )
