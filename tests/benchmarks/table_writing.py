"""One measurement of tables.py, in a process of its own: writes a topic of a tier as Parquet.

The task comes on standard input as JSON: ``way``, ``store`` (a file URL), ``topic``, ``target`` (a new folder), ``threads``,
``latency_ms``, and for typed columns ``schema`` (names and types). Seconds, CPU seconds and rows go to standard output.

========== =====================================================================================================================
way        the loop
========== =====================================================================================================================
``export`` ``Scan.to_parquet``
``bare``   GETs of 8 MiB, :func:`read_batches`, an Arrow table, pyarrow's writer: no listing, no transactions, no staging
========== =====================================================================================================================

Both wait ``latency_ms`` before each request to the store.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from kafka_remote_fetchers.directory_store import DirectoryStore
from kafka_remote_fetchers.local import LocalFetcher

from kafka_remote_client import scan
from kafka_remote_client.records import read_batches

__all__ = ["arrow_schema", "bare", "export"]

_GET_BYTES = 8 << 20
_ROW_GROUP_BYTES = 128 << 20
Task = dict[str, Any]


def arrow_schema(fields: dict[str, str]) -> pa.Schema:
    """The schema of JSON values from names and pyarrow's names of types."""
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields.items()])


def export(task: Task) -> int:
    """The product. Returns the number of rows."""
    more: dict[str, Any] = {}
    if task.get("schema"):
        more = {"value_format": "json", "value_schema": arrow_schema(task["schema"])}
    table = scan(task["store"], task["topic"], threads=task["threads"])
    return table.to_parquet(task["target"], compression="zstd", **more).rows


def bare(task: Task) -> int:
    """The same threads, and nothing but the necessary work. Returns the number of rows."""
    wanted = sorted(Path(task["store"].removeprefix("file://")).rglob(f"{task['topic']}-0-*/*.log"))
    target = Path(task["target"])
    target.mkdir(parents=True)
    with ThreadPoolExecutor(task["threads"]) as threads:
        return sum(
            threads.map(lambda numbered: _write(task, numbered[1], target / f"{numbered[0]}.parquet"), enumerate(wanted))
        )


def _write(task: Task, file: Path, target: Path) -> int:
    content = bytearray()
    with file.open("rb") as opened:
        while piece := opened.read(_GET_BYTES):
            time.sleep(task["latency_ms"] / 1000)
            content += piece
    table = pa.Table.from_batches([read_batches(bytes(content)).slice_to_arrow(task["topic"], 0)])
    if task.get("schema"):
        lines = pa.BufferReader(b"\n".join(table["value"].to_pylist()))
        parsed = pj.read_json(lines, parse_options=pj.ParseOptions(explicit_schema=arrow_schema(task["schema"])))
        table = table.drop_columns(["value"]).append_column(
            "value", pa.chunked_array([parsed.to_struct_array().combine_chunks()])
        )
    rows = max(1, len(table) * _ROW_GROUP_BYTES // max(1, table.nbytes))
    pq.write_table(table, target, compression="zstd", row_group_size=rows)
    return len(table)


def _delayed(method: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return method(*arguments, **named)

    return call


def main() -> None:
    task: Task = json.load(sys.stdin)
    seconds = task["latency_ms"] / 1000
    names = [(LocalFetcher, "fetch_log_segment"), *((DirectoryStore, name) for name in ("get", "get_range", "size"))]
    patches = [mock.patch.object(kind, name, _delayed(getattr(kind, name), seconds)) for kind, name in names]
    for patch in patches:
        patch.start()
    began, worked = time.perf_counter(), time.process_time()
    rows = {"export": export, "bare": bare}[task["way"]](task)
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked, "rows": rows}))


if __name__ == "__main__":
    main()
