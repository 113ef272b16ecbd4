"""Installs what the tests need and runs them: ``make test``, ``make test-all``. Needs nothing but Python.

Without ``--selection``: suite by suite (tests/suites.py), each under a ceiling of minutes; then the coverage gates.
With it: the tests of tests/selection.py; then a table of what was skipped.

A *lane* is a second process of this program that runs steps beside those of the first one (``_beside``), because steps that
need parts leave the processors idle for half of the time. The suites of a lane share one real broker. Each lane has its own,
because a test that restarts it would wait for the tests of both. No lane begins before the suites that run alone have ended.
Exit status 0 only if everything passed in its time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
DATA = ROOT / ".cache" / "coverage"
PYTEST = [str(BIN / "python"), "-X", "dev", "-m", "pytest"]
PARTS = [str(BIN / "python"), "-m", "tests.support.parts"]

sys.path.insert(0, str(ROOT))
from tests.suites import SUITES, failures_in, passed_in  # noqa: E402 - where it lies is known only now
from tests.support.processes import end_group, is_running, process_group  # noqa: E402 - as above

ALL = [name for name, suite in SUITES.items() if not suite.campaign]
ALL_OF_IT = "all of it"
INSTALL_CEILING = 10
COLLECTION_CEILING = 10
PARTS_CEILING = 10
"""Minutes of waiting for parts after the suites that need none."""
PARTS_NICENESS = 5
"""Of the processes that make the parts: they get a third of the time that a test gets. The usual 10 is a tenth, so none on a
busy machine."""
BUDGET = 84
"""Minutes of everything where CI=true: less than the 90 after which CI kills a run without a report. The rest bounds each step.
A run takes about 70 on two slow cores."""
MOST_FAILURES = 100
"""Lines about failures below the report's table."""
SELECTION_CEILING = 20
"""Minutes of each step of the selection, five times what the longest takes on two idle cores, as for a suite."""
FAST_MEMORY = {"PYTHONMALLOC": "pymalloc"}
"""Without the checks of allocators that ``-X dev`` switches on."""
DEV_MODE = {"PYTHONDEVMODE": "1"}
"""As ``-X dev``, but also for xdist's workers and the processes that tests start."""
FETCHED_BY = 9
"""Minutes after which a run of the selection stops waiting for parts."""

GATES = (
    # files (None = all), percent of lines and branches
    (None, 95),
    (
        "kafka_remote_client/records/*,kafka_remote_client/fetch/range_sizes.py,kafka_remote_client/fetch/grant_checks.py,"
        "kafka_remote_client/fetch/partition_state.py,"
        "kafka_remote_client/fetch/policy.py,kafka_remote_client/breaker.py,kafka_remote_client/fetch/preference.py,"
        "kafka_remote_client/fetch/scheduler.py,kafka_remote_client/fetch/commands.py,kafka_remote_client/fetch/partition_read.py,"
        "kafka_remote_client/consumer/route_state.py,kafka_remote_client/remote_log/metadata_cache.py,"
        "kafka_remote_client/remote_log/metadata_keys.py,kafka_remote_client/remote_log/usual_records.py,"
        "kafka_remote_client/remote_log/offset_index.py,kafka_remote_client/restore/restore_plan.py,kafka_remote_client/shim/loop_shares.py,"
        "kafka_remote_client/remote_log/metadata_snapshot.py,kafka_remote_client/remote_log/packed_segment.py,"
        "kafka_remote_client/remote_log/leader_epoch_state.py,"
        "kafka_remote_client/scanning/splits.py,kafka_remote_client/scanning/scan_plan.py,"
        "kafka_remote_client/scanning/predicate.py,kafka_remote_client/scanning/pruning.py,kafka_remote_client/spark/planning/filters.py,"
        "kafka_remote_client/spark/planning/job_plan.py",
        100,
    ),
)


class Step(NamedTuple):
    """``cpu_minutes``: user and system time of all processes that ended in the step and were waited for, so not of the broker
    that all suites share. Few CPU minutes in many minutes tell a busy machine, or tests that wait, from a slow suite.
    """

    name: str
    minutes: float
    cpu_minutes: float
    ceiling: float
    outcome: str


