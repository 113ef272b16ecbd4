"""Plants bugs in the simulated code and measures how long the simulation needs to find each.

::

    python -m tests.simulation.bugs --seconds 60 --seed 7

The bugs are those of ``own_bugs.toml``, and those of ``tests/mutants/bugs`` for modules that the simulation runs, whose authors
did not know the simulation. Some change only speed or a metric, which no rule of the simulation judges; for the own ones
``unjudged`` says why. The ledger's line names what was not found.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.mutants.mutant import Mutant, plant, read_mutants
from tests.simulation.own_bugs import own_bugs
from tests.simulation.run import SIMULATED_CODE
from tests.simulation.scenario import scenario_of
from tests.simulation.shrink import failure_of
from tests.support.ledger import ROOT, ledger

__all__ = ["SIMULATED", "Found", "main", "searched", "simulated_bugs"]

SIMULATED = (
    "kafka_remote_client.breaker",
    *(
        f"kafka_remote_client.fetch.{name}"
        for name in (
            *("admission", "commands", "fetch_budget", "flights", "grant_read", "hedging", "locate", "memory"),
            *("grant_checks", "partition_read", "partition_state", "policy", "preference", "range_sizes", "ready_queue"),
            *("request_rate", "scheduler"),
        )
    ),
    "kafka_remote_client.location.leader_check",
    "kafka_remote_client.records.completed_fetch",
    *(f"kafka_remote_client.shim.{name}" for name in ("decisions", "grants", "signing")),
    *(
        f"kafka_remote_client.consumer.{name}"
        for name in (
            *("assignment", "committed_offsets", "deliveries", "delivery_queue", "gathered", "partition_flow"),
            *("passed_markers", "route_state", "routing", "subscription_state"),
        )
    ),
)
"""The modules that a world runs."""
_BUGS = Path(__file__).resolve().parents[1] / "mutants" / "bugs"


@attrs.frozen
class Found:
    """``scenario``: the seed of the failing scenario. ``seconds``: CPU time until then. ``rule``: which rule it breaks."""

    scenario: int
    seconds: float
    rule: str


def simulated_bugs() -> tuple[Mutant, ...]:
    """Returns the own bugs, and the others in simulated modules that are not known to be equivalent."""
    others = (bug for bug in read_mutants(_BUGS) if bug.module in SIMULATED and not bug.equivalent)
    return (*own_bugs(), *others)


def searched(name: str, seed: int, seconds: float) -> Found | None:
    """Plants the bug of that name in a process of its own, and simulates there until a scenario fails or the CPU time is over.

    Raises RuntimeError if the process fails.
    """
    command = [sys.executable, "-m", "tests.simulation.bugs", "--only", name, "--seed", str(seed), "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the search for {name!r} ended with status {done.returncode}: {done.stderr[-500:]}")
    found = json.loads(done.stdout)
    return None if found is None else Found(**found)


_AGAIN_SECONDS = 0.5
"""Until the end comes again. A callback of the garbage collector swallows it."""


class _TimeOverError(BaseException):
    """Not an Exception: it is no failure of the world that it ends."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Ends the block after so many seconds of CPU time, even in a world that never ends because of the bug."""

    def over(*_: object) -> None:
        raise _TimeOverError

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001), _AGAIN_SECONDS)
    try:
        yield
    except _TimeOverError:
        return
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _search(bug: Mutant, seed: int, seconds: float) -> Found | None:
    """Plants the bug here for good."""
    plant(bug)
    started = time.process_time()
    with _at_most(seconds):
        while True:
            failure = failure_of(scenario_of(seed))
            if failure is not None:
                return Found(seed, round(time.process_time() - started, 1), failure.rule)
            seed += 1
    return None


def _searched(task: tuple[Mutant, int, float]) -> tuple[str, Found | None]:
    """Plants the bug in this process, which ends after that."""
    return task[0].name, _search(*task)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each bug")
    parser.add_argument("--unjudged-seconds", type=float, default=30.0, help="the same for those that no rule judges, at most")
    parser.add_argument("--seed", type=int, default=0, help="the first scenario")
    parser.add_argument("--jobs", type=int, default=1, help="how many bugs at once")
    parser.add_argument("--own", action="store_true", help="only the bugs of own_bugs.toml")
    parser.add_argument("--only", help="searches for the bug of that name here, and prints what was found as JSON")
    asked = parser.parse_args(arguments)
    bugs = simulated_bugs()
    if asked.only is not None:
        (bug,) = (one for one in bugs if one.name == asked.only)
        found = _search(bug, asked.seed, asked.seconds)
        print(json.dumps(None if found is None else attrs.asdict(found)))
        return 0
    times: dict[str, tuple[float, str]] = {}
    missed: list[str] = []
    reasons = own_bugs()
    seconds = {True: min(asked.seconds, asked.unjudged_seconds), False: asked.seconds}
    tasks = [(bug, asked.seed, seconds[bool(reasons.get(bug))]) for bug in (reasons if asked.own else bugs)]
    with multiprocessing.get_context("fork").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for name, found in pool.imap(_searched, tasks):
            if found is None:
                missed.append(name)
                print(f"      -        {name}", flush=True)
            else:
                times[name] = found.seconds, found.rule
                print(f"{found.seconds:7.1f} s {found.rule:>4} {name} (scenario {found.scenario})", flush=True)
    ledger(
        "simulate-bugs",
        describes=SIMULATED_CODE,
        seed=asked.seed,
        seconds_each=asked.seconds,
        seconds_unjudged=min(asked.seconds, asked.unjudged_seconds),
        found=times,
        missed=missed,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
