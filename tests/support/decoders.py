"""Both implementations of the record decoder, and everything visible of one read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import (
    CompletedFetch,
    aborted,
    batch,
    columns,
    completed_fetch,
    header_tally,
    input_stream,
    message_slice,
    read_batches,
    tally,
)
from tests.support.batches import metadata

__all__ = ["IMPLEMENTATIONS", "SEAM", "outcome"]


def _implementations() -> dict[str, Any]:
    found: dict[str, Any] = {
        "pure": SimpleNamespace(
            scan_batches=batch.scan_batches,
            ColumnBuilder=columns.ColumnBuilder,
            AbortedTransactionFilter=aborted.AbortedTransactionFilter,
            MessageSlice=message_slice.MessageSlice,
            slice_poll=message_slice.slice_poll,
            tally_headers=header_tally.tally_headers,
        )
    }
    try:
        from kafka_remote_client.records import _kernel
    except ImportError:
        return found
    return found | {"compiled": _kernel}


IMPLEMENTATIONS = _implementations()
"""By name; the last one is the fastest there is."""

SEAM = [
    (completed_fetch, "scan_batches"),
    (completed_fetch, "ColumnBuilder"),
    (completed_fetch, "AbortedTransactionFilter"),
    (input_stream, "scan_batches"),
    (tally, "ColumnBuilder"),
    (tally, "tally_headers"),
]
"""Every (module, name) to replace for a read with another implementation."""


def outcome(
    data: bytes,
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    aborted: list[AbortedTransaction] | None = None,
    fetch_offset: int = 0,
    **options: Any,
) -> list[object]:
    """Returns everything visible of reading ``data``: feeds until the end, then the bare reader."""
    seen: list[object] = []
    completed = CompletedFetch(metadata(0, 60), fetch_offset, level, aborted or [], **options)
    cap = options.get("max_decompressed_bytes", 1 << 20)
    at = 0
    while True:
        try:
            block, used = completed.feed(data[at:])
        except DirectFetchError as error:
            seen.append((type(error), str(error)))
            break
        seen += [*block.rows(), block.next_offset, block.last_leader_epoch, used, completed.needed]
        seen += [[m.offset(), m.timestamp(), m.key(), m.value(), m.headers(), m.leader_epoch()] for m in block.messages("t", 0)]
        at += used
        if not used:
            break
    try:
        block = read_batches(data, isolation_level=level, aborted_transactions=aborted or [], max_decompressed_bytes=cap)
        seen += [*block.rows(), block.next_offset]
        table = block.to_arrow("t", 0)
        table.validate(full=True)
        seen.append(
            [
                column.cast("int64").to_pylist() if name == "timestamp" else column.to_pylist()
                for name, column in zip(table.schema.names, table.columns, strict=True)
            ]
        )
    except DirectFetchError as error:
        seen.append((type(error), str(error)))
    return seen
