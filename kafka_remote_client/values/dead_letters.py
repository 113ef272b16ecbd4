"""A file of records that did not parse: one line of JSON each, appended and on disk before the caller gets the table.

Bytes are in base64. ``errors`` has the reason for the key, the value or both. ``timestamp`` is in ISO 8601; one that is no date
of the years 1 to 9999, as of a producer that gives microseconds, is a number of milliseconds.
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

_PLACE = ("topic", "partition", "offset")
_BYTES = ("key", "value")
_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def append_dead_letters(path: Path, records: pa.Table, errors: Mapping[int, Mapping[str, str]]) -> None:
    """Appends the rows of ``records`` that have errors, by column. Raises OSError if the file cannot be written."""
    rows = sorted(errors)
    found = records.take(rows)
    times = found["timestamp"] if "timestamp" in found.column_names else [None] * len(rows)
    plain = found.select([name for name in (*_PLACE, *_BYTES, "headers") if name in found.column_names]).to_pylist()
    lines = [
        {**_plain(record, time), "errors": dict(errors[row])} for row, record, time in zip(rows, plain, times, strict=True)
    ]
    with path.open("a", encoding="ascii") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def _plain(record: Mapping[str, Any], time: pa.TimestampScalar | None) -> dict[str, Any]:
    headers = record.get("headers") or ()
    return {
        **{name: record[name] for name in _PLACE if name in record},
        **({} if time is None else {"timestamp": _time(time)}),
        **{name: _text(record[name]) for name in _BYTES if name in record},
        "headers": [[header["key"], _text(header["value"])] for header in headers],
    }


def _time(time: pa.TimestampScalar) -> str | int | None:
    try:
        found = time.as_py()
    except OverflowError:
        return int(time.value) * 1_000 // _IN_A_SECOND[time.type.unit]
    return None if found is None else str(found.isoformat())


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
