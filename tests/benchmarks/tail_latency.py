"""Throughput where some GETs are late or never answered, where the store is slow as a whole, and where it answers 503.

In virtual time, with default settings: nothing depends on the machine. Prints a line of JSON per case. The exit status is 1
where one misses its target. A few hedges may come before their share was saved up: 5 are no miss.

================  ==========================================================  ==================================================
case              the store                                                   target, against the undisturbed store
================  ==========================================================  ==================================================
``late-2``        2 % of GETs 2 s late, 0.1 % never answered                  0.9 of throughput, 3 % more GETs, no read ends
``late-5``        5 % of GETs 2 s late, 0.1 % never answered, cap of 8 %      0.9 of throughput, 8 % more GETs, no read ends
``…-lognormal``   the same, with a first byte of 20 ms (p50) to 80 ms (p99)   the same
``…-fast``        the same as the first two, application at 1 GB/s            the same
``slow``          10 times slower for 30 s                                    3 % more GETs
``throttled``     503 above half of the requests that the client would send   0.8 of what the store takes, no read ends
================  ==========================================================  ==================================================

Applications use 300 MB/s where nothing else is said.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.testing import FixedLatency, LognormalLatency, StoreModel
from tests.support.virtual_reading import VirtualReading, distant

__all__ = ["CASES", "late", "slow", "throttled"]

_MEGABYTES = 4_000
_SEED = 11
_APPLICATION = 300_000_000
_FAST_APPLICATION = 1_000_000_000
Case = tuple[dict[str, Any], list[str]]
"""Figures, and the targets that were missed."""


def late(
    latency: FixedLatency | LognormalLatency,
    share: float,
    cap: int,
    partitions: int,
    application: float = _APPLICATION,
    megabytes: int = _MEGABYTES,
) -> Case:
    """A ``share`` of the GETs is 2 s late and one in a thousand is never answered; ``cap`` is the percentage of hedges."""
    config = RemoteFetchConfig(enabled=True, hedge_max_percent=cap)
    undisturbed = StoreModel(latency, 200_000_000, 2_500_000_000)
    disturbed = StoreModel(latency, 200_000_000, 2_500_000_000, late_share=share, lost_share=0.001)
    usual, ours, without = (
        VirtualReading(settings, store, seed=_SEED, partitions=partitions, application_bytes_per_second=application).run(
            megabytes
        )
        for settings, store in (
            (config, undisturbed),
            (config, disturbed),
            (RemoteFetchConfig(enabled=True, hedge_max_percent=0), disturbed),
        )
    )
    ratio = ours.bytes_per_second / usual.bytes_per_second
    figures = {
        "ratio": round(ratio, 3),
        "ratio_without_hedges": round(without.bytes_per_second / usual.bytes_per_second, 3),
        "hedges_percent": round(100 * ours.hedges / (ours.gets - ours.hedges), 2),
        "undisturbed_hedges_percent": round(100 * usual.hedges / usual.gets, 2),
        "ended": list(ours.ended),
        "ended_without_hedges": len(without.ended),
    }
    missed = ["throughput"] if ratio < 0.9 else []
    missed += ["hedges"] if 100 * ours.hedges > cap * (ours.gets - ours.hedges) + 500 else []
    missed += ["ended"] if ours.ended else []
    return figures, missed


def slow(partitions: int, megabytes: int = _MEGABYTES) -> Case:
    """The store is 10 times slower from 2 s on, for 30 s."""
    reading = VirtualReading(RemoteFetchConfig(enabled=True), distant(0.02, 20_000_000), partitions=partitions)
    reading.at(2.0, lambda: reading.change(distant(0.2, 2_000_000)))
    reading.at(32.0, lambda: reading.change(distant(0.02, 20_000_000)))
    found = reading.run(megabytes)
    figures = {
        "seconds": round(reading.now, 1),
        "gets": found.gets,
        "hedges_percent": round(100 * found.hedges / (found.gets - found.hedges), 2),
        "ended": list(found.ended),
    }
    return figures, ["hedges"] if 100 * found.hedges > 3 * (found.gets - found.hedges) + 500 else []


def throttled(partitions: int, megabytes: int = _MEGABYTES) -> Case:
    """The store answers 503 above half of the requests that the client would send."""
    config = RemoteFetchConfig(enabled=True)
    free = VirtualReading(config, distant(0.02), partitions=partitions).run(megabytes)
    usual = free.gets * free.bytes_per_second / (megabytes << 20)
    reading = VirtualReading(config, distant(0.02, requests_per_second=usual / 2), partitions=partitions)
    found = reading.run(megabytes)
    ratio = found.bytes_per_second / free.bytes_per_second
    figures = {
        "allowed_per_second": round(usual / 2, 1),
        "ratio": round(ratio, 3),
        "gets_over_usual": round(found.gets / free.gets, 3),
        "ended": sorted(set(found.ended)),
        "ends": len(found.ended),
    }
    return figures, [*(["throughput"] if ratio < 0.4 else []), *(["ended"] if found.ended else [])]


_NARROW, _WIDE = FixedLatency(0.02), LognormalLatency(0.02, 0.08)
CASES: dict[str, Callable[[int], Case]] = {
    "late-2": lambda partitions: late(_NARROW, 0.02, 3, partitions),
    "late-2-lognormal": lambda partitions: late(_WIDE, 0.02, 3, partitions),
    "late-5": lambda partitions: late(_NARROW, 0.05, 8, partitions),
    "late-5-lognormal": lambda partitions: late(_WIDE, 0.05, 8, partitions),
    "late-2-fast": lambda partitions: late(_NARROW, 0.02, 3, partitions, _FAST_APPLICATION),
    "late-5-fast": lambda partitions: late(_NARROW, 0.05, 8, partitions, _FAST_APPLICATION),
    "slow": slow,
    "throttled": throttled,
}


def main() -> int:
    """Prints the table."""
    failed = 0
    for name, case in CASES.items():
        for partitions in (1, 24):
            figures, missed = case(partitions)
            failed += bool(missed)
            print(json.dumps({"case": name, "partitions": partitions, **figures, "missed": missed}), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
