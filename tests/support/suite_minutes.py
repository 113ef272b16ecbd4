"""Writes the steps of ``make test-all LEDGER=1`` to the ledger: ``python -m tests.support.suite_minutes JSON PASSED FAILED``.

JSON is an object: minutes and CPU minutes by the name of a step (``.ci/suites.py``). The numbers of tests that
passed, and of tests or steps that failed, follow.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from tests.support.ledger import PRODUCT, ledger

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """The command."""
    steps: dict[str, list[float]] = json.loads(arguments[0])
    passed, failed = map(int, arguments[1:])
    minutes = {name: round(spent, 1) for name, (spent, _) in steps.items()}
    cpu_minutes = {name: round(spent, 1) for name, (_, spent) in steps.items()}
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[2]:.0f}"
    counts = {"minutes": minutes, "cpu_minutes": cpu_minutes, "machine": machine, "passed": passed, "failed": failed}
    ledger("suites", describes=PRODUCT, **counts)


if __name__ == "__main__":
    main(sys.argv[1:])
