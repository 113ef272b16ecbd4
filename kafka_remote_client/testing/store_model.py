"""How an object store behaves under field conditions, as a value, and a sampler that draws each answer from it. Pure (no I/O).

::

    time of an answer = time to the first byte + size / bandwidth
    bandwidth         = the smaller of a connection's own, and its share of the total

The time to the first byte is fixed, or lognormal as measured stores are. A share of the requests is answered late, another one
never. Above a rate of requests the store answers 503. The same model serves a scheduler in virtual time, the origin of an
embedded cluster, and a store that a shim reads.

References: shares and rates of real stores are in docs/benchmarks.md, "Field conditions".
"""

from __future__ import annotations

import math
import random
from collections import deque
from enum import Enum, auto

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError

__all__ = ["AnswerKind", "FixedLatency", "LognormalLatency", "StoreAnswer", "StoreModel", "StoreSampler"]

_P99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""
_LEAST_RATE = 1e-6


def _seconds(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    arguments.duration(value, attribute.name)


def _share(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    arguments.finite(value, attribute.name, 0.0, 1.0)


def _rate(_: object, attribute: attrs.Attribute[float | None], value: float | None) -> None:
    if value is not None:
        arguments.finite(value, attribute.name, _LEAST_RATE, math.inf)


@attrs.frozen
class FixedLatency:
    """The first byte always comes after ``seconds``."""

    seconds: float = attrs.field(validator=_seconds)

    def sample(self, source: random.Random) -> float:
        """Seconds to the first byte of one answer."""
        del source
        return self.seconds


@attrs.frozen
class LognormalLatency:
    """Half of the first bytes arrive within ``p50`` seconds, 99 of 100 within ``p99``.

    Raises ConfigurationError for p99 below p50.
    """

    p50: float = attrs.field(validator=_seconds)
    p99: float = attrs.field(validator=_seconds)

    def __attrs_post_init__(self) -> None:
        if not 0 < self.p50 <= self.p99:
            raise ConfigurationError("p50 must be above 0 and not above p99")

    def sample(self, source: random.Random) -> float:
        """Seconds to the first byte of one answer."""
        return source.lognormvariate(math.log(self.p50), math.log(self.p99 / self.p50) / _P99)


@attrs.frozen
class StoreModel:
    """Bandwidths in bytes per second, ``None`` = no bound. Raises ConfigurationError for shares outside 0 to 1 and
    for bounds of 0.

    ``late_share`` of the requests get their first byte ``late_seconds`` later; ``lost_share`` never get one. Above
    ``requests_per_second``, counted over the last second, the store answers 503.
    """

    latency: FixedLatency | LognormalLatency = FixedLatency(0.0)
    connection_bytes_per_second: float | None = attrs.field(default=None, validator=_rate)
    total_bytes_per_second: float | None = attrs.field(default=None, validator=_rate)
    late_share: float = attrs.field(default=0.0, validator=_share)
    late_seconds: float = attrs.field(default=2.0, validator=_seconds)
    lost_share: float = attrs.field(default=0.0, validator=_share)
    requests_per_second: float | None = attrs.field(default=None, validator=_rate)

    def transfer_seconds(self, size: int, in_flight: int) -> float:
        """Seconds from the first to the last of ``size`` bytes, for one of ``in_flight`` transfers."""
        share = None if self.total_bytes_per_second is None else self.total_bytes_per_second / max(1, in_flight)
        rates = [rate for rate in (self.connection_bytes_per_second, share) if rate is not None]
        return size / min(rates) if rates else 0.0


class AnswerKind(Enum):
    """The result of a request. LATE gives the same bytes as ANSWERED, LOST none, THROTTLED a 503."""

    ANSWERED = auto()
    LATE = auto()
    LOST = auto()
    THROTTLED = auto()


@attrs.frozen
class StoreAnswer:
    """Seconds until the first byte, which is infinite for a lost request, and from there to the last one."""

    kind: AnswerKind
    first_byte_seconds: float
    transfer_seconds: float

    @property
    def seconds(self) -> float:
        """From the request to the last byte."""
        return self.first_byte_seconds + self.transfer_seconds


class StoreSampler:
    """Draws the answers of ``model``. The same seed and the same calls give the same answers. Not thread-safe."""

    def __init__(self, model: StoreModel, seed: int) -> None:
        self.model = model
        self._source = random.Random(seed)  # noqa: S311 - times, no secrets
        self._served: deque[float] = deque()

    def answer(self, size: int, in_flight: int, now: float) -> StoreAnswer:
        """What becomes of a request for ``size`` bytes at ``now`` (seconds), which is one of ``in_flight``."""
        model = self.model
        first = model.latency.sample(self._source)
        drawn = self._source.random()
        if model.requests_per_second is not None and self._exceeds(model.requests_per_second, now):
            return StoreAnswer(AnswerKind.THROTTLED, first, 0.0)
        if drawn < model.lost_share:
            return StoreAnswer(AnswerKind.LOST, math.inf, 0.0)
        transfer = model.transfer_seconds(size, in_flight)
        if drawn < model.lost_share + model.late_share:
            return StoreAnswer(AnswerKind.LATE, first + model.late_seconds, transfer)
        return StoreAnswer(AnswerKind.ANSWERED, first, transfer)

    def _exceeds(self, limit: float, now: float) -> bool:
        """Counts the request, unless the last second already has the permitted number."""
        while self._served and self._served[0] <= now - 1:
            self._served.popleft()
        if len(self._served) >= limit:
            return True
        self._served.append(now)
        return False
