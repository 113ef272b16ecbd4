"""What a simulated run contains: the partitions, the limits, how often each fault happens. A value, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs

from kafka_remote_client.config import RemoteFetchConfig

__all__ = [
    "BROKER_FAULTS",
    "CONSUMER_FAULTS",
    "FAULTS",
    "LOCATION_SECONDS",
    "MOST_PARTITIONS",
    "OVERDUE_SECONDS",
    "READ_SECONDS",
    "Scenario",
    "scenario_of",
]

READ_SECONDS = 1.0
LOCATION_SECONDS = 2.0
_CONNECT_SECONDS = 0.5
_GRACE_SECONDS = 0.5
OVERDUE_SECONDS = READ_SECONDS + _CONNECT_SECONDS + _GRACE_SECONDS
"""After which the scheduler gives up a GET whose fetcher does not return."""

MOST_PARTITIONS = 4
_SHARE_WITH_BROKER_FAULTS = 0.5
_SHARE_SETTLED = 0.75
_SHARE_COOPERATIVE = 0.6

FAULTS = (
    "slow",
    "stalled",
    "hung",
    "cut",
    "unavailable",
    "throttled",
    "forbidden",
    "damaged",
    "locations_pending",
    "locations_fail",
    "locations_throttled",
    "locations_bad",
    "urls_expire",
    "segments_deleted",
    "seeks",
)
"""The fields of a scenario that are shares between 0 and 1: how often something happens where it can."""
CONSUMER_FAULTS = ("coordinator_fails", "calls", "crashes")
"""The same for scenarios with consumers."""
BROKER_FAULTS = ("elections", "unclean_elections", "leader_crashes", "recreations", "denials", "lookups_slow", "follower_fails")
"""The same for what happens to the brokers and the shim."""


@attrs.frozen
class Scenario:
    """``seed`` determines everything else that is random. Sizes in bytes, times in seconds.

    ``grant_bytes``, ``range_bytes``: the largest window and the largest range that the peer grants. ``takes_seconds``: mean
    time for which the application uses a block, ``decode_seconds`` that of decoding a range. ``sufficient_pace``: of the store,
    in bytes per second, with which no partition moves to the broker. ``consumers``: with 0 there are
    only reads. ``grouped``: the consumers are members of a group, which is ``cooperative`` or eager. ``calls``: how often an
    application calls something else than poll. ``settled``: nothing is appended to the logs, and locations need no shim. Such
    worlds have no consumers, and no faults of brokers.
    """

    seed: int
    steps: int = 600
    partitions: int = 2
    in_flight: int = 4
    memory: int = 1 << 20
    grant_bytes: int = 64 << 10
    range_bytes: int = 8 << 10
    retries: int = 2
    hedge_percent: int = 5
    breaker_failures: int = 5
    latency: float = 0.02
    takes_seconds: float = 0.005
    decode_seconds: float = 0.0005
    url_seconds: float = 600.0
    sufficient_pace: int = 1 << 20
    slow: float = 0.0
    stalled: float = 0.0
    hung: float = 0.0
    cut: float = 0.0
    unavailable: float = 0.0
    throttled: float = 0.0
    forbidden: float = 0.0
    damaged: float = 0.0
    locations_pending: float = 0.0
    locations_fail: float = 0.0
    locations_throttled: float = 0.0
    locations_bad: float = 0.0
    urls_expire: float = 0.0
    segments_deleted: float = 0.0
    seeks: float = 0.0
    settled: bool = False
    consumers: int = 0
    grouped: bool = False
    cooperative: bool = False
    coordinator_fails: float = 0.0
    calls: float = 0.0
    crashes: float = 0.0
    elections: float = 0.0
    unclean_elections: float = 0.0
    leader_crashes: float = 0.0
    recreations: float = 0.0
    denials: float = 0.0
    lookups_slow: float = 0.0
    follower_fails: float = 0.0

    @property
    def replaces_logs(self) -> bool:
        """Whether a leader may have another log than the one before."""
        return bool(self.unclean_elections or self.recreations)

    @property
    def config(self) -> RemoteFetchConfig:
        """The consumer's settings."""
        return RemoteFetchConfig(
            enabled=True,
            read_timeout_ms=round(READ_SECONDS * 1000),
            connect_timeout_ms=round(_CONNECT_SECONDS * 1000),
            location_timeout_ms=round(LOCATION_SECONDS * 1000),
            pending_timeout_ms=1_000,
            buffer_memory=self.memory,
            max_in_flight=self.in_flight,
            retries=self.retries,
            hedge_max_percent=self.hedge_percent,
            breaker_failures=self.breaker_failures,
            breaker_reset_ms=2_000,
            slow_bytes_per_second=self.sufficient_pace,
        )

    def smaller(self) -> Iterator[Scenario]:
        """Yields simpler scenarios: without one fault, with fewer partitions or requests at once."""
        for name in (*FAULTS, *CONSUMER_FAULTS, *BROKER_FAULTS):
            if getattr(self, name):
                yield attrs.evolve(self, **{name: 0.0})
        for name, least in (("partitions", 1), ("in_flight", 1), ("hedge_percent", 0), ("consumers", 1)):
            if getattr(self, name) > least:
                yield attrs.evolve(self, **{name: least})

    def __str__(self) -> str:
        """The fields that differ from a scenario without faults."""
        plain = Scenario(self.seed)
        return ", ".join(
            f"{one.name}={getattr(self, one.name)}"
            for one in attrs.fields(Scenario)
            if one.name == "seed" or getattr(self, one.name) != getattr(plain, one.name)
        )


