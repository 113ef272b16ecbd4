"""Runs suites again and again beside processes that compute: ``make under-load SUITES="consumer faults" RUNS=20 LOAD=4``.

A test that passes on an idle machine and fails on a busy one is a defect. The suites run with the workers and the order of
``make test-all``, without coverage, and in rotation, so that a campaign that ends after ``MINUTES=60`` has run each of them.
Each run adds a line to the ledger: the load average at its end, and how many tests passed and failed. The names of failed tests
are printed. The exit status is 1 if any test failed or any run exceeded its time limit.

``SUITES=all`` is the whole of ``make test-all``.

Each suite, and all of them, may take three times as long as in CI: a busy machine is no defect of a test.

``LOAD_COMMAND="make simulate SECONDS=200"``: each process runs this command again and again, so that the load is a campaign
with a result of its own.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.suites import SUITES, passed_in
from tests.support.ledger import PRODUCT, ROOT, ledger
from tests.support.processes import end_group, process_group

__all__ = ["ALL", "busy", "main", "outcome_of", "rotate", "run"]

ALL = "all"
"""What stands for ``make test-all`` in place of a suite."""
_LOAD_COMMAND = "while :; do :; done"
"""What a process of the load does: a command of the shell."""
_SLOWER_BY = 3
"""How many times its ceiling a suite may take. ``unit`` reached its ceiling half-way, under a load average of 15."""
_CI_LIMIT = 90
"""Minutes after which CI ends ``make test-all``. It gives itself fewer and has reported by then."""
_SHOWN = 20_000
"""How many characters of a failed run are printed."""
_REPORTS = re.compile(r"^=+ (?:ERRORS|FAILURES) =+$", re.MULTILINE)
_DIED = re.compile(r"^(?:Fatal Python error: |Timeout \()", re.MULTILINE)
"""How Python's fault handler begins the stacks of a worker that ends at once."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@contextmanager
def busy(processes: int, command: str = _LOAD_COMMAND) -> Iterator[None]:
    """Keeps that many processes computing, each of which runs ``command`` again whenever it has ended."""
    again = ["sh", "-c", f"while :; do {command}; done"]
    started = [subprocess.Popen(again, stdin=subprocess.DEVNULL, start_new_session=True) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            end_group(process.pid)
            process.wait()


def outcome_of(text: str, status: int) -> tuple[int, list[str]]:
    """The number of tests that passed and the names of those that failed, by pytest's output and exit status."""
    failed = list(dict.fromkeys(_FAILED.findall(text)))  # make test-all names each of them twice
    if status and not failed:
        failed = [f"exit status {status}"]
    return passed_in(text), failed


def _first_failures(text: str) -> str:
    """Returns the stacks of a worker that died, and the output of the first failed tests. Later ones are often consequences."""
    starts = [start.start() for start in (_DIED.search(text), _REPORTS.search(text)) if start]
    return "".join(text[start:][:_SHOWN] for start in starts) or text[-_SHOWN:]


def command_of(name: str) -> tuple[list[str], float]:
    """What runs a suite, or all of them, and after how many seconds it has failed."""
    if name == ALL:
        return [sys.executable, ".ci/suites.py", "--slower-by", str(_SLOWER_BY)], 60 * _CI_LIMIT * _SLOWER_BY
    suite = SUITES[name]
    command = [sys.executable, "-X", "dev", "-m", "pytest", "-q", "--suite", name, *suite.parallel]
    return command, 60 * suite.ceiling * _SLOWER_BY


def run(command: Sequence[str], ceiling: float) -> tuple[int, list[str]]:
    """Runs a command of pytest: what passed and what failed. A run that is past ``ceiling`` seconds has failed."""
    # The minutes of suites in the ledger are those of an idle machine.
    environment = {name: value for name, value in os.environ.items() if name != "KAFKA_REMOTE_LEDGER_FILE"}
    options = {"cwd": ROOT, "env": environment, "stdout": subprocess.PIPE, "text": True, "errors": "replace"}
    try:
        with process_group(command, **options) as process:
            text, _ = process.communicate(timeout=ceiling)
    except subprocess.TimeoutExpired:
        return 0, [f"past {ceiling:.0f} s"]
    passed, failed = outcome_of(text, process.returncode)
    if failed:
        print(_first_failures(text), flush=True)
    return passed, failed


def rotate(suites: Sequence[str], runs: int, load: int, until: float) -> list[str]:
    """One run of each suite, then another of each; what failed. None begins after ``until`` on the monotonic clock."""
    all_failed: list[str] = []
    for name in [*suites] * runs:
        started = time.monotonic()
        if started >= until:
            break
        passed, failed = run(*command_of(name))
        facts = {
            "suite": name,
            "load": load,
            "load_average": round(os.getloadavg()[0]),
            "passed": passed,
            "failed": len(failed),
        }
        ledger("under-load", describes=PRODUCT, seconds=round(time.monotonic() - started), **facts)
        all_failed += failed
    return all_failed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", choices=[*SUITES, ALL])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", type=int, default=4, help="processes that compute meanwhile")
    parser.add_argument("--load-command", default=_LOAD_COMMAND, help="what each of them runs, again and again")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after so many minutes no further run begins")
    chosen = parser.parse_args(arguments)
    with busy(chosen.load, chosen.load_command):
        failed = rotate(chosen.suites, chosen.runs, chosen.load, time.monotonic() + 60 * chosen.minutes)
    for name in failed:
        print("failed:", name)
    return int(bool(failed))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # by which the load and the tests end first
    sys.exit(main())
