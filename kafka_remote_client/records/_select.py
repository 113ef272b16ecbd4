"""The seam: everything that exists both compiled and in pure Python is imported from here and nowhere else."""

from __future__ import annotations

from kafka_remote_client.records.batch import BatchList, scan_batches
from kafka_remote_client.records.columns import ColumnBuilder, Columns, Row

__all__ = ["BatchList", "ColumnBuilder", "Columns", "Row", "scan_batches"]
