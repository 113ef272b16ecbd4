"""Installs what the tests need and runs them, suite by suite, each under a ceiling of minutes; then the coverage gates.

Needs nothing but Python: it makes the virtual environment itself (through make). Each test belongs to exactly one suite
(tests/suites.py says which). All suites share one real broker. Exit status 0 only if everything passed in its time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
DATA = ROOT / ".cache" / "coverage"

SUITES = {
    # suite: (ceiling in minutes, xdist workers, how tests are given to them). Wait-bound suites have more workers than
    # cores; where a module's fixtures write topics, a module stays with one worker.
    "unit": (8, 2, "loadgroup"),
    "shim": (5, 4, "loadfile"),
    "consumer": (7, 4, "loadfile"),
    "faults": (10, 8, "load"),  # a thousand cells that mostly wait
    "state-machine": (5, 7, "load"),  # programs that wait for two consumers, or for a group
    "broker": (8, 4, "loadfile"),
    "parity": (6, 4, "loadfile"),
    "groups": (5, 1, "loadfile"),  # one fixture runs all groups at the same time
    "stores": (4, 6, "load"),  # one long table of cells, which no worker should read alone
    # Each worker has its own sessions: they are slow to start, and shared by its files; long files come first (suites.py).
    "spark": (10, 2, "loadfile --no-loadscope-reorder"),
    "packaging-docs": (6, 2, "loadgroup"),
    "fuzz": (6, 2, "load"),
}
INSTALL_CEILING = 10
UNCOUNTED = {"state-machine"}
"""Suites that coverage is not taken of: it would cost a third of their minutes, and the others reach the same."""

GATES = (
    # files (None = all), percent of lines and branches
    (None, 95),
    (
        "kafka_remote_client/records/*,kafka_remote_client/fetch/plan.py,kafka_remote_client/fetch/partition_state.py,"
        "kafka_remote_client/fetch/policy.py,kafka_remote_client/fetch/breaker.py,kafka_remote_client/fetch/preference.py,"
        "kafka_remote_client/remote_log/metadata_cache.py,"
        "kafka_remote_client/spark/planning.py,kafka_remote_client/spark/filters.py,kafka_remote_client/spark/job_plan.py",
        100,
    ),
)


class Report:
    """Minutes per step against its ceiling, and what went wrong."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, int, str]] = []
        self.failed = False

    def run(
        self, name: str, ceiling: int, commands: list[list[str]], environment: dict[str, str], *, fatal: bool = True
    ) -> str:
        """Runs commands one after the other until one fails or the ceiling is reached; returns the text of the last.

        ``fatal``: a failure fails the whole run.
        """
        print(f"\n== {name} (ceiling {ceiling} minutes)", flush=True)
        started = time.monotonic()
        text, complaint = "", ""
        for command in commands:
            left = ceiling * 60 - (time.monotonic() - started)
            text, status = _run(command, environment, left)
            if status is None:
                complaint = "past its ceiling"
            elif status:
                complaint = f"exit status {status}"
            if complaint:
                self.failed |= fatal
                break
        self.rows.append((name, (time.monotonic() - started) / 60, ceiling, complaint or "ok"))
        return text

    def print(self, passed: int) -> None:
        print("\nsuite            minutes  ceiling")
        for name, minutes, ceiling, outcome in self.rows:
            print(f"{name:<16} {minutes:7.1f} {ceiling:8d}  {outcome}")
        print(f"in all suites: {passed} passed{', with failures' if self.failed else ''}")


def _run(command: list[str], environment: dict[str, str], seconds: float) -> tuple[str, int | None]:
    """Runs a command with its output shown and kept; status None = killed after ``seconds`` with all that it started."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        late = []

        def kill(*_: object) -> None:
            late.append(True)
            os.killpg(process.pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, kill)
        signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return "".join(lines), None if late else status


def _passed(text: str) -> int:
    found = re.findall(r"(\d+) passed", text)
    return int(found[-1]) if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], default=[])
    arguments = parser.parse_args()
    chosen = arguments.suites or list(SUITES)

    subprocess.run([sys.executable, str(ROOT / ".ci" / "parts.py")], check=True, stdin=subprocess.DEVNULL)
    report = Report()
    environment = dict(os.environ)
    report.run("install", INSTALL_CEILING, [["make", f"PYTHON={arguments.python}", "install"]], environment)
    if report.failed:
        report.print(0)
        return 1
    parts = []
    if {"state-machine", "broker", "parity", "groups", "stores", "spark"} & set(chosen):
        parts.append("store-servers")
        if shutil.which("mvn"):
            parts.append("artifacts")
    if shutil.which("mvn") and "spark" in chosen:
        parts.append("spark-parts")
    for part in parts:
        # A part that cannot be made skips its own tests, which fail where CI=true. It must not keep the others from running.
        report.run(part, INSTALL_CEILING, [["make", f"PYTHON={arguments.python}", part]], environment, fatal=False)

    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    run = Path(tempfile.mkdtemp(prefix="kafka-remote-tests-"))
    (run / "owner.pid").write_text(str(os.getpid()))
    environment["KAFKA_REMOTE_TEST_RUN"] = str(run)
    passed = 0
    try:
        for name in chosen:
            ceiling, workers, dist = SUITES[name]
            environment["COVERAGE_FILE"] = str(DATA / f".coverage.{name}")
            coverage = [] if name in UNCOUNTED else ["--cov", "--cov-report="]
            command = [str(BIN / "python"), "-X", "dev", "-m", "pytest", "--suite", name, *coverage]
            parallel = ["--numprocesses", str(workers), "--dist", *dist.split()]
            passed += _passed(report.run(name, ceiling, [command + parallel], environment))
    finally:
        stop = [str(BIN / "python"), "-m", "tests.support.kafka_broker", str(run / "broker")]
        subprocess.run(stop, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        shutil.rmtree(run, ignore_errors=True)

    if chosen == list(SUITES):
        _check_coverage(report, environment)
    report.print(passed)
    return int(report.failed)


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
