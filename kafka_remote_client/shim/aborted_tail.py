"""Aborted transactions whose marker is not in the tier yet: the broker knows them, and is asked once per end of the tier.

Let L be the first offset that is not tiered. A transaction that began below L and whose ABORT marker is at or above L is in no
transaction index of the tier. A read_committed Fetch lists every aborted transaction that overlaps what it returns, also those
that began earlier. So::

    Fetch at | accepted when                                  | because
    L        | no error, a list, LSO > L                      | what is returned begins at L, so the list has all of them
    L-1      | no error, a list, LSO >= L, at least one batch | only if LSO = L: at the LSO a broker returns at once, with
             |                                                | an empty list that means nothing

A null list means "not known". The Fetch at L-1 is a small read from the tier by the broker itself, and is counted. All
transactions below L are decided, so the answer holds for this L as long as the leader epoch does.

References: KIP-98; Kafka's UnifiedLog.read, LocalLog.read, RemoteLogManager.collectAbortedTransactions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, TopicIdPartition
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.remembered import Remembered

__all__ = ["AbortedTail", "FetchAt"]

FetchAt: TypeAlias = Callable[[int], Awaitable[PartitionData | None]]
"""A read_committed Fetch of one byte at an offset; ``None`` when the answer is an error."""


class AbortedTail:
    """The answers so far. Used in one event loop."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._known: Remembered[tuple[AbortedTransaction, ...]] = Remembered()

    async def ask(
        self, tip: TopicIdPartition, tiered_end: int, leader_epoch: int, fetch_at: FetchAt
    ) -> tuple[AbortedTransaction, ...] | None:
        """Aborted transactions that began below ``tiered_end`` (L) and end at or above it, among others that do no harm.

        ``leader_epoch``: the epoch that the broker has confirmed, -1 = none, then nothing is remembered. ``None`` = not known.
        """
        key = (tip, tiered_end, leader_epoch)
        known = self._known.get(key) if leader_epoch != UNKNOWN_EPOCH else None
        if known is None:
            known = await self._ask(tiered_end, fetch_at)
            if known is not None:
                self._known.put(key, known)
        return known

    async def _ask(self, tiered_end: int, fetch_at: FetchAt) -> tuple[AbortedTransaction, ...] | None:
        self._counters.add("aborted_probes")
        data = await fetch_at(tiered_end)
        if data is None or data.error_code:
            return None
        if data.last_stable_offset > tiered_end:
            return data.aborted_transactions
        if data.last_stable_offset < tiered_end:
            return None
        self._counters.add("aborted_probes")
        self._counters.add("remote_probes")
        data = await fetch_at(tiered_end - 1)
        if data is None or data.error_code or data.last_stable_offset < tiered_end or not data.records:
            return None
        return data.aborted_transactions
