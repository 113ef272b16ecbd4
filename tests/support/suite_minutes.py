"""Writes the minutes of each step of ``make test-all LEDGER=1`` to the ledger.

``python -m tests.support.suite_minutes JSON MINUTES``. JSON is an object: minutes and CPU minutes by the name of a step
(``.ci/suites.py``). MINUTES is the duration of the run, which is less than their sum, because steps run beside others.
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
    wall_minutes = float(arguments[1])
    minutes = {name: round(spent, 1) for name, (spent, _) in steps.items()}
    cpu_minutes = {name: round(spent, 1) for name, (_, spent) in steps.items()}
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[2]:.0f}"
    spent_in = {"minutes": minutes, "cpu_minutes": cpu_minutes, "wall_minutes": wall_minutes}
    ledger("suites", describes=PRODUCT, **spent_in, machine=machine)


if __name__ == "__main__":
    main(sys.argv[1:])
