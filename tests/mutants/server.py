"""Plants each bug in a child process and runs tests of its package until one fails.

One pytest session imports and collects everything once; a child is forked for each bug, so no two bugs meet. On a busy
machine a test can fail by chance. So it kills a bug only if it fails again as the first test of another child with the bug;
if it passes there, that child goes on with the next tests. The tests that bugs name, and those that failed with a bug of the
library, must also pass in a child without a bug. A test that runs longer than its time limit has failed. If it goes on, because
the bug blocks its end, as that of ``asyncio.run``, its process is killed after three times the limit, which counts at once. A
package whose tests take longer than the budget gives no result.

A bug of the library that is in no function, or would survive, runs in a process that imports the module with it.
"""

from __future__ import annotations

import math
import mmap
import os
import resource
import selectors
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn

import attrs
import pytest
from _pytest.runner import runtestprotocol

from kafka_remote_client.clock import SystemClock
from tests.mutants.at_import import judged_at_import
from tests.mutants.mutant import CannotPlantError, Mutant, plant
from tests.support.processes import end_group

__all__ = ["Outcome", "run"]

CONTROL = Mutant("no bug", "", "", "", killed_by="")
"""The first run: the tests must pass without a bug in the same process."""
_TESTS = Path(__file__).resolve().parents[1]
_CLOCK = SystemClock()
_KILLED, _SURVIVED, _BROKEN = 1, 0, 3
AT_IMPORT = "at import: "
"""The prefix of a test that failed in a process that imported the module with the bug."""
ENDED_IN = "the process ended in: "
"""The prefix of a test that was killed, or ended its process."""
_NO_PARTS = "not broker and not spark and not stores"
"""The tests for a generated bug: those that start no component. Tests on the embedded cluster belong to them, and run last."""
_OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--randomly-dont-reorganize",
    "--no-header",
    "--assert=plain",  # the product, which a pytest plugin makes pytest rewrite, is imported already
    "--override-ini=timeout_func_only=true",  # around each call: no code that pytest-timeout hooks into runs here
)
_LIMITS = 3
"""A test's process is killed after this many of its time limits: set-up and the end of the test have none of their own."""
_MOST_MEMORY = 8 << 30
"""Bytes of address space: an endless loop caused by a bug must not use up the machine's memory."""


@attrs.frozen
class Outcome:
    """``killed`` by the test in ``detail``. ``broken``: the bug could not be planted or judged; ``detail`` has the reason."""

    mutant: Mutant
    killed: bool
    detail: str
    seconds: float
    broken: bool = False

    def __str__(self) -> str:
        survived = "EQUIVALENT" if self.mutant.equivalent else "SURVIVED"
        word = "BROKEN" if self.broken else "killed" if self.killed else survived
        return f"{word:<8} {self.seconds:6.1f} s  {self.mutant.module.rpartition('.')[2]}: {self.mutant.name}  [{self.detail}]"


@attrs.define
class _Child:
    """A process that reports its result at the end. It has the time since ``started``, when the first child of its bug began.

    ``progress`` is shared: how many tests have passed, and when the current one began, infinity if none runs in this process.
    ``repeats``: the test that failed in the child before, which is the first of this one.
    """

    mutant: Mutant
    items: Sequence[pytest.Item]
    pid: int
    report: int
    progress: memoryview
    started: float
    repeats: str
    is_late: bool = False
    is_ended: bool = False

    @property
    def count(self) -> int:
        """How many tests have passed."""
        return int(self.progress[0])

    @property
    def test(self) -> str:
        """The test that runs in this process, or failed in it; none if one runs elsewhere."""
        return "" if math.isinf(self.progress[1]) or self.count >= len(self.items) else self.items[self.count].nodeid

    @property
    def is_first_failure(self) -> bool:
        """Whether a test failed that must fail again. One that was ended had three times its limit."""
        return self.test not in {"", self.repeats} and not self.is_ended


