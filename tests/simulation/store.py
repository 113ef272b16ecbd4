"""What the store of a simulated world does with one GET: an answer with its times, or one of the faults of the scenario."""

from __future__ import annotations

import random
from typing import Protocol

import attrs

from kafka_remote_client.errors import (
    LocationExpiredError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.grant_read import GrantRead
from kafka_remote_client.fetch.partition_read import Fetch
from tests.simulation.occurrences import Occurrences
from tests.simulation.scenario import OVERDUE_SECONDS, READ_SECONDS, Scenario

__all__ = ["OpenedTier", "Outcome", "Store"]

_BASE_OFFSET_BYTES, _HEAD_BYTES, _BATCH_HEADER_BYTES = 8, 12, 61
"""Of a batch: its base offset, that and its length, its header."""
_BYTES_PER_SECOND = 1_000_000
_HUNG_SECONDS = OVERDUE_SECONDS + 0.5
"""The scheduler gives the GET up before."""


@attrs.frozen
class Outcome:
    """``first``, ``last``: seconds until the first and the last byte. ``received``: bytes. ``data``: what arrives."""

    first: float
    last: float
    received: int
    data: bytes
    error: RemoteStorageError | None = None


class OpenedTier(Protocol):
    """Where the objects are."""

    def opened(self, command: Fetch, now: float) -> bytes | RemoteStorageError:
        """Returns the bytes of a granted range, or why its URL opens nothing."""


class Store:
    """See the module."""

    def __init__(self, scenario: Scenario, tier: OpenedTier, chance: random.Random, seen: Occurrences) -> None:
        self._scenario = scenario
        self._tier = tier
        self._chance = chance
        self._seen = seen
        self.damaged: set[GrantRead] = set()
        """Grants with a range that came with other bytes than the object's."""

    def answer(self, command: Fetch, now: float) -> Outcome:
        """Decides the outcome of a GET at its start."""
        scenario = self._scenario
        first = self._chance.expovariate(1 / scenario.latency) / 2 + scenario.latency / 2
        data = self._tier.opened(command, now)
        if isinstance(data, RemoteStorageError):
            expired = isinstance(data, LocationExpiredError)
            self._seen.saw("url-expired" if expired else "segment-gone")
            if expired and command.hedges:
                self._seen.saw("url-expired-for-hedge")
            return Outcome(first, first, 0, b"", data)
        if self._happens(scenario.slow):
            first *= 30
        last = first + len(data) / _BYTES_PER_SECOND * self._chance.uniform(1, 3)
        if self._happens(scenario.hung):
            late = _HUNG_SECONDS * self._chance.uniform(1, 2)
            return Outcome(min(first, late) if self._chance.random() < 0.5 else late, late, len(data), data)
        if self._happens(scenario.stalled):
            first = min(first, READ_SECONDS) if self._chance.random() < 0.5 else READ_SECONDS
            return Outcome(first, READ_SECONDS, 0, b"", RemoteStorageTimeoutError("no bytes"))
        if last > READ_SECONDS:
            return Outcome(READ_SECONDS, READ_SECONDS, 0, b"", RemoteStorageTimeoutError("no bytes"))
        if self._happens(scenario.unavailable):
            return Outcome(first, first, 0, b"", RemoteStorageUnavailableError("500"))
        if self._happens(scenario.throttled):
            after = self._chance.choice((None, 0.2, 5.0))
            return Outcome(first, first, 0, b"", RemoteStorageThrottledError("503", after))
        if self._happens(scenario.forbidden):
            return Outcome(first, first, 0, b"", RemoteStorageAccessError("403"))
        if self._happens(scenario.cut):
            part = self._chance.randrange(len(data))
            return Outcome(first, last, part, data[:part], RemoteStorageUnavailableError("connection reset"))
        if self._happens(scenario.damaged):
            data = self._damaged(data)
            self.damaged.add(command.grant)
        return Outcome(first, last, len(data), data)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    def _damaged(self, data: bytes) -> bytes:
        changed = bytearray(data)
        at = self._chance.randrange(len(changed))
        if at < _BASE_OFFSET_BYTES and not _has_second_batch(data):
            at = min(at + _BASE_OFFSET_BYTES, len(data) - 1)
        changed[at] ^= 1 << self._chance.randrange(8)
        return bytes(changed)


def _has_second_batch(data: bytes) -> bool:
    """Whether a batch follows the first one, and so contradicts a wrong base offset, which the checksum does not cover."""
    return len(data) >= _HEAD_BYTES + int.from_bytes(data[_BASE_OFFSET_BYTES:_HEAD_BYTES], "big") + _BATCH_HEADER_BYTES
