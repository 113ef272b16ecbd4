"""Plants bugs and reports those that no test notices.

::

    make mutants                               # both kinds: those written by hand, and a sample of those made by a library
    make mutants ARGS="--kind hand"            # the test that each bug names, all bugs
    make mutants ARGS="--kind hand --whole-package --match lineage"   # all tests of a package, bugs whose name has the text
    make mutants ARGS="--kind library --seed 7 --count 60 --area records"    # of one area only; may be repeated

Exit status 1 if a bug survives, except for a library's bug that tests/mutants/equivalents.toml explains. It writes a ledger
line for each kind and package, or area of the library's.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from kafka_remote_client.clock import SystemClock
from tests.mutants.library import AREAS, sampled
from tests.mutants.mutant import Mutant, read_mutants
from tests.mutants.server import Outcome, run
from tests.support.ledger import entries, ledger

__all__ = ["MUTANTS", "main", "rotating", "run"]

MUTANTS = read_mutants(Path(__file__).with_name("bugs"))
_ROOT = Path(__file__).resolve().parents[2]
_PRODUCT = ("kafka_remote_client", "fetchers")
_CLOCK = SystemClock()

_Bug = TypeVar("_Bug")


def rotating(bugs: Sequence[_Bug], count: int) -> list[_Bug]:
    """Returns ``count`` of the bugs in their order: others when the product's code changes, the same for the same code."""
    digest = hashlib.sha256()
    for folder in _PRODUCT:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    chosen = set(random.Random(digest.hexdigest()).sample(range(len(bugs)), min(count, len(bugs))))
    return [bug for number, bug in enumerate(bugs) if number in chosen]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("all", "hand", "library"), default="all", help="which bugs to plant")
    parser.add_argument("--match", default="", help="plant only bugs of the list whose name or module contains this text")
    parser.add_argument("--area", choices=AREAS, action="append", help="sample this area only; may be repeated")
    parser.add_argument("--rotating", type=int, metavar="N", help="plant N bugs of the list, other ones for other code")
    parser.add_argument("--whole-package", action="store_true", help="run all tests of the package, not the one that is named")
    parser.add_argument("--seed", type=int, help="of the library's bugs; a new one by default")
    parser.add_argument("--count", type=int, default=300, help="how many bugs of the library's, of all areas together")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of one test")
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds for all tests of one bug")
    parser.add_argument("--jobs", type=int, default=2, help="bugs that are tried side by side")
    given = parser.parse_args(arguments)
    status = 0
    if given.kind in {"all", "hand"}:
        chosen = [one for one in MUTANTS if given.match in one.name or given.match in one.module]
        chosen = chosen if given.rotating is None else rotating(chosen, given.rotating)
        outcomes = _judged(chosen, given)
        for package in sorted({one.package for one in chosen}):
            planted = [one for one in chosen if one.package == package]
            status |= _told("hand", package, planted, outcomes, whole_package=given.whole_package)
    if given.kind in {"all", "library"}:
        seed = given.seed if given.seed is not None else _CLOCK.time_ms() // 1000
        areas = given.area or list(AREAS)
        print(f"--seed {seed}", flush=True)
        for area in areas:
            made = sampled(area, seed, given.count // len(areas))
            status |= _told("library", area, made, _judged(made, given), seed=seed, whole_package=True)
    return status


def _judged(mutants: Sequence[Mutant], given: argparse.Namespace) -> list[Outcome]:
    return run(mutants, seconds=given.seconds, budget=given.budget, jobs=given.jobs, whole_package=given.whole_package)


def _told(
    kind: str,
    name: str,
    mutants: Sequence[Mutant],
    outcomes: Sequence[Outcome],
    *,
    whole_package: bool,
    seed: int | None = None,
) -> int:
    """Writes the ledger's line for a package or an area, and returns the exit status."""
    here = [one for one in outcomes if one.mutant in mutants]
    survived = [one for one in here if not one.killed and not one.broken]
    equivalent = sum(bool(one.mutant.equivalent) for one in survived)
    ledger(
        "mutants",
        describes=_code_of(mutants[0].package),
        seed=seed,
        seconds=round(sum(one.seconds for one in here)),
        bugs=kind,
        tests="package" if whole_package else "named",
        package=name,
        planted=len(mutants),
        killed=sum(one.killed for one in here),
        survived=len(survived) - equivalent,
        equivalent=equivalent,
        broken=len(mutants) - len(here) + sum(one.broken for one in here),
        **({} if seed is None else {"unseen": _is_unseen(name, seed)}),
    )
    return int(len(here) < len(mutants) or any(_is_missed(one) for one in here))


def _is_unseen(area: str, seed: int) -> bool:
    """Returns whether the tree's ledger has no run of the area with the seed, so no test was written for its bugs."""
    return all((run.seed, run.counts["package"]) != (seed, area) for run in entries() if run.campaign == "mutants")


def _code_of(package: str) -> tuple[str, ...]:
    if package == "kafka_remote_client":
        return ("kafka_remote_client/*.py",)
    return (package if package == "fetchers" else f"kafka_remote_client/{package}",)


def _is_missed(outcome: Outcome) -> bool:
    return outcome.broken or not (outcome.killed or outcome.mutant.equivalent)


if __name__ == "__main__":
    sys.exit(main())