def scenario_of(seed: int) -> Scenario:
    """Draws a scenario: a few faults at a time, because many at once end each read before it becomes interesting."""
    chance = random.Random(seed)
    if chance.random() < _SHARE_SETTLED:
        return _settled(seed, chance)
    faults = {name: chance.choice((0.01, 0.03, 0.15)) for name in chance.sample(FAULTS, chance.randint(0, 4))}
    drawn = Scenario(
        seed,
        partitions=chance.choice((1, 1, 2, 3, 4)),
        in_flight=chance.choice((1, 2, 4, 8)),
        memory=chance.choice((4 << 10, 16 << 10, 64 << 10, 1 << 20)),
        grant_bytes=chance.choice((4 << 10, 16 << 10, 64 << 10)),
        range_bytes=chance.choice((700, 2 << 10, 8 << 10)),
        retries=chance.choice((0, 2)),
        hedge_percent=chance.choice((0, 5, 50)),
        breaker_failures=chance.choice((2, 5, 50)),
        latency=chance.choice((0.001, 0.02, 0.1)),
        takes_seconds=chance.choice((0.0001, 0.005, 0.1)),
        url_seconds=chance.choice((2.0, 600.0)),
        consumers=chance.choice((0, 0, 0, 1, 2, 3)),
        grouped=chance.random() < 0.5,
        coordinator_fails=chance.choice((0.0, 0.1)),
        calls=chance.choice((0.03, 0.3)),
        crashes=chance.choice((0.0, 0.003, 0.02)),
        **faults,
    )
    if chance.random() < _SHARE_WITH_BROKER_FAULTS:
        of_brokers = {name: chance.choice((0.05, 0.2)) for name in chance.sample(BROKER_FAULTS, chance.randint(1, 4))}
        drawn = attrs.evolve(drawn, **of_brokers)
    return _with_rebalances(drawn, chance) if drawn.consumers and drawn.grouped else drawn


def _with_rebalances(drawn: Scenario, chance: random.Random) -> Scenario:
    """Returns a scenario of a group whose members have something to share, and come and go."""
    return attrs.evolve(
        drawn,
        partitions=chance.choice((2, 3, 4)),
        consumers=chance.choice((2, 2, 3)),
        crashes=chance.choice((0.003, 0.05, 0.1)),
        takes_seconds=chance.choice((0.005, 0.1)),
        cooperative=chance.random() < _SHARE_COOPERATIVE,
    )


def _settled(seed: int, chance: random.Random) -> Scenario:
    """Draws a scenario of reads only, with more faults: a read that ends begins again soon, and few events are of others."""
    faults = {name: chance.choice((0.03, 0.1, 0.3)) for name in chance.sample(FAULTS, chance.randint(1, 4))}
    return Scenario(
        seed,
        settled=True,
        partitions=chance.choice((1, 2, 4)),
        in_flight=chance.choice((1, 2, 4, 8)),
        memory=chance.choice((4 << 10, 16 << 10, 64 << 10, 1 << 20)),
        grant_bytes=chance.choice((4 << 10, 16 << 10, 64 << 10)),
        range_bytes=chance.choice((700, 2 << 10, 8 << 10)),
        retries=chance.choice((0, 2, 4)),
        hedge_percent=chance.choice((0, 5, 50)),
        breaker_failures=chance.choice((2, 5, 50)),
        latency=chance.choice((0.001, 0.02, 0.1, 0.3)),
        sufficient_pace=chance.choice((10_000, 1 << 20)),
        takes_seconds=chance.choice((0.0001, 0.005, 0.1)),
        url_seconds=chance.choice((2.0, 600.0)),
        decode_seconds=chance.choice((0.0005, 0.0005, 0.05)),
        **faults,
    )
