"""The time of ``import kafka_remote_client``, and of ``Consumer`` from it beyond ``import confluent_kafka``.

Each measurement is a fresh interpreter, from its start to its exit. The sides take turns, so that other load on the machine
meets all of them. Medians count, of the clock and of the interpreter's CPU time. An import computes and does not wait, so on an
idle machine both are about the same. On a busy one only the CPU time means something: it decides.

================  ============================================================================================================
side              the program
================  ============================================================================================================
``nothing``       ``pass``
``package``       ``import kafka_remote_client``
``upstream``      ``import confluent_kafka``
``consumer``      ``from kafka_remote_client import Consumer``
``constructed``   the same, and a consumer with direct fetch on and the fetcher ``presigned``
================  ============================================================================================================

Prints JSON: for ``clock`` and ``cpu`` the milliseconds of each side, ``package_ms``, and ``difference_ms`` and ``ratio`` of
``consumer`` to ``upstream``, all without the interpreter's own time. The exit status is 1 if a target is missed, with a line on
standard error for each. The figures of record are in docs/benchmarks.md, "Imports".
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.benchmarks.running import machine

__all__ = ["PACKAGE_TARGET_MS", "PROGRAMS", "TARGET_MS", "figures", "missed"]

PACKAGE_TARGET_MS = 15.0
TARGET_MS = 40.0
_LEAST_ROUNDS = 11

_CONSUMER = "from kafka_remote_client import Consumer"
_SETTINGS = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    "log_level": 0,
    "fetch.remote.enabled": True,
    "remote.storage.fetcher.class": "presigned",
    "remote.storage.fetcher.allowed.hosts": "127.0.0.1:1",
}
PROGRAMS = {
    "nothing": "pass",
    "package": "import kafka_remote_client",
    "upstream": "import confluent_kafka",
    "consumer": _CONSUMER,
    # The consumer is neither freed nor closed: that would count the end of librdkafka's threads.
    "constructed": f"import os; {_CONSUMER}; consumer = Consumer({_SETTINGS}); os._exit(0)",
}

_COMPILES = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of the programs, which may keep compiled files: compiling takes longer than an import."""


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _milliseconds(program: str) -> dict[str, float]:
    """The clock and the CPU time of one interpreter."""
    clock, cpu = time.perf_counter(), _cpu_seconds()
    subprocess.run([sys.executable, "-c", program], env=_COMPILES, check=True)
    return {"clock": (time.perf_counter() - clock) * 1000, "cpu": (_cpu_seconds() - cpu) * 1000}


def figures(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The figures for the times of all sides, in milliseconds."""
    medians = {side: statistics.median(taken) for side, taken in times.items()}
    upstream = medians["upstream"] - medians["nothing"]
    ours = medians["consumer"] - medians["nothing"]
    return {
        "median_ms": {side: round(median, 1) for side, median in medians.items()},
        "least_ms": {side: round(min(taken), 1) for side, taken in times.items()},
        "package_ms": round(medians["package"] - medians["nothing"], 1),
        "difference_ms": round(ours - upstream, 1),
        "ratio": round(ours / upstream, 2),
    }


def missed(cpu: Mapping[str, Any]) -> list[str]:
    """A line for each missed target. ``cpu``: the figures of CPU time."""
    targets = {"package_ms": PACKAGE_TARGET_MS, "difference_ms": TARGET_MS}
    return [
        f"{name} is {cpu[name]:.1f} ms of CPU time, target {target:g} ms"
        for name, target in targets.items()
        if cpu[name] > target
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=_LEAST_ROUNDS, help=f"interpreters of each side (at least {_LEAST_ROUNDS})"
    )
    rounds = max(_LEAST_ROUNDS, parser.parse_args().rounds)
    times: dict[str, dict[str, list[float]]] = {kind: {side: [] for side in PROGRAMS} for kind in ("clock", "cpu")}
    for program in PROGRAMS.values():  # now all files are compiled and in the page cache
        _milliseconds(program)
    for number in range(rounds):
        sides = list(PROGRAMS)
        for side in sides if number % 2 else reversed(sides):
            for kind, taken in _milliseconds(PROGRAMS[side]).items():
                times[kind][side].append(taken)
    report = {kind: figures(sides) for kind, sides in times.items()}
    targets = {"package_target_ms": PACKAGE_TARGET_MS, "target_ms": TARGET_MS}
    print(json.dumps({"rounds": rounds, **report, **targets, **machine("confluent-kafka", "attrs")}, indent=1))
    lines = missed(report["cpu"])
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
