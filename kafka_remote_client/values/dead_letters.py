"""A file of records that did not parse: one line of JSON each, appended and on disk before the caller gets the table.

Bytes are in base64. ``errors`` has the reason for the key, the value or both.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["append_dead_letters"]

_PLACE = ("topic", "partition", "offset", "timestamp")


def append_dead_letters(path: Path, records: pa.Table, errors: Mapping[int, Mapping[str, str]]) -> None:
    """Appends the rows of ``records`` that have errors, by column. Raises OSError if the file cannot be written."""
    rows = sorted(errors)
    lines = [
        {**_plain(record), "errors": dict(errors[row])}
        for row, record in zip(rows, records.take(rows).to_pylist(), strict=True)
    ]
    with path.open("a", encoding="ascii") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    time = record.get("timestamp")
    headers = record.get("headers") or ()
    return {
        **{name: record[name] for name in _PLACE if name in record},
        **({} if time is None else {"timestamp": time.isoformat()}),
        **{name: _text(record[name]) for name in ("key", "value") if name in record},
        "headers": [[header["key"], _text(header["value"])] for header in headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