class _Session:
    """A pytest plugin that runs the collected tests once for each mutant instead of once."""

    def __init__(self, mutants: Sequence[Mutant], *, seconds: float, budget: float, jobs: int, whole_package: bool) -> None:
        self._mutants = mutants
        self._seconds = seconds
        self._budget = budget
        self._jobs = jobs
        self._whole_package = whole_package
        self.outcomes: list[Outcome] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        named = [item for item in session.items if any(_is(item, mutant.killed_by) for mutant in self._mutants)]
        self._control(session, named)
        tests = [(mutant, _tests_of(mutant, session.items, whole_package=self._whole_package)) for mutant in self._mutants]
        for outcome in self._judged(tests):
            print(outcome, flush=True)
            self.outcomes.append(outcome)
        details = [one.detail for one in self.outcomes if one.mutant.is_made and one.killed]
        failed = {detail.removeprefix(AT_IMPORT).removeprefix(ENDED_IN) for detail in details}
        self._control(session, [item for item in session.items if item.nodeid in failed])
        return True

    def _control(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Raises Failed, and drops all outcomes, if one of the tests fails without a bug."""
        for outcome in self._judged([(CONTROL, items)] if items else []):
            if outcome.killed or outcome.broken:
                print(f"a test fails without any bug: {outcome.detail}", flush=True)
                self.outcomes.clear()
                raise session.Failed("without any bug")

    def _judged(self, waiting: Sequence[tuple[Mutant, Sequence[pytest.Item]]]) -> Iterator[Outcome]:
        left: list[tuple[Mutant, Sequence[pytest.Item], _Child | None]]
        left = [(mutant, items, None) for mutant, items in reversed(waiting)]
        with selectors.DefaultSelector() as selector, ExitStack() as stack:
            stack.callback(lambda: [end_group(key.data.pid) for key in selector.get_map().values()])
            while left or selector.get_map():
                while left and len(selector.get_map()) < self._jobs:
                    child = _start(*left.pop(), seconds=self._seconds)
                    selector.register(child.report, selectors.EVENT_READ, child)
                first = min(self._deadline(key.data) for key in selector.get_map().values())
                for key, _ in selector.select(max(0.0, first - _CLOCK.monotonic())):
                    selector.unregister(key.fd)
                    child, outcome = key.data, _outcome(key.data)
                    if outcome.killed and child.is_first_failure and child.mutant is not CONTROL:
                        left.append((child.mutant, child.items[child.count :], child))
                    else:
                        yield outcome
                for key in selector.get_map().values():
                    child = key.data
                    if not child.is_ended and self._deadline(child) <= _CLOCK.monotonic():
                        child.is_ended = True
                        child.is_late = child.started + self._budget <= _CLOCK.monotonic()
                        end_group(child.pid)  # its end of the pipe closes, which ends the wait

    def _deadline(self, child: _Child) -> float:
        """Returns the end of the child's budget, or of its current test if that is earlier. It only ever becomes later."""
        return min(child.started + self._budget, child.progress[1] + _LIMITS * self._seconds)


def _start(mutant: Mutant, items: Sequence[pytest.Item], before: _Child | None, *, seconds: float) -> _Child:
    (report, answer), progress, now = os.pipe(), memoryview(mmap.mmap(-1, 16)).cast("d"), _CLOCK.monotonic()
    progress[1] = now
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        os.setsid()
        os.close(report)
        _be_child(mutant, items, answer, progress, parent, seconds)
    os.close(answer)
    started, repeats = (before.started, before.test) if before else (now, "")
    return _Child(mutant, items, pid, report, progress, started, repeats)


def _tests_of(mutant: Mutant, items: Sequence[pytest.Item], *, whole_package: bool) -> list[pytest.Item]:
    """Returns the test that the mutant names; with ``whole_package``, the module's own tests and then all others."""
    if not whole_package and not mutant.is_made:
        return [item for item in items if _is(item, mutant.killed_by)]
    own, folders = _TESTS / mutant.paired, mutant.tests
    package = [item for item in items if any(item.path.is_relative_to(folder) for folder in folders)]
    return sorted(package, key=lambda item: (item.path != own, bool(item.get_closest_marker("embedded"))))


def _is(item: pytest.Item, node: str) -> bool:
    """Returns whether the item is the test of that name, or one of its parameters, or in the file of that name."""
    path, _, name = node.partition("::")
    own = item.nodeid.partition("::")[2]
    return bool(path) and item.path == _TESTS / path and name in {"", own, own.partition("[")[0]}


def _be_child(
    mutant: Mutant, items: Sequence[pytest.Item], answer: int, progress: memoryview, parent: int, seconds: float
) -> NoReturn:
    status, detail = _BROKEN, f"there is no test {mutant.killed_by}"
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
        if mutant is not CONTROL:
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        if items and _is_planted(mutant):
            status, detail = _run(mutant, items, progress, parent)
        if mutant.is_made and mutant is not CONTROL and status != _KILLED:
            progress[1] = math.inf
            status, detail = _judged_at_import(mutant, seconds, is_planted=status == _SURVIVED)
    except CannotPlantError as error:
        detail = str(error)
    except BaseException:  # the parent reports what is wrong with the test run
        status, detail = _BROKEN, traceback.format_exc()
    with suppress(OSError):  # nobody waits for the outcome
        os.write(answer, bytes([status]) + detail.encode()[-4000:])
    os._exit(0)


def _is_planted(mutant: Mutant) -> bool:
    """Plants the bug. Returns False if that needs an import; raises CannotPlantError for a bug written by hand."""
    if mutant is CONTROL:
        return True
    try:
        plant(mutant)
    except Exception:  # it is in no function, changes what a function closes over, or makes the module raise
        if not mutant.is_made:
            raise
        return False
    return True


def _run(mutant: Mutant, items: Sequence[pytest.Item], progress: memoryview, parent: int) -> tuple[int, str]:
    """Returns the status and the failed test, for a run without a bug with what pytest says of it."""
    for number, item in enumerate(items):
        following = items[number + 1] if number + 1 < len(items) else None
        failed = next((report for report in runtestprotocol(item, log=False, nextitem=following) if report.failed), None)
        if failed:
            return _KILLED, item.nodeid if mutant is not CONTROL else f"{item.nodeid}\n{failed.longreprtext}"
        progress[0], progress[1] = number + 1, _CLOCK.monotonic()
        if os.getppid() != parent:
            end_group(os.getpid())  # nobody waits for the outcome
    return _SURVIVED, f"{len(items)} tests passed"


def _judged_at_import(mutant: Mutant, seconds: float, *, is_planted: bool) -> tuple[int, str]:
    """Runs the module's own tests, then those of the package, unless all have passed with the bug planted."""
    text = mutant.source.replace(mutant.old, mutant.new)
    own = _TESTS / mutant.paired
    asked = [([own], _NO_PARTS)] if own.is_file() else []
    asked += [] if is_planted else [(mutant.tests, _NO_PARTS)]
    for paths, marked in asked:
        ends = f"--override-ini=faulthandler_timeout={_LIMITS * seconds:g}"  # with faulthandler_exit_on_timeout
        options = [*_OPTIONS, f"--timeout={seconds:g}", ends, "-m", marked]
        failed = judged_at_import(mutant.module, text, options, [*map(str, paths)])
        if failed is not None:
            return _KILLED, AT_IMPORT + failed
    return _SURVIVED, "all tests passed"


def _outcome(child: _Child) -> Outcome:
    said, test = os.read(child.report, 4096), child.test
    os.close(child.report)
    end_group(child.pid)  # with the processes that its tests left behind
    os.waitpid(child.pid, 0)
    seconds = _CLOCK.monotonic() - child.started
    if child.is_late:
        return Outcome(
            child.mutant, killed=False, detail=f"{child.count} tests passed in the budget", seconds=seconds, broken=True
        )
    if not said:
        detail = f"{ENDED_IN}{test}" if test else f"the process ended after {child.count} tests"
        return Outcome(child.mutant, killed=True, detail=detail, seconds=seconds)
    return Outcome(child.mutant, said[0] == _KILLED, said[1:].decode(errors="replace"), seconds, broken=said[0] == _BROKEN)


def run(
    mutants: Sequence[Mutant], *, seconds: float = 60.0, budget: float = 1200.0, jobs: int = 2, whole_package: bool = False
) -> list[Outcome]:
    """Returns the outcome of each mutant in the order in which they ended; none if the tests fail without a bug.

    Bugs of the library run with the tests of their package that need no component: those without a cluster before those on the
    embedded one.
    """
    session = _Session(mutants, seconds=seconds, budget=budget, jobs=jobs, whole_package=whole_package)
    nodes = {
        path
        for one in mutants
        for path in (one.tests if whole_package or one.is_made else [_TESTS / one.killed_by.partition("::")[0]])
    }
    quick = ("-m", _NO_PARTS) if all(one.is_made for one in mutants) else ()
    options = [*_OPTIONS, *quick, "--no-summary", f"--timeout={seconds:g}"]
    pytest.main([*options, *sorted(map(str, nodes))], plugins=[session])
    return session.outcomes
