"""The ledger of long runs: one line a run, ``what key=value …``, in the order given. The same line is printed and kept.

::

    2026-11-21T02:30:00Z faults commit=0123abc cells=612 fired=612 records=190400 violations=0 seconds=412

Written to the file that KAFKA_REMOTE_LEDGER_FILE names, where it is set. Figures in the documents quote such lines.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

__all__ = ["ledger"]

_ROOT = Path(__file__).resolve().parents[2]


def ledger(what: str, **facts: object) -> str:
    """Prints a line, appends it to the ledger, and returns it."""
    described = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    commit = described.stdout.strip() or "unknown"
    parts = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), what, f"commit={commit}"]
    parts += [f"{name}={str(value).replace(' ', '_')}" for name, value in facts.items()]
    line = " ".join(parts)
    print(line, flush=True)
    if kept := os.environ.get("KAFKA_REMOTE_LEDGER_FILE"):
        with Path(kept).open("a") as file:
            file.write(line + "\n")
    return line