class Report:
    """Minutes and CPU minutes per step, its ceiling, and what went wrong.

    ``slower_by``: how many times its ceiling a step may take. ``budget``: minutes of everything where CI=true; ``None`` = those
    of CI, ``slower_by`` times.
    """

    def __init__(self, slower_by: float = 1, budget: float | None = None) -> None:
        self.slower_by = slower_by
        self.steps: list[Step] = []
        self.failures: list[str] = []
        self.failed = False
        self.passed = 0
        self._budget = BUDGET * slower_by if budget is None else budget
        self._started = time.monotonic()

    @property
    def minutes(self) -> float:
        """Minutes since the run began. Steps of lanes overlap, so their sum is more."""
        return (time.monotonic() - self._started) / 60

    @property
    def left(self) -> float:
        """Minutes of the budget that are left."""
        return self._budget - self.minutes

    @property
    def cpu_minutes(self) -> float:
        return sum(step.cpu_minutes for step in self.steps)

    def save(self, file: Path) -> None:
        """Writes what a lane did, for ``add``."""
        file.write_text(json.dumps([self.steps, self.failures, self.failed, self.passed]))

    def add(self, lane: str, file: Path) -> None:
        """Adds what a lane saved. A lane that saved nothing has failed."""
        if not file.exists():
            self.failed = True
            self.failures.append(f"the lane {lane} ended without a report")
            return
        steps, failures, failed, passed = json.loads(file.read_text())
        self.steps += [Step(*step) for step in steps]
        self.failures += failures
        self.failed |= failed
        self.passed += passed

    def run(self, name: str, ceiling: float, commands: list[list[str]], environment: dict[str, str]) -> str:
        """Runs commands one after the other until one fails or the ceiling is reached; returns the text of the last."""
        started, cpu_before = time.monotonic(), _cpu_minutes()
        ceiling *= self.slower_by
        if os.environ.get("CI") == "true":
            ceiling = min(ceiling, self.left)
        print(f"\n== {name} (ceiling {ceiling:.0f} minutes)", flush=True)
        text, complaint = "", ""
        for command in commands:
            left = ceiling * 60 - (time.monotonic() - started)
            text, status = _run(command, environment, left)
            if status is None:
                complaint = "past its ceiling"
            elif status:
                complaint = f"exit status {status}"
            if complaint:
                self.failed = True
                self.failures += failures_in(text)
                break
        minutes = (time.monotonic() - started) / 60
        self.steps.append(Step(name, minutes, _cpu_minutes() - cpu_before, ceiling, complaint or "ok"))
        return text

    def wait(self, name: str, ceiling: float, process: subprocess.Popen[bytes]) -> None:
        """Waits for a process in the background to end. Whatever becomes of it does not fail the run."""
        started, cpu_before = time.monotonic(), _cpu_minutes()
        ceiling *= self.slower_by
        print(f"\n== waiting for {name} (ceiling {ceiling:.0f} minutes)", flush=True)
        try:
            status = process.wait(ceiling * 60)
            outcome = f"exit status {status}" if status else "ok"
        except subprocess.TimeoutExpired:
            outcome = "past its ceiling"
        minutes = (time.monotonic() - started) / 60
        self.steps.append(Step(name, minutes, _cpu_minutes() - cpu_before, ceiling, outcome))

    def print(self) -> None:
        print("\nsuite            minutes  CPU minutes  ceiling")
        for step in self.steps:
            print(f"{step.name:<16} {step.minutes:7.1f} {step.cpu_minutes:12.1f} {step.ceiling:8.0f}  {step.outcome}")
        print(f"{ALL_OF_IT:<16} {self.minutes:7.1f} {self.cpu_minutes:12.1f}")
        print(f"in all suites: {self.passed} passed{', with failures' if self.failed else ''}")
        print("\n".join(self.failures[:MOST_FAILURES]), flush=True)


