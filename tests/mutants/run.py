"""Plants each bug in a child process and runs tests of its package until one fails.

::

    make mutants                               # the test that each bug names, all bugs
    make mutants ARGS="--whole-package"        # all tests of the package: those of the module first, until one fails
    make mutants ARGS="--match lineage"        # bugs whose name or module contains the text

One pytest session imports and collects everything once; a child is forked for each bug, so that none meets another. Before
that, a child without any bug passes the tests that the bugs name. A bug that no test notices survives, and the exit status is
1. A test that runs longer than ``--seconds`` has failed. A package whose tests take longer than ``--budget`` tells nothing.
"""

from __future__ import annotations

import argparse
import mmap
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn

import attrs
import pytest
from _pytest.runner import runtestprotocol

from kafka_remote_client.clock import SystemClock
from tests.mutants.mutant import CannotPlantError, Mutant, plant, read_mutants
from tests.support.ledger import ledger

__all__ = ["MUTANTS", "Outcome", "main", "run"]

MUTANTS = read_mutants(Path(__file__).with_name("bugs"))
CONTROL = Mutant("no bug", "", "", "", killed_by="")
"""What is judged first: the tests must pass without a bug in the same surroundings."""
_TESTS = Path(__file__).resolve().parents[1]
_CLOCK = SystemClock()
_KILLED, _SURVIVED, _BROKEN = 1, 0, 3


@attrs.frozen
class Outcome:
    """``killed`` by the test that ``told`` names; ``broken``: the bug could not be planted or judged, and ``told`` says why."""

    mutant: Mutant
    killed: bool
    told: str
    seconds: float
    broken: bool = False

    def __str__(self) -> str:
        word = "BROKEN" if self.broken else "killed" if self.killed else "SURVIVED"
        return f"{word:<8} {self.seconds:6.1f} s  {self.mutant.module.rpartition('.')[2]}: {self.mutant.name}  [{self.told}]"


@attrs.define
class _Child:
    """A process that reports at the end. ``passed`` counts its tests meanwhile."""

    mutant: Mutant
    pid: int
    report: int
    passed: mmap.mmap
    started: float
    is_late: bool = False

    @property
    def count(self) -> int:
        return int.from_bytes(self.passed[:8], "little")


class _Session:
    """A pytest plugin that runs the collected tests once for each mutant instead of once."""

    def __init__(self, mutants: Sequence[Mutant], *, budget: float, jobs: int, whole_package: bool) -> None:
        self._mutants = mutants
        self._budget = budget
        self._jobs = jobs
        self._whole_package = whole_package
        self.outcomes: list[Outcome] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        named = [item for item in session.items if any(_is(item, mutant.killed_by) for mutant in self._mutants)]
        (control,) = self._judged([(CONTROL, named)])
        if control.killed or (control.broken and named):
            print(f"a test fails without any bug: {control.told}", flush=True)
            raise session.Failed("without any bug")
        tests = [(mutant, _tests_of(mutant, session.items, whole_package=self._whole_package)) for mutant in self._mutants]
        for outcome in self._judged(tests):
            print(outcome, flush=True)
            self.outcomes.append(outcome)
        return True

    def _judged(self, waiting: Sequence[tuple[Mutant, list[pytest.Item]]]) -> Iterator[Outcome]:
        left = list(reversed(waiting))
        with selectors.DefaultSelector() as selector, ExitStack() as stack:
            stack.callback(lambda: [_end(key.data.pid) for key in selector.get_map().values()])
            while left or selector.get_map():
                while left and len(selector.get_map()) < self._jobs:
                    child = _start(*left.pop())
                    selector.register(child.report, selectors.EVENT_READ, child)
                first = min(key.data.started for key in selector.get_map().values())
                for key, _ in selector.select(max(0.0, first + self._budget - _CLOCK.monotonic())):
                    selector.unregister(key.fd)
                    yield _outcome(key.data)
                for key in selector.get_map().values():
                    if not key.data.is_late and key.data.started + self._budget <= _CLOCK.monotonic():
                        key.data.is_late = True
                        _end(key.data.pid)  # its end of the pipe closes, which ends the wait


def _start(mutant: Mutant, items: Sequence[pytest.Item]) -> _Child:
    (report, answer), passed = os.pipe(), mmap.mmap(-1, 8)
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        os.setsid()
        os.close(report)
        _be_child(mutant, items, answer, passed, parent)
    os.close(answer)
    return _Child(mutant, pid, report, passed, _CLOCK.monotonic())


