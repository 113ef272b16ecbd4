"""Answers Fetch and ListOffsets from the logs and the tier.

A Fetch waits until ``min_bytes`` are there, one partition has an error, or ``max_wait_ms`` have passed. One that reads the tier
does not wait; one that has waited does not read the tier. Fetch sessions are not kept: each answer has session 0, after which
clients send full requests. A client that names the epoch of its last record learns where its log and the leader's diverge.

References: Kafka's ReplicaManager (fetchMessages, readFromLog, processRemoteFetches), Partition.readRecords, DelayedFetch,
DelayedRemoteFetch, KafkaApis.handleListOffsetRequest; KIP-74, KIP-595, KIP-956.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict, deque

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel
from kafka_remote_client.protocol import fetch, list_offsets
from kafka_remote_client.protocol.list_offsets import OffsetSpec
from kafka_remote_client.tiered_cluster import epochs, offset_lookup, tiered_read
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.offset_lookup import FoundOffset
from kafka_remote_client.tiered_cluster.partition import Partition
from kafka_remote_client.tiered_cluster.quota import Quota
from kafka_remote_client.tiered_cluster.tiered_read import FetchAnswer, SpecialAnswer, special_answer
from kafka_remote_client.tiered_kafka.changes import Changes
from kafka_remote_client.tiered_kafka.topics import Topic, Topics
from kafka_remote_client.wire import Buffer

__all__ = ["Fetches", "leader_error"]

_EPOCH_END = struct.Struct(">iq")
_NO_MORE_TAGS = b"\0"


def leader_error(partition: Partition | None, node_id: int, epoch: int = UNKNOWN_EPOCH) -> ErrorCode:
    """Why a broker does not serve the partition to a client that knows this leader epoch; NONE if it does."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.broker_id != node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    current = partition.log.lineage[-1].epoch
    if epoch not in {UNKNOWN_EPOCH, current}:
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE


def _refused(asked: fetch.FetchPartition, error: ErrorCode) -> fetch.PartitionData:
    """Records are empty, not null: librdkafka cannot parse null."""
    return fetch.PartitionData(asked.partition, error, records=b"")


def _diverging(log: PartitionLog, asked: fetch.FetchPartition) -> fetch.PartitionData | None:
    """The answer to a client that has read from another log: where the epoch of its last record ends in this one."""
    if asked.last_fetched_epoch == UNKNOWN_EPOCH:
        return None
    epoch, end_offset = epochs.end_offset_of(log.lineage, asked.last_fetched_epoch, log.end_offset)
    if epoch == UNKNOWN_EPOCH or asked.fetch_offset < log.log_start:
        return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == asked.last_fetched_epoch and end_offset >= asked.fetch_offset:
        return None
    tag = _EPOCH_END.pack(epoch, end_offset) + _NO_MORE_TAGS
    bounds = (log.high_watermark, log.last_stable_offset, log.log_start)
    return fetch.PartitionData(asked.partition, ErrorCode.NONE, *bounds, records=b"", tags={fetch.DIVERGING_EPOCH_TAG: tag})


@attrs.define
class _Limits:
    """What one answer may still have. ``remote_partitions``: read from the tier, ``None`` = any number.

    ``min_one_message``: no records of the broker's own log yet, so the first batch may be larger than all limits (KIP-74).
    ``read_tier``: at least one partition was read from the tier.
    """

    size: int
    remote_partitions: int | None
    min_one_message: bool = True
    read_tier: bool = False


