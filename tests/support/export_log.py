"""The operations of an export on Spark: driver and tasks append to one file, in the order in which operations happen.

::

    {"operation": "write", "path": …, "task": 12, "split": 3, "attempt": 0, "executor": 4711, "worker": 4720}

``task`` and ``attempt`` are Spark's numbers, ``split`` is the number of the task in its stage; of the driver they are null.
``executor`` and ``worker`` are processes: Java's, and Python's. A fault that ends a process adds a line with the operation
"killed" before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Entry", "entries", "is_commit", "is_data", "is_record", "operations_of", "split_of"]

Entry = dict[str, Any]


def entries(log: Path) -> list[Entry]:
    """The operations so far, in the order in which they happened."""
    text = log.read_text() if log.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def is_commit(entry: Entry) -> bool:
    """Whether it writes the commit plan."""
    return str(entry["path"]).endswith("/commit.json")


def is_record(entry: Entry) -> bool:
    """Whether it is the last operation on the record of a split."""
    path = str(entry["path"])
    return "/splits/" in path and path.endswith(".json") and entry["operation"] in {"move", "close"}


def is_data(entry: Entry, operation: str) -> bool:
    """Whether it is an operation with this name on a data file."""
    return entry["operation"] == operation and any(f"/{folder}/" in entry["path"] for folder in ("files", "data"))


def operations_of(victim: str, found: Sequence[Entry], *, commits: bool) -> list[Entry]:
    """The operations before which a fault can kill this process: "driver", "executor" or "worker".

    They are those before the commit plan, or those from the commit plan on (``commits``). Executors and workers die at
    operations of tasks. The driver dies at any operation before the plan, and at its own after it: a second attempt that
    Spark started may still write at that time.
    """
    planned = next((number for number, entry in enumerate(found) if is_commit(entry)), len(found))
    counted = found[planned:] if commits else found[:planned]
    if victim == "driver" and not commits:
        return list(counted)
    return [entry for entry in counted if (entry["task"] is None) == (victim == "driver")]


def split_of(entry: Entry) -> str:
    """The id of the split of a record."""
    return Path(entry["path"]).name.removesuffix(".json")
