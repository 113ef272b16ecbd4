"""The kinds of finding of each index."""

from __future__ import annotations

from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.verify.finding import FindingKind

__all__ = ["MISMATCH", "UNREADABLE"]

UNREADABLE = {
    ObjectKind.OFFSET_INDEX: FindingKind.OFFSET_INDEX_UNREADABLE,
    ObjectKind.TIME_INDEX: FindingKind.TIME_INDEX_UNREADABLE,
    ObjectKind.TRANSACTION_INDEX: FindingKind.TRANSACTION_INDEX_UNREADABLE,
    ObjectKind.LEADER_EPOCH: FindingKind.LEADER_EPOCHS_UNREADABLE,
    ObjectKind.PRODUCER_SNAPSHOT: FindingKind.PRODUCER_SNAPSHOT_UNREADABLE,
}
"""Its format is broken."""

MISMATCH = {
    ObjectKind.OFFSET_INDEX: FindingKind.OFFSET_INDEX_MISMATCH,
    ObjectKind.TIME_INDEX: FindingKind.TIME_INDEX_MISMATCH,
    ObjectKind.TRANSACTION_INDEX: FindingKind.TRANSACTION_INDEX_MISMATCH,
    ObjectKind.LEADER_EPOCH: FindingKind.LEADER_EPOCHS_MISMATCH,
    ObjectKind.PRODUCER_SNAPSHOT: FindingKind.PRODUCER_SNAPSHOT_MISMATCH,
}
"""It says other than the segment."""
