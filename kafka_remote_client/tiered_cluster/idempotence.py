"""Which batches of an idempotent producer a leader appends.

::

    the batch                                                   answer
    has the sequences of one of the producer's last 5 batches   a duplicate: the offset of that one
    has an older producer epoch                                 INVALID_PRODUCER_EPOCH
    begins a new epoch, but not with sequence 0                 OUT_OF_ORDER_SEQUENCE_NUMBER
    does not follow the producer's last batch                   OUT_OF_ORDER_SEQUENCE_NUMBER
    comes from a producer that the log does not know            appended, whatever its sequence

References: KIP-98; Kafka's ProducerAppendInfo (checkProducerEpoch, checkSequence), ProducerStateEntry.findDuplicateBatch.
"""

from __future__ import annotations

from kafka_remote_client.tiered_cluster.batches import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE, Batch
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.producers import RecentBatch

__all__ = ["duplicate_of", "rejection"]

_MAX_SEQUENCE = 2**31 - 1


def duplicate_of(log: PartitionLog, batch: Batch) -> RecentBatch | None:
    """The one of the producer's last five batches that has the same sequences."""
    if batch.producer_id == NO_PRODUCER or _in_sequence(log, batch):
        return None
    return next((one for one in log.producers.recent if one.has_sequences_of(batch)), None)


def rejection(log: PartitionLog, batch: Batch) -> ErrorCode:
    """Why the leader does not append the batch, which is no duplicate; NONE if it does."""
    known = log.producers.of(batch.producer_id)
    if batch.producer_id == NO_PRODUCER or known.epoch == NO_EPOCH or _in_sequence(log, batch):
        return ErrorCode.NONE
    if batch.producer_epoch < known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _in_sequence(log: PartitionLog, batch: Batch) -> bool:
    known = log.producers.of(batch.producer_id)
    if known.epoch == batch.producer_epoch and known.last_sequence != NO_SEQUENCE:
        return batch.base_sequence == (0 if known.last_sequence == _MAX_SEQUENCE else known.last_sequence + 1)
    return known.epoch <= batch.producer_epoch and batch.base_sequence == 0
