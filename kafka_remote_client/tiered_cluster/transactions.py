"""What a transaction coordinator knows: producer ids, open transactions, and which partitions they wrote to. A value.

A transaction ends at once: the answer to EndTxn says what the coordinator writes markers to. A producer that begins again under
the same transactional id gets a higher epoch, which fences the one before. Its open transaction is aborted first, in an epoch
of its own.

References: KIP-98; Kafka's TransactionCoordinator, TransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode

__all__ = ["CommittedOffset", "Transaction", "Transactions"]

_MAX_EPOCH = 2**15 - 2


@attrs.frozen
class CommittedOffset:
    """What a group commits for a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@attrs.frozen
class Transaction:
    """The state of a transactional id. ``offsets``: what its transaction commits, by group and partition.

    ``open``: something was added since the last one ended. ``committed``: how the last one ended, ``None`` before.
    """

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition] = frozenset()
    offsets: Mapping[tuple[str, TopicPartition], CommittedOffset] = MappingProxyType({})
    open: bool = False
    committed: bool | None = None


@attrs.frozen
class Transactions:
    """``known``: by transactional id."""

    next_producer_id: int = 1
    known: Mapping[str, Transaction] = MappingProxyType({})

    def begun(self, transactional_id: str | None) -> tuple[Transactions, Transaction, Transaction | None]:
        """The state after InitProducerId, the producer's id and epoch, and the transaction to abort before."""
        known = None if transactional_id is None else self.known.get(transactional_id)
        aborted = None
        if known is not None and known.open:
            aborted = attrs.evolve(known, epoch=known.epoch + 1)
            known = attrs.evolve(known, epoch=known.epoch + 1)
        if known is None or known.epoch >= _MAX_EPOCH:
            new = Transaction(self.next_producer_id, 0)
            state = attrs.evolve(self, next_producer_id=self.next_producer_id + 1)
        else:
            new, state = Transaction(known.producer_id, known.epoch + 1), self
        return state if transactional_id is None else state._with(transactional_id, new), new, aborted

    def error(self, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
        """Why a request of that producer is refused; NONE if it is not."""
        known = self.known.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if known.epoch == epoch else ErrorCode.INVALID_PRODUCER_EPOCH

    def with_partitions(self, transactional_id: str, partitions: Iterable[TopicPartition]) -> Transactions:
        """The state after AddPartitionsToTxn. The transactional id is known."""
        known = self.known[transactional_id]
        return self._with(transactional_id, attrs.evolve(known, partitions=known.partitions | {*partitions}, open=True))

    def with_offsets(
        self, transactional_id: str, offsets: Mapping[tuple[str, TopicPartition], CommittedOffset]
    ) -> Transactions:
        """The state after AddOffsetsToTxn, with no offsets, or TxnOffsetCommit."""
        known = self.known[transactional_id]
        merged = MappingProxyType({**known.offsets, **offsets})
        return self._with(transactional_id, attrs.evolve(known, offsets=merged, open=True))

    def ended(self, transactional_id: str, *, committed: bool) -> tuple[Transactions, Transaction | None, ErrorCode]:
        """The state after EndTxn, and what ended. A repeated request ends nothing, and has no error."""
        known = self.known[transactional_id]
        if not known.open:
            return self, None, ErrorCode.NONE if known.committed is committed else ErrorCode.INVALID_TXN_STATE
        after = Transaction(known.producer_id, known.epoch, committed=committed)
        return self._with(transactional_id, after), known, ErrorCode.NONE

    def _with(self, transactional_id: str, transaction: Transaction) -> Transactions:
        return attrs.evolve(self, known=MappingProxyType({**self.known, transactional_id: transaction}))