def _cpu_minutes() -> float:
    """User and system time of all ended descendants whose parents waited for them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / 60


def _run(command: list[str], environment: dict[str, str], seconds: float) -> tuple[str, int | None]:
    """Runs a command with its output shown and kept; status None = killed after ``seconds`` with all that it started."""
    lines: list[str] = []
    late = []
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with process_group(command, cwd=ROOT, env=environment, **output) as process:

        def kill(*_: object) -> None:
            late.append(True)
            end_group(process.pid)

        signal.signal(signal.SIGALRM, kill)
        signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
            status = process.wait()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return "".join(lines), None if late else status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--selection", action="store_true")
    parser.add_argument("--lane", type=Path, help="be a lane, and write what it did to this file")
    parser.add_argument(
        "--slower-by", type=float, default=1, help="times its time limit that each step, and all of it, may take"
    )
    parser.add_argument("--budget", type=float, help="minutes of everything where CI=true")
    parser.add_argument("--after", type=int, help="the process whose end a lane waits for")
    parser.add_argument("suites", nargs="*", choices=[[], *ALL], default=[])
    arguments = parser.parse_args()
    report = Report(arguments.slower_by, arguments.budget)
    if arguments.lane:
        return _lane(arguments.lane, report, arguments.after, arguments.suites)

    subprocess.run([sys.executable, str(ROOT / ".ci" / "parts.py")], check=True, stdin=subprocess.DEVNULL)
    environment = dict(os.environ)
    ledger = environment.pop("KAFKA_REMOTE_LEDGER_FILE", "")  # of this run, not of what its tests do
    make = ["make", f"PYTHON={arguments.python}"]
    report.run("install", INSTALL_CEILING, [[*make, "install"]], environment)
    if not report.failed:
        with _run_directory(environment) as run:
            if arguments.selection:
                _selection(report, environment, run)
            else:
                _suites(report, environment, make, arguments.suites or ALL)
    report.print()
    if ledger:
        steps = {step.name: [step.minutes, step.cpu_minutes] for step in report.steps}
        spent = json.dumps({**steps, ALL_OF_IT: [report.minutes, report.cpu_minutes]})
        failed = max(len(report.failures), int(report.failed))
        command = [str(BIN / "python"), "-m", "tests.support.suite_minutes", spent, str(report.passed), str(failed)]
        subprocess.run(command, cwd=ROOT, env={**environment, "KAFKA_REMOTE_LEDGER_FILE": ledger}, check=True)
    return int(report.failed)


@contextlib.contextmanager
def _run_directory(environment: dict[str, str]) -> Iterator[Path]:
    """What all suites of a lane share: above all the real broker, which is stopped at the end."""
    run = Path(tempfile.mkdtemp(prefix="kafka-remote-tests-"))
    (run / "owner.pid").write_text(str(os.getpid()))
    environment["KAFKA_REMOTE_TEST_RUN"] = str(run)
    try:
        yield run
    finally:
        stop = [str(BIN / "python"), "-m", "tests.support.kafka_broker", str(run / "broker")]
        subprocess.run(stop, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        shutil.rmtree(run, ignore_errors=True)


def _lane(file: Path, report: Report, after: int | None, suites: list[str]) -> int:
    """What the process of a lane does: these suites, or those tests of the selection that need parts."""
    while after is not None and is_running(after):
        time.sleep(0.5)
    environment = dict(os.environ)
    with _run_directory(environment):
        if suites:
            _in_turn(report, environment, suites)
        else:
            _with_parts(report, environment)
    report.save(file)
    return 0


@contextlib.contextmanager
def _beside(report: Report, environment: dict[str, str], suites: list[str], after: int | None = None) -> Iterator[None]:
    """Runs a lane beside the block, waits for it and adds it to the report. Its output follows then.

    ``after``: the process that makes what the suites need. The lane begins when it has ended.
    """
    name = " ".join(suites) or "with parts"
    with tempfile.TemporaryDirectory(prefix="kafka-remote-lane-") as directory:
        file = Path(directory) / "report.json"
        waiting = [] if after is None else ["--after", str(after)]
        limits = ["--slower-by", str(report.slower_by), "--budget", str(report.left)]
        command = [sys.executable, __file__, "--lane", str(file), *limits, *waiting, *suites]
        with _background(command, "lane.log", environment) as lane:
            yield
            print(f"\n== waiting for {name}", flush=True)
            lane.wait()  # each of its steps has a ceiling
        report.add(name, file)


def _suites(report: Report, environment: dict[str, str], make: list[str], chosen: list[str]) -> None:
    """Runs suites with coverage, and the gates after all of them.

    The suites that need no part run first, while ``make`` builds and fetches the parts in the background. When it has ended, a
    lane of those that mostly wait begins.
    """
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    needing = [name for name in chosen if SUITES[name].needs_parts]
    parts = ["store-servers"] if needing else []
    if needing and shutil.which("mvn"):
        parts = ["artifacts", *parts, *(["spark-parts"] if "spark" in needing else [])]
    # A part that cannot be made skips its own tests, which fail where CI=true. It must not keep the others from running.
    command = ["nice", "-n", str(PARTS_NICENESS), *make, "--keep-going", *parts]
    beside = [name for name in needing if SUITES[name].beside]
    others = [name for name in chosen if name not in beside and not SUITES[name].alone]
    with _background(command, "parts.log") if parts else contextlib.nullcontext() as fetching:
        if chosen == ALL:
            _compile_tests(report, environment)
        _in_turn(report, environment, [name for name in chosen if SUITES[name].alone])
        with _beside(report, environment, beside, fetching.pid) if fetching and beside and others else contextlib.nullcontext():
            _in_turn(report, environment, [name for name in others if name not in needing])
            if fetching is not None:
                report.wait("parts", PARTS_CEILING, fetching)
                end_group(fetching.pid)
            _in_turn(report, environment, [name for name in others or beside if name in needing])
    if chosen == ALL:
        _check_coverage(report, environment)


def _compile_tests(report: Report, environment: dict[str, str]) -> None:
    """Collects the tests that need no part, once, which keeps the bytecode of all modules.

    Without it, all workers of a suite begin at the same time to compile the same modules and to rewrite the same assertions.
    """
    suites = [f"--suite={name}" for name, suite in SUITES.items() if not suite.needs_parts and not suite.campaign]
    command = [str(BIN / "python"), "-m", "pytest", "--collect-only", "-qq", *suites]
    report.run("collection", COLLECTION_CEILING, [command], environment)


def _in_turn(report: Report, environment: dict[str, str], names: list[str]) -> None:
    """Runs suites one after the other."""
    for name in names:
        suite = SUITES[name]
        environment["COVERAGE_FILE"] = str(DATA / f".coverage.{name}")
        coverage = ["--cov", "--cov-report="] if suite.counted else []
        command = [*PYTEST, "--suite", name, *coverage]
        mode = (DEV_MODE if suite.dev_mode else {}) | ({} if suite.debug_memory else FAST_MEMORY)
        report.passed += passed_in(report.run(name, suite.ceiling, [command + suite.parallel], environment | mode))


def _selection(report: Report, environment: dict[str, str], run: Path) -> None:
    """Runs the selection: the tests that need parts beside those that need none, then those that run alone."""
    environment = environment | FAST_MEMORY
    skips = run / "skips.jsonl"
    environment["KAFKA_REMOTE_TEST_SKIPS"] = str(skips)
    with _beside(report, environment, []):
        command = [*PYTEST, "--selection", "without-parts", "--numprocesses", "3", "--dist", "loadgroup"]
        report.passed += passed_in(report.run("without parts", SELECTION_CEILING, [command], environment))
    report.passed += passed_in(report.run("alone", SELECTION_CEILING, [[*PYTEST, "--selection", "alone"]], environment))
    print(flush=True)
    subprocess.run([*PARTS, "table", str(skips)], cwd=ROOT, check=False, stdin=subprocess.DEVNULL)


def _with_parts(report: Report, environment: dict[str, str]) -> None:
    """The lane of the selection: fetches the parts, for some minutes at most, and runs the tests that need them."""
    with process_group([*PARTS, "fetch"], cwd=ROOT, env=environment) as fetching:
        report.wait("parts", FETCHED_BY, fetching)
        end_group(fetching.pid)
    environment["KAFKA_REMOTE_TEST_NO_FETCH"] = "1"
    command = [*PYTEST, "--selection", "with-parts", "--s3-server", "seaweedfs", "--numprocesses", "3", "--dist", "loadfile"]
    report.passed += passed_in(report.run("with parts", SELECTION_CEILING, [command], environment))


@contextlib.contextmanager
def _background(
    command: list[str], log_name: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output goes to a log in .cache. At the end it is killed, with all that it started, unless it has ended.

    Then the log is printed.
    """
    log = ROOT / ".cache" / log_name
    log.parent.mkdir(exist_ok=True)
    options = {"cwd": ROOT, "env": environment, "stderr": subprocess.STDOUT}
    with log.open("wb") as output, process_group(command, stdout=output, **options) as started:
        try:
            yield started
        finally:
            end_group(started.pid)
    print(log.read_text(errors="replace"), end="", flush=True)


def _check_coverage(report: Report, environment: dict[str, str]) -> None:
    """Each gate is a step of its own, so that one that fails does not hide the other."""
    environment["COVERAGE_FILE"] = str(DATA / ".coverage")
    coverage = str(BIN / "coverage")
    report.run("coverage data", 2, [[coverage, "combine", "--quiet", str(DATA)]], environment)
    for files, percent in GATES:
        only = [f"--include={files}"] if files else []
        command = [coverage, "report", "--skip-covered", "--show-missing", f"--fail-under={percent}", *only]
        report.run(f"coverage {percent}%", 2, [command], environment)


if __name__ == "__main__":
    sys.exit(main())
