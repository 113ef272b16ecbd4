"""One measurement of tables.py, in a process of its own: writes a topic of a tier as Parquet.

The task comes on standard input as JSON: ``way``, ``store`` (a file URL), ``topic``, ``target`` (a new folder), ``threads``,
``latency_ms``, and ``values``, which is empty or says how values become typed columns: ``json`` has names and types, ``avro``
the schema of values behind the id of the ``registry``, a URL. Seconds, CPU seconds and rows go to standard output.

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
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
import pyruhvro
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client import scan
from kafka_remote_client.records import read_batches

__all__ = ["bare", "export", "typed_arguments"]

_GET_BYTES = 8 << 20
_ROW_GROUP_BYTES = 128 << 20
_ID_BYTES = 5
_LONGEST = (1 << 31) - 1
Task = dict[str, Any]


def typed_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``Scan.to_parquet`` for ``values`` of a task."""
    if not values:
        return {}
    if "avro" in values:
        return {"value_format": "avro", "registry": values["registry"]}
    return {"value_format": "json", "value_schema": _arrow_schema(values["json"])}


def _arrow_schema(fields: dict[str, str]) -> pa.Schema:
    """The schema of JSON values from names and pyarrow's names of types."""
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields.items()])


def export(task: Task) -> int:
    """The product. Returns the number of rows."""
    table = scan(task["store"], task["topic"], threads=task["threads"])
    return table.to_parquet(task["target"], compression="zstd", **typed_arguments(task["values"])).rows


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
    if task["values"]:
        table = table.set_column(table.column_names.index("value"), "value", _typed(table["value"], task["values"]))
    rows = max(1, len(table) * _ROW_GROUP_BYTES // max(1, table.nbytes))
    pq.write_table(table, target, compression="zstd", row_group_size=rows)
    return len(table)


def _typed(column: pa.ChunkedArray, values: dict[str, Any]) -> pa.Array:
    if "avro" in values:
        encoded = pc.binary_slice(column, _ID_BYTES, _LONGEST).combine_chunks()
        return pyruhvro.deserialize_array(encoded.to_pylist(), json.dumps(values["avro"])).to_struct_array()
    lines = pa.BufferReader(b"\n".join(column.to_pylist()))
    parsed = pj.read_json(lines, parse_options=pj.ParseOptions(explicit_schema=_arrow_schema(values["json"])))
    return parsed.to_struct_array().combine_chunks()


def _delayed(method: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return method(*arguments, **named)

    return call


def main() -> None:
    task: Task = json.load(sys.stdin)
    seconds = task["latency_ms"] / 1000
    names = ("get", "get_range", "open_range", "size")
    patches = [mock.patch.object(DirectoryStore, name, _delayed(getattr(DirectoryStore, name), seconds)) for name in names]
    for patch in patches:
        patch.start()
    began, worked = time.perf_counter(), time.process_time()
    rows = {"export": export, "bare": bare}[task["way"]](task)
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked, "rows": rows}))


if __name__ == "__main__":
    main()
