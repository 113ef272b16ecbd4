"""Selects the compiled kernel or its pure Python twins. Other modules import these names only from here.

The kernel is used if it was built. ``KAFKA_REMOTE_CLIENT_PURE=1`` forces Python; a missing kernel is logged once.
"""

from __future__ import annotations

import logging
import os

from kafka_remote_client.records.aborted import AbortedTransactionFilter
from kafka_remote_client.records.batch import BatchList, scan_batches
from kafka_remote_client.records.columns import ColumnBuilder, Columns, Row
from kafka_remote_client.records.header_tally import tally_headers
from kafka_remote_client.records.message_slice import MessageSlice, slice_poll

__all__ = [
    "KERNEL",
    "AbortedTransactionFilter",
    "BatchList",
    "ColumnBuilder",
    "Columns",
    "MessageSlice",
    "Row",
    "scan_batches",
    "slice_poll",
    "tally_headers",
]

KERNEL = "pure"
"""``compiled`` or ``pure``: which of the two this process uses."""

if os.environ.get("KAFKA_REMOTE_CLIENT_PURE", "") not in {"1", "true", "yes"}:
    try:
        from kafka_remote_client.records import _kernel
    except ImportError:
        logging.getLogger(__name__).info(
            "the compiled record kernel is not installed; records are decoded in pure Python, with the same results at lower "
            "speed"
        )
    else:
        AbortedTransactionFilter = _kernel.AbortedTransactionFilter  # type: ignore[misc,assignment] # the twin, as all below
        BatchList = _kernel.BatchList  # type: ignore[misc,assignment] # the twin: same methods, other memory
        ColumnBuilder = _kernel.ColumnBuilder  # type: ignore[misc,assignment] # as above
        Columns = _kernel.Columns  # type: ignore[misc,assignment] # as above
        MessageSlice = _kernel.MessageSlice  # type: ignore[misc,assignment] # as above
        scan_batches = _kernel.scan_batches  # type: ignore[assignment] # as above
        slice_poll = _kernel.slice_poll
        tally_headers = _kernel.tally_headers  # type: ignore[assignment] # as above
        KERNEL = "compiled"
