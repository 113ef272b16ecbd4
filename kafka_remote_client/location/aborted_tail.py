"""Aborted transactions whose marker is not tiered yet: asks the broker once for each end of the tier.

Let L be the first offset that is not tiered. A transaction that began below L and whose ABORT marker is at or above L is in no
transaction index of the tier. A read_committed Fetch lists every aborted transaction that overlaps its records, also those
that began earlier. So::

    Fetch at | accepted when                                  | because
    L        | no error, a list, LSO > L                      | the records begin at L, so the list has all of them
    L-1      | no error, a list, LSO >= L, at least one batch | only if LSO = L: at the LSO a broker returns at once, with
             |                                                | an empty list without meaning

A null list means "not known". The Fetch at L-1 makes the broker do a small read of the tier, and is counted. All
transactions below L are decided, so the answer holds for this L as long as the leader epoch does.

References: KIP-98; Kafka's UnifiedLog.read, LocalLog.read, RemoteLogManager.collectAbortedTransactions.
"""

from __future__ import annotations

from kafka_remote_client.location.lru_cache import LruCache
from kafka_remote_client.location.probes import Probe, ProbeKind, Probes
from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, TopicIdPartition

__all__ = ["AbortedTail"]


class AbortedTail:
    """The answers so far. Thread safe."""

    def __init__(self) -> None:
        self._known: LruCache[tuple[AbortedTransaction, ...]] = LruCache()

    def ask(self, tip: TopicIdPartition, tiered_end: int, leader_epoch: int) -> Probes[tuple[AbortedTransaction, ...] | None]:
        """Returns aborted transactions that began below ``tiered_end`` (L) and end at or above it, and harmless others.

        ``leader_epoch``: the epoch that the broker has confirmed, -1 = none, then nothing is cached. ``None`` = not known.
        """
        key = (tip, tiered_end, leader_epoch)
        known = self._known.get(key) if leader_epoch != UNKNOWN_EPOCH else None
        if known is None:
            known = yield from _ask(tiered_end)
            if known is not None:
                self._known.put(key, known)
        return known


def _ask(tiered_end: int) -> Probes[tuple[AbortedTransaction, ...] | None]:
    # The reader has not read up to this position, so there is no epoch for it.
    data = yield Probe(ProbeKind.ABORTED, tiered_end, max_bytes=1)
    if data is None or data.error_code:
        return None
    if data.last_stable_offset > tiered_end:
        return data.aborted_transactions
    if data.last_stable_offset < tiered_end:
        return None
    data = yield Probe(ProbeKind.ABORTED_IN_TIER, tiered_end - 1, max_bytes=1)
    if data is None or data.error_code or data.last_stable_offset < tiered_end or not data.records:
        return None
    return data.aborted_transactions