def _tests_of(mutant: Mutant, items: Sequence[pytest.Item], *, whole_package: bool) -> list[pytest.Item]:
    """The test that the mutant names; with ``whole_package`` the module's own first and then all others of the package."""
    if not whole_package:
        return [item for item in items if _is(item, mutant.killed_by)]
    package = [item for item in items if item.path.is_relative_to(_TESTS / mutant.package)]
    return sorted(package, key=lambda item: (item.path != _TESTS / mutant.paired, bool(item.get_closest_marker("embedded"))))


def _is(item: pytest.Item, node: str) -> bool:
    """Whether the item is the test of that name, or one of its parameters."""
    path, _, name = node.partition("::")
    own = item.nodeid.partition("::")[2]
    return item.path == _TESTS / path and (own == name or own.partition("[")[0] == name)


def _be_child(mutant: Mutant, items: Sequence[pytest.Item], answer: int, passed: mmap.mmap, parent: int) -> NoReturn:
    status, told = _BROKEN, f"there is no test {mutant.killed_by}"
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
        if mutant is not CONTROL:
            plant(mutant)
        if items:
            status, told = _SURVIVED, f"{len(items)} tests passed"
        for number, item in enumerate(items):
            following = items[number + 1] if number + 1 < len(items) else None
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                status, told = _KILLED, item.nodeid
                break
            passed[:8] = (number + 1).to_bytes(8, "little")
            if os.getppid() != parent:
                _end(os.getpid())  # nobody waits for the outcome any more
    except CannotPlantError as error:
        told = str(error)
    except BaseException:  # what is wrong with the test run is the parent's to show
        status, told = _BROKEN, traceback.format_exc()
    os.write(answer, bytes([status]) + told.encode()[-4000:])
    os._exit(0)


def _outcome(child: _Child) -> Outcome:
    said = os.read(child.report, 4096)
    os.close(child.report)
    _end(child.pid)  # with what its tests left behind
    os.waitpid(child.pid, 0)
    seconds = _CLOCK.monotonic() - child.started
    if child.is_late:
        return Outcome(
            child.mutant, killed=False, told=f"{child.count} tests passed in the budget", seconds=seconds, broken=True
        )
    if not said:
        return Outcome(child.mutant, killed=True, told=f"the process ended after {child.count} tests", seconds=seconds)
    return Outcome(child.mutant, said[0] == _KILLED, said[1:].decode(errors="replace"), seconds, broken=said[0] == _BROKEN)


def _end(group: int) -> None:
    """Ends a child with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run(
    mutants: Sequence[Mutant], *, seconds: float = 60.0, budget: float = 1200.0, jobs: int = 2, whole_package: bool = False
) -> list[Outcome]:
    """What became of each mutant, in the order in which they ended. None of them where the tests fail without a bug."""
    session = _Session(mutants, budget=budget, jobs=jobs, whole_package=whole_package)
    nodes = {one.package if whole_package else one.killed_by.partition("::")[0] for one in mutants}
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--randomly-dont-reorganize",
        "-p",
        "no:xdist",
        "--no-header",
        "--no-summary",
        f"--timeout={seconds}",
    ]
    pytest.main([*options, *sorted(str(_TESTS / node) for node in nodes)], plugins=[session])
    return session.outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="plant only bugs whose name or module contains this text")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="plant the first bug of each N")
    parser.add_argument("--whole-package", action="store_true", help="run all tests of the package, not the one that is named")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of one test")
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds for all tests of one bug")
    parser.add_argument("--jobs", type=int, default=2, help="bugs that are tried side by side")
    given = parser.parse_args(arguments)
    chosen = [one for one in MUTANTS if given.match in one.name or given.match in one.module][:: given.every]
    started = _CLOCK.monotonic()
    outcomes = run(chosen, seconds=given.seconds, budget=given.budget, jobs=given.jobs, whole_package=given.whole_package)
    killed = sum(one.killed for one in outcomes)
    ledger(
        "mutants",
        tests="package" if given.whole_package else "named",
        planted=len(chosen),
        killed=killed,
        survived=sum(not one.killed and not one.broken for one in outcomes),
        broken=len(chosen) - len(outcomes) + sum(one.broken for one in outcomes),
        seconds=round(_CLOCK.monotonic() - started),
    )
    return int(killed < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
