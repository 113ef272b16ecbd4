"""Number and size of ranges in flight: the adaptive choice compared with every fixed setting, in virtual time.

Prints a line of JSON per cell: the product's throughput, the best fixed setting, and the ratio of the two. Nothing depends on
the machine, so two runs print the same. The exit status is 1 if a ratio is below 0.9.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.testing import StoreModel
from tests.support.virtual_reading import Figures, VirtualReading, distant

__all__ = ["LEAST_RATIO", "best_fixed", "measured"]

LEAST_RATIO = 0.9
_MEGABYTES = 2_000
_MIB = 1 << 20
_ROUND_TRIPS_MS = (0, 20, 50, 200)
_CONNECTION_BANDWIDTHS = (None, 40_000_000)
_PARTITIONS = (1, 100)
_APPLICATIONS = (1_000_000_000, 300_000_000)
_SIZES = tuple(_MIB * size for size in (0.5, 1, 2, 4, 8))
_NUMBERS = (4, 8, 16, 32, 64)


def measured(store: StoreModel, partitions: int, application: float, megabytes: int = _MEGABYTES) -> Figures:
    """The throughput of the product with default settings."""
    reading = VirtualReading(
        RemoteFetchConfig(enabled=True), store, partitions=partitions, application_bytes_per_second=application
    )
    return reading.run(megabytes)


def best_fixed(
    store: StoreModel,
    partitions: int,
    application: float,
    megabytes: int = _MEGABYTES,
    settings: tuple[tuple[int, int], ...] = tuple((int(size), number) for size in _SIZES for number in _NUMBERS),
) -> tuple[Figures, tuple[int, int]]:
    """The fastest of ``settings`` (bytes of a range, ranges in flight), and its figures."""
    found = []
    for size, number in settings:
        config = RemoteFetchConfig(enabled=True, max_in_flight=number)
        reading = VirtualReading(
            config, store, partitions=partitions, application_bytes_per_second=application, range_bytes=size
        )
        found.append((reading.run(megabytes), (size, number)))
    return max(found, key=lambda one: one[0].bytes_per_second)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=_MEGABYTES, help="MiB that each run delivers")
    parser.add_argument("--latency-ms", type=int, nargs="+", default=list(_ROUND_TRIPS_MS), help="of each GET")
    arguments = parser.parse_args()
    megabytes = arguments.megabytes
    short = 0
    for trip, bandwidth, partitions, application in itertools.product(
        arguments.latency_ms, _CONNECTION_BANDWIDTHS, _PARTITIONS, _APPLICATIONS
    ):
        store = distant(trip / 1000, bandwidth)
        ours = measured(store, partitions, application, megabytes)
        best, (size, number) = best_fixed(store, partitions, application, megabytes)
        ratio = ours.bytes_per_second / best.bytes_per_second
        short += ratio < LEAST_RATIO
        cell = {
            "round_trip_ms": trip,
            "connection_megabytes_per_second": bandwidth and bandwidth / 1e6,
            "partitions": partitions,
            "application_megabytes_per_second": application / 1e6,
            "megabytes_per_second": round(ours.bytes_per_second / 1e6),
            "most_in_flight": ours.most_in_flight,
            "best_fixed": {
                "megabytes_per_second": round(best.bytes_per_second / 1e6),
                "range_mib": size / _MIB,
                "in_flight": number,
            },
            "ratio": round(ratio, 3),
        }
        print(json.dumps(cell), flush=True)
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())
