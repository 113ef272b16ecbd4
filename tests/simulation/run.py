"""Simulates scenario after scenario for some seconds. Prints a failure as its smallest scenario, step by step.

::

    make simulate SECONDS=600 SEED=7            # scenarios 7, 8, 9, … until the time is over
    python -m tests.simulation.run --scenario 7 # one scenario, with its story if it fails

Exit status 1 if a scenario fails. The line for the ledger has the version of Python, the number of events, and how often
each of the events of ``occurrences.py`` was seen.
"""

from __future__ import annotations

import argparse
import gc
import platform
import secrets
import sys
import time
from collections.abc import Sequence

from tests.simulation.occurrences import SOMETIMES, Occurrences
from tests.simulation.scenario import scenario_of
from tests.simulation.shrink import failure_of, shrunk, story_of
from tests.simulation.world import World, garbage_kept
from tests.support.ledger import ledger

__all__ = ["SIMULATED_CODE", "main"]

SIMULATED_CODE = (
    *(f"kafka_remote_client/{package}" for package in ("consumer", "fetch", "location", "records", "remote_log")),
    *(f"kafka_remote_client/shim/{module}.py" for module in ("decisions", "grants", "joined_probes", "lookups", "signing")),
    "kafka_remote_client/breaker.py",
)
"""The product code that a run is about."""
_SEEDS = 1 << 32
_MOST_FAILURES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds")
    parser.add_argument("--seed", type=int, help="the first scenario; a new one by default")
    parser.add_argument("--scenario", type=int, help="runs only this one")
    asked = parser.parse_args(arguments)
    if asked.scenario is not None:
        return int(_told(asked.scenario))
    seed = secrets.randbelow(_SEEDS) if asked.seed is None else asked.seed
    print(f"SEED={seed}", flush=True)
    started, seen = time.process_time(), Occurrences()
    events = scenarios = failed = 0
    with garbage_kept():
        while (spent := time.process_time() - started) < asked.seconds and failed < _MOST_FAILURES:
            world = World(scenario_of(seed + scenarios), seen)
            try:
                world.run()
            except Exception:
                failed += _told(seed + scenarios)
            events += world.events
            scenarios += 1
            del world
            gc.collect(0)
    for name, meaning in SOMETIMES.items():
        print(f"{seen[name]:10d}  {name}: {meaning}")
    counts = {"scenarios": scenarios, "events": events, "failed": failed, "events_per_second": round(events / max(spent, 1e-9))}
    python = f"{platform.python_implementation()} {platform.python_version()}"
    often = dict(sorted(seen.items()))
    ledger("simulate", describes=SIMULATED_CODE, seed=seed, seconds=round(spent), python=python, **counts, sometimes=often)
    return int(failed > 0)


def _told(number: int) -> bool:
    """Prints the failure of a scenario, if it fails."""
    failure = failure_of(scenario_of(number))
    if failure is not None:
        print(story_of(shrunk(failure)), flush=True)
    return failure is not None


if __name__ == "__main__":
    sys.exit(main())
