"""Runs the fault matrix and says in one line what came of it: ``make faults``.

Exit status 0 only if every cell ran and held. Each that held writes itself into a ledger; those that did not are violations.
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
from tests.support.ledger import ledger

__all__ = ["counted", "main"]

ROOT = Path(__file__).resolve().parents[2]
MATRIX = "tests/faults/test_matrix.py"
_ASKED = "import tests.faults.test_matrix as m; print(len(m.CELLS))"


def counted(directory: Path, cells: int) -> dict[str, object]:
    """What the cells of ``directory`` say, of ``cells`` that there are: the facts of the line for the ledger."""
    held: list[dict[str, object]] = []
    for file in sorted(directory.glob("*.jsonl")):
        held += [json.loads(line) for line in file.read_text().splitlines()]
    numbers: Counter[str] = Counter()
    for cell in held:
        faults = cell["faults"]
        assert isinstance(faults, list)
        numbers.update(faults)
    return {
        "cells": f"{len(held)}/{cells}",
        "fired": sum(bool(cell["faults"]) for cell in held),
        "numbers": f"{sum(f'F{n:02d}' in numbers for n in range(1, 50))}/49",
        "violations": cells - len(held),
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
        ledger("faults", **counted(Path(directory), int(there_are.stdout)), seconds=round(clock.monotonic() - started))
    return status


if __name__ == "__main__":
    sys.exit(main())
