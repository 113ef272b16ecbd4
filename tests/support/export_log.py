"""The operations of an export on Spark: driver and tasks append to one file, in the order in which operations happen.

::

    {"operation": "write", "path": …, "task": 12, "split": 3, "attempt": 0, "executor": 4711, "worker": 4720}

``task`` and ``attempt`` are Spark's numbers, ``split`` is the number of the task in its stage; of the driver they are null.
``executor`` and ``worker`` are processes: Java's, and Python's. A fault that ends a process adds a line with the operation
"killed" before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["Entry", "entries", "is_commit", "is_data", "is_record", "split_of"]

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


def split_of(entry: Entry) -> str:
    """The id of the split of a record."""
    return Path(entry["path"]).name.removesuffix(".json")
