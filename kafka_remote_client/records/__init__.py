"""Bytes to records. Pure: no I/O, no clock, no threads."""

from kafka_remote_client.records._select import MessageSlice, slice_poll
from kafka_remote_client.records.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, BatchHeader, BatchRules
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.completed_fetch import CompletedFetch
from kafka_remote_client.records.input_stream import RemoteLogInputStream
from kafka_remote_client.records.reader import read_batches

__all__ = [
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "BatchHeader",
    "BatchRules",
    "CompletedFetch",
    "MessageSlice",
    "RecordBlock",
    "RemoteLogInputStream",
    "read_batches",
    "slice_poll",
]
