"""The confirmation of the partition's leader that a grant needs. Pure.

::

    step | question                                              | request to the leader
    1    | error, divergence, log start, high watermark, LSO     | a Fetch at the offset, 0 bytes, no wait: readable_end
    2    | are the segments on the leader's lineage              | a Fetch at searched_end, with the epoch before it
    3    | aborted transactions whose marker is still local      | a Fetch at L, or at L-1 (see aborted_tail)

Step 2 closes a gap of the metadata topic, and of a listing: after an unclean leader election the newest segments in the
tier may hold records that the new leader does not have, until it has tiered its own. Records are the same up to an offset when
the leader epoch before it is (the log-matching property), so one question answers for the window and for every segment that
was searched for aborted transactions: in the leader's log the same transaction may end elsewhere, and otherwise. The answer
holds as long as the leader epoch, which is part of the question.

The shim asks over the client's connection, and a client that reads the tier over its own. So the broker still controls READ,
quotas, leadership and fencing.

References: KIP-320, KIP-595 (LastFetchedEpoch), docs/design.md.
"""

from __future__ import annotations

from kafka_remote_client.location.aborted_tail import AbortedTail
from kafka_remote_client.location.lru_cache import LruCache
from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, Probes
from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, IsolationLevel, in_offset_order
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, FetchResponse, PartitionData
from kafka_remote_client.remote_log.resolver import ResolvedSegment

__all__ = ["LeaderCheck", "only_partition", "readable_end"]

_NO_REPLICA = -1


def readable_end(data: PartitionData, offset: int, isolation_level: IsolationLevel) -> int:
    """Returns the first offset that a reader of that isolation level must not get, from a leader's answer without error.

    Raises NotGrantedError if the leader sends readers to another replica, or ``offset`` is not readable.
    """
    committed = isolation_level is IsolationLevel.READ_COMMITTED
    end = data.last_stable_offset if committed else data.high_watermark
    if data.preferred_read_replica != _NO_REPLICA:
        raise NotGrantedError("preferred-replica")
    if not data.log_start_offset <= offset < end:
        raise NotGrantedError("not-tiered")
    return end


def only_partition(answer: FetchResponse) -> PartitionData | None:
    """Returns the data of an answer about one partition, ``None`` if it is not about one."""
    if len(answer.responses) != 1 or len(answer.responses[0].partitions) != 1:
        return None
    return answer.responses[0].partitions[0]


class LeaderCheck:
    """Steps 2 and 3, with a bounded cache of answers. Thread safe."""

    def __init__(self) -> None:
        self._on_lineage: LruCache[bool] = LruCache()
        self._aborted_tail = AbortedTail()

    def confirm(
        self, resolved: ResolvedSegment, isolation_level: IsolationLevel, leader_epoch: int
    ) -> Probes[tuple[AbortedTransaction, ...] | None]:
        """Returns the aborted transactions that a reader of the window needs; ``None`` for read_uncommitted.

        ``leader_epoch``: the leader's epoch in the probes, -1 = unknown, then nothing is cached. Raises
        NotGrantedError when what was searched is not the leader's, or the transactions cannot be known.
        """
        yield from self._check_lineage(resolved, leader_epoch)
        if isolation_level is not IsolationLevel.READ_COMMITTED:
            return None
        if resolved.aborted_complete:
            return resolved.aborted
        tip = resolved.metadata.topic_id_partition
        listed = yield from self._aborted_tail.ask(tip, resolved.searched_end, leader_epoch)
        if listed is None:
            raise NotGrantedError("aborted-unknown")
        below = (one for one in listed if one.first_offset < resolved.next_offset)
        return in_offset_order({*resolved.aborted, *below})

    def _check_lineage(self, resolved: ResolvedSegment, leader_epoch: int) -> Probes[None]:
        end, epoch = resolved.searched_end, resolved.searched_epoch
        key = (resolved.metadata.topic_id_partition, end, epoch, leader_epoch)
        if leader_epoch != UNKNOWN_EPOCH and self._on_lineage.get(key):
            return
        data = yield Probe(ProbeKind.LINEAGE, end, epoch)
        if data is None or data.error_code or DIVERGING_EPOCH_TAG in data.tags:
            raise NotGrantedError("lineage")
        self._on_lineage.put(key, value=True)
