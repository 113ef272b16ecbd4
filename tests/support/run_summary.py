"""The figures of a pytest run, as lines at its end: ``make test`` prints them, and tests supply them.

A test that counts something gives it with pytest's ``record_property``: ``cells`` that inject a fault, ``faults`` (those that
fired in a cell), ``controls`` that inject none, ``failed_calls`` of torture, ``caught`` bugs, ``cuts``. Lines of
:func:`tests.support.ledger.ledger` are passed on as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from tests.faults.registry import STORE_FAULTS

__all__ = ["RecordProperty", "ReportOfTest", "summary"]

RecordProperty: TypeAlias = Callable[[str, object], None]
"""pytest's fixture ``record_property``."""

_LEDGER_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [\w-]+ commit=.*$", re.MULTILINE)


class ReportOfTest(Protocol):
    """The used part of pytest's report of a test's call."""

    passed: bool
    user_properties: list[tuple[str, Any]]
    capstdout: str


def summary(reports: Iterable[ReportOfTest]) -> list[str]:
    """Lines about all tests that counted something; of one that failed its count is a violation."""
    total: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    numbers: set[str] = set()
    lines: list[str] = []
    for report in reports:
        for name, value in report.user_properties:
            if name == "faults":
                numbers |= set(value) if report.passed else set()
                total["fired"] += bool(value) and report.passed
            elif isinstance(value, int):
                total[name] += value
                failed[name] += 0 if report.passed else value
        lines += _LEDGER_LINE.findall(report.capstdout)
    found = []
    if total["cells"]:
        kinds = f"{sum(number in numbers for number in STORE_FAULTS)}/{len(STORE_FAULTS)}"
        counted = f"cells={total['cells']} fired={total['fired']} numbers={kinds} controls={total['controls']}"
        found.append(f"faults: {counted} violations={failed['cells'] + failed['controls']}")
    for name, what in (("failed_calls", "torture"), ("caught", "planted bugs"), ("cuts", "cuts of a segment")):
        if total[name]:
            found.append(f"{what}: {name}={total[name] - failed[name]} violations={failed[name]}")
    return found + lines