class Fetches:
    """Runs in the cluster's thread.

    ``remote_partitions``: how many partitions one Fetch reads from the tier. ``bytes_per_second``: each broker's quota for it.
    """

    def __init__(
        self,
        topics: Topics,
        changes: Changes,
        clock: Clock,
        remote_partitions: int | None = None,
        bytes_per_second: int | None = None,
    ) -> None:
        self._topics = topics
        self._changes = changes
        self._clock = clock
        self._remote_partitions = remote_partitions
        self._quotas = defaultdict[int, Quota](lambda: Quota(bytes_per_second))
        self._special: deque[SpecialAnswer] = deque()
        self.tier_reads = 0
        self.tier_bytes = 0

    def answer_reads(self, answer: SpecialAnswer, times: int) -> None:
        """Gives this answer to the next reads of a partition from the tier, after the answers of earlier calls."""
        self._special.extend([answer] * times)

    async def answer_fetch(self, node_id: int, version: int, body: Buffer) -> bytes:
        """The answer to a Fetch of that version."""
        request = fetch.decode_request(body, version)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / 1000
        limits = _Limits(request.max_bytes, self._remote_partitions)
        while True:
            answers = tuple(self._of_topic(node_id, version, request, topic, limits) for topic in request.topics)
            parts = [part for topic in answers for part in topic.partitions]
            size = sum(len(part.records or b"") for part in parts)
            left = deadline - loop.time()
            at_once = limits.read_tier or not parts or any(part.error_code for part in parts)
            if at_once or size >= request.min_bytes or left <= 0:
                return fetch.encode_response(fetch.FetchResponse(answers), version)
            await self._changes.wait(left)
            limits = _Limits(request.max_bytes, remote_partitions=0)

    def _of_topic(
        self, node_id: int, version: int, request: fetch.FetchRequest, asked: fetch.FetchTopic, limits: _Limits
    ) -> fetch.FetchTopicResponse:
        by_id = version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS
        topic = self._topics.with_id(asked.topic_id) if by_id else self._topics.named(asked.topic)
        missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        isolation = IsolationLevel(request.isolation_level)
        parts = tuple(self._of_partition(node_id, isolation, topic, missing, part, limits) for part in asked.partitions)
        return fetch.FetchTopicResponse(parts, asked.topic, asked.topic_id)

    def _of_partition(
        self,
        node_id: int,
        isolation: IsolationLevel,
        topic: Topic | None,
        missing: ErrorCode,
        asked: fetch.FetchPartition,
        limits: _Limits,
    ) -> fetch.PartitionData:
        partition = None if topic is None else topic.partition(asked.partition)
        error = missing if topic is None else leader_error(partition, node_id, asked.current_leader_epoch)
        if partition is None or error:
            return _refused(asked, error)
        diverging = _diverging(partition.log, asked)
        if diverging is not None:
            return diverging
        log, size = partition.log, max(min(asked.partition_max_bytes, limits.size), 0)
        if log.log_start <= asked.fetch_offset < log.local_log_start:
            answer = self._from_tier(partition, asked.fetch_offset, size, isolation, limits)
        else:
            answer = self._read(partition, asked.fetch_offset, size, isolation, limits)
            limits.size -= len(answer.records)
            limits.min_one_message &= not answer.records
        if answer.error:
            return _refused(asked, answer.error)
        ends = (log.high_watermark, log.last_stable_offset, log.log_start)
        return fetch.PartitionData(asked.partition, ErrorCode.NONE, *ends, answer.aborted, records=answer.records)

    def _from_tier(
        self, partition: Partition, offset: int, size: int, isolation: IsolationLevel, limits: _Limits
    ) -> FetchAnswer:
        """Kafka decides before it reads, so a read of the tier counts with the size that it may have."""
        if limits.remote_partitions == 0:
            return FetchAnswer()
        why = self._special.popleft() if self._special else None
        quota, now = self._quotas[partition.broker_id], self._clock.time_ms()
        if quota.is_exceeded(now):
            why = SpecialAnswer.QUOTA_EXCEEDED
        if why is SpecialAnswer.QUOTA_EXCEEDED:
            return special_answer(why)
        limits.read_tier = True
        if limits.remote_partitions is None:
            limits.size -= size
        else:
            limits.remote_partitions -= 1
        if why is not None:
            return special_answer(why)
        answer = self._read(partition, offset, size, isolation, limits)
        self.tier_reads += 1
        self.tier_bytes += len(answer.records)
        self._quotas[partition.broker_id] = quota.recorded(len(answer.records), now)
        return answer

    def _read(self, partition: Partition, offset: int, size: int, isolation: IsolationLevel, limits: _Limits) -> FetchAnswer:
        stored = self._topics.store.object
        return tiered_read.read(
            partition.log, partition.remote, stored, offset, size, isolation, min_one_message=limits.min_one_message
        )

    def answer_list_offsets(self, node_id: int, version: int, body: Buffer) -> bytes:
        """The answer to a ListOffsets of that version."""
        request = list_offsets.decode_request(body, version)
        committed = request.isolation_level == IsolationLevel.READ_COMMITTED
        topics = []
        for topic in request.topics:
            parts = []
            for asked in topic.partitions:
                partition = self._topics.partition(topic.name, asked.partition_index)
                error = leader_error(partition, node_id, asked.current_leader_epoch)
                found: FoundOffset | None = FoundOffset()
                if partition is not None and not error:
                    found = self._found(partition, asked.timestamp, committed)
                error = ErrorCode.UNSUPPORTED_VERSION if found is None else error
                known = found or FoundOffset()
                parts.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        asked.partition_index, error, known.timestamp, known.offset, known.leader_epoch
                    )
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(topic.name, tuple(parts)))
        return list_offsets.encode_response(list_offsets.ListOffsetsResponse(tuple(topics)), version)

    def _found(self, partition: Partition, timestamp: int, committed: bool) -> FoundOffset | None:
        log, remote = partition.log, partition.remote
        if timestamp >= 0:
            return offset_lookup.at_time(log, remote, self._topics.store.object, timestamp)
        match timestamp:
            case OffsetSpec.LATEST:
                return offset_lookup.latest(log, committed=committed)
            case OffsetSpec.EARLIEST:
                return offset_lookup.earliest(log)
            case OffsetSpec.MAX_TIMESTAMP:
                return offset_lookup.with_max_timestamp(log)
            case OffsetSpec.EARLIEST_LOCAL:
                return offset_lookup.earliest_local(log)
            case OffsetSpec.LATEST_TIERED:
                return offset_lookup.latest_tiered(log, remote)
            case OffsetSpec.EARLIEST_PENDING_UPLOAD:
                return offset_lookup.earliest_pending_upload(log, remote)
        return None
