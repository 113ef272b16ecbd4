"""Measures which lines and branches of the compiled kernel its tests reach: ``make kernel-coverage``. Fails below 100 %.

The kernel is built without optimisation and with gcov's counters, and the tests of ``records/`` run with that build. Comments
that Cython leaves in the C file map gcov's figures back to the sources.

* A line counts if Cython makes statements of it. It is reached if one of its statements ran.
* A branch counts if it comes from the source: each condition (each part of ``and``, ``or`` and ``a <= b <= c``) both ways,
  a loop entered and left, each arm of a ``switch``. Branches that Cython adds do not count: failed calls, last references,
  and how arguments were passed.
* A line with the comment ``no test:`` and a reason is left out.
* The C headers beside the kernel count as they are. Code that the preprocessor leaves out on this machine is not measured.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import attrs

from tests.support.kernel_build import ROOT, SOURCES, build
from tests.support.ledger import ledger

TESTS = ROOT / "tests" / "records"
LONG = {"test_any_bytes.py", "test_differential.py", "test_golden.py", "test_parity.py"}
"""Tests by the thousand, which reach nothing that the others do not."""

_SOURCE = re.compile(r'^\s*/\* "kafka_remote_client/records/([\w.]+)":(\d+)$')
_SECTION = "/* #### Code section: "
_CONDITION = re.compile(
    r"^\s*(\} else )?(if \((unlikely\()?!?__pyx_[tv]_\w+\)?\) (\{|break;)|for \(__pyx_t_\d+ = .*\{"
    r"|switch \(__pyx_[vt]_\w+\) \{|if \(\S+ >=? \S+\) break;)"
)


@attrs.define
class Count:
    """The counts of one source line: how often it ran, and how often each branch was taken."""

    hits: int = 0
    branches: list[int] = attrs.field(factory=list)


Lines = dict[tuple[str, int], Count]


def measure(directory: Path) -> Lines:
    """Runs gcov on a kernel that was built and run in ``directory``. Returns its counts by (file, line)."""
    command = ["gcov", "--json-format", "--branch-probabilities", "--stdout", "_kernel.o"]
    files = json.loads(subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout)["files"]
    text = (directory / "_kernel.c").read_text().split("\n")
    places, excused = origins(text), excuses()
    found: Lines = defaultdict(Count)
    for file in files:
        path = directory / file["file"]
        for line in file["lines"]:
            number = line["line_number"]
            if path.name == "_kernel.c":
                place = places.get(number)
                counts = _CONDITION.match(text[number - 1]) is not None
            else:
                place = (path.name, number) if path.parent == SOURCES else None
                counts = True
            if place is not None and place not in excused:
                found[place].hits = max(found[place].hits, line["count"])
                if counts:
                    found[place].branches += [branch["count"] for branch in line["branches"]]
    return found


def origins(text: list[str]) -> dict[int, tuple[str, int]]:
    """Returns the place in our sources for each line of the C file that comes from them, numbered from 1."""
    places, current, inside = {}, None, False
    for number, line in enumerate(text, 1):
        if line.startswith(_SECTION):
            inside, current = line.startswith(_SECTION + "module_code "), None
        elif line.lstrip().startswith('/* "'):
            named = _SOURCE.match(line)
            current = (named[1], int(named[2])) if named else None
        elif inside and current is not None:
            places[number] = current
    return places


def excuses() -> set[tuple[str, int]]:
    """Lines of our sources that no test can reach."""
    return {
        (path.name, number)
        for path in SOURCES.glob("_*.p[yx][xi]")
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if "# no test: " in line
    }


def figures(lines: Lines) -> dict[str, dict[str, int]]:
    """Returns ``lines`` and ``branches`` by file, and how many of them were not reached: ``missed``, ``untaken``."""
    found = {}
    for name in sorted({name for name, _ in lines}):
        counts = [count for (file, _), count in lines.items() if file == name]
        branches = [taken for count in counts for taken in count.branches]
        missed, untaken = sum(not count.hits for count in counts), sum(not taken for taken in branches)
        found[name] = {"lines": len(counts), "missed": missed, "branches": len(branches), "untaken": untaken}
    return found


def report(lines: Lines) -> bool:
    """Prints a table and the gaps, and writes the ledger's lines. Returns whether there is no gap."""
    print(f"{'file':26}{'lines':>8}{'missed':>8}{'branches':>10}{'missed':>8}")
    complete = True
    for name, counted in figures(lines).items():
        print(f"{name:26}{counted['lines']:8}{counted['missed']:8}{counted['branches']:10}{counted['untaken']:8}")
        complete &= not counted["missed"] and not counted["untaken"]
    for name, counted in figures(lines).items():
        ledger("kernel-coverage", describes=("kafka_remote_client/records",), file=name, **counted)
    for (name, number), count in sorted(lines.items()):
        if not count.hits:
            print(f"{name}:{number}: never ran")
        elif not all(count.branches):
            print(f"{name}:{number}: branches taken {count.branches}")
    return complete


def run() -> bool:
    """Builds the kernel, runs the tests and reports. Returns whether the tests pass and nothing is missing."""
    lines, passed = reached(*(str(path) for path in TESTS.glob("test_*.py") if path.name not in LONG))
    return report(lines) and passed


def reached(*tests: str) -> tuple[Lines, bool]:
    """Returns the coverage of a kernel built for this purpose, and whether the tests pass."""
    kernel = build(["-O0", "--coverage"], ROOT / ".cache" / "kernel-coverage")
    for old in kernel.parent.glob("*.gcda"):
        old.unlink()
    # in file order: it decides which memory is kept for the next block
    options = ["-X", "dev", "-m", "pytest", "-p", "tests.support.kernel_build", "-p", "no:randomly", "-q", "--no-header"]
    outer = ("COV_", "COVERAGE_", "PYTEST_")  # remove variables of an outer pytest run
    environment = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
    done = subprocess.run(
        [sys.executable, *options, *sorted(tests)], cwd=ROOT, env=environment | {"KERNEL_FILE": str(kernel)}, check=False
    )
    return measure(kernel.parent), not done.returncode


if __name__ == "__main__":
    sys.exit(not run())
