"""Runs the fault matrix and prints the result in one line: ``make faults``.

Exit status 0 only if every cell ran and passed. A cell that passes writes a line; the others count as violations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kafka_remote_client.clock import SystemClock
from tests.faults.registry import STORE_FAULTS
from tests.support.ledger import ledger

__all__ = ["counted", "main"]

ROOT = Path(__file__).resolve().parents[2]
MATRIX = "tests/faults/test_matrix.py"
_ASKED = "import tests.faults.test_matrix as m; print(sum(bool(c.scenario.faults) for c in m.CELLS), len(m.CELLS))"


def counted(directory: Path, cells: int, controls: int) -> dict[str, object]:
    """Returns the ledger's facts from the cells in ``directory``, given the number of cells with a fault and of controls.

    A cell writes a line only if its fault fired and all checks passed.
    """
    held: list[dict[str, object]] = []
    for file in sorted(directory.glob("*.jsonl")):
        held += [json.loads(line) for line in file.read_text().splitlines()]
    numbers: Counter[str] = Counter()
    for cell in held:
        faults = cell["faults"]
        assert isinstance(faults, list)
        numbers.update(faults)
    fired = sum(bool(cell["faults"]) for cell in held)
    return {
        "cells": f"{fired}/{cells}",
        "numbers": f"{sum(number in numbers for number in STORE_FAULTS)}/{len(STORE_FAULTS)}",
        "controls": f"{len(held) - fired}/{controls}",
        "violations": cells + controls - len(held),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--cells", choices=("all", "pairs"), default="all")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("rest", nargs="*", help="further arguments of pytest")
    asked = parser.parse_args(arguments)
    clock = SystemClock()
    started = clock.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "KAFKA_REMOTE_CELLS": asked.cells, "KAFKA_REMOTE_LEDGER": directory}
        python = [sys.executable, "-X", "dev"]
        there_are = subprocess.run(
            [*python, "-c", _ASKED], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
        command = [*python, "-m", "pytest", MATRIX, "-q", "--numprocesses", str(asked.workers), *asked.rest]
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        cells, whole = map(int, there_are.stdout.split())
        ledger("faults", **counted(Path(directory), cells, whole - cells), seconds=round(clock.monotonic() - started))
    return status


if __name__ == "__main__":
    sys.exit(main())
