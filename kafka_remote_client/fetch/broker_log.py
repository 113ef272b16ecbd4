"""The logs of partitions at their leaders: bounds, and records as record blocks. For readers that have no consumer.

::

    bounds    ListOffsets: the log's start, and the end that the isolation level shows
    blocks    Fetch from an exact offset to an exact end  ->  the batches of the answer  ->  record blocks

Records are decoded as those of the tier: checksums, aborted transactions, control batches. A request is repeated after a
retriable error, a lost connection, or an answer without records, until ``patience`` seconds pass without progress. Topics have
ids if the cluster has them, so the records of a topic that was created again are never mixed with those of the old one.

References: Kafka's Fetcher and CompletedFetch; KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from kafka_remote_client.backoff import Backoff
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    BrokerResponseError,
    CorruptRecordError,
    DirectFetchError,
    LocationError,
    PeerCertificateError,
    ProtocolError,
    SaslAuthenticationError,
    SecurityProtocolError,
)
from kafka_remote_client.fallback import BrokerReadError
from kafka_remote_client.location.cluster_metadata import Key, PartitionLeader
from kafka_remote_client.location.leader_check import only_partition
from kafka_remote_client.location.leaders import PartitionLeaders, fetch_version, open_leaders
from kafka_remote_client.location.tier_offsets import leader_offsets
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, TopicPartition
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import FETCH
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, PartitionData
from kafka_remote_client.protocol.list_offsets import OffsetSpec
from kafka_remote_client.protocol.metadata import MetadataTopic
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.records.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, BatchRules
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.completed_fetch import FetchState, aborted_filter
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["BrokerLog", "open_broker_log"]

_T = TypeVar("_T")

_PATIENCE_SECONDS = 60.0
_REQUEST_SECONDS = 30.0
_PAUSE_SECONDS = (0.1, 2.0)
_WAIT_MS = 500
_LEAST_BYTES, _MOST_BYTES = 64 << 10, 8 << 20
_FINAL: frozenset[int] = frozenset({ErrorCode.INCONSISTENT_TOPIC_ID})
"""Kafka calls it retriable, but fresh metadata have just said the same."""


class BrokerLog:
    """Thread safe. Owns ``leaders``. ``patience``: seconds without any answer or record after which a call fails.

    All methods raise BrokerReadError, with topic, partition and offset if it is about one.
    """

    def __init__(self, leaders: PartitionLeaders, clock: Clock, *, patience: float = _PATIENCE_SECONDS) -> None:
        self._leaders = leaders
        self._clock = clock
        self._patience = patience
        self._closed = threading.Event()

    def topics(self, names: Sequence[str] | None) -> dict[str, MetadataTopic]:
        """Returns the topics of these names as the cluster describes them now, ``None`` = all that it shows."""
        return self._patiently(
            "the metadata of topics",
            lambda deadline: self._leaders.topics(names, deadline),
            final=_FINAL | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )

    def bounds(
        self, partitions: Sequence[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the log's start of each partition, and the end of what the isolation level shows."""
        found: dict[TopicPartition, tuple[int, int]] = {}

        def ask(deadline: Deadline) -> dict[TopicPartition, tuple[int, int]]:
            left = [partition for partition in partitions if partition not in found]
            answers = self._leaders.ask_all([(*one,) for one in left], deadline, partial(_bounds_led, isolation_level))
            found.update((TopicPartition(*key), one) for key, one in answers.items() if not isinstance(one, DirectFetchError))
            for failure in answers.values():
                if isinstance(failure, DirectFetchError):
                    raise failure
            return found

        return self._patiently("the bounds of logs", ask)

    def diverges(self, partition: TopicPartition, topic_id: UUID, offset: int, epoch: int) -> bool:
        """Whether the leader's log has no records of ``epoch`` right before ``offset``: what ends there is not of this log.

        ``offset`` is at or above the log's start.
        """

        def ask(deadline: Deadline) -> bool:
            try:
                data = self._fetched(partition, topic_id, offset, deadline, last_fetched_epoch=epoch)
            except BrokerResponseError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                return True
            return DIVERGING_EPOCH_TAG in data.tags

        return self._patiently(f"the lineage of {partition}", ask, partition, offset)

    def blocks(
        self,
        partition: TopicPartition,
        topic_id: UUID,
        start: int,
        end: int,
        isolation_level: IsolationLevel,
        *,
        size_in_bytes: int = 0,
        tally: bool | None = None,
    ) -> Generator[RecordBlock, None, None]:
        """Yields the records of ``[start, end)``, which must be in the log and visible. A block may be empty.

        ``topic_id``: zeros = not known. ``size_in_bytes``: an estimate of the range, 0 = not known. ``tally``: as in
        CompletedFetch.

        Raises UnsupportedFormatError as well.
        """
        at, limit = start, Deadline(self._clock, self._patience)
        asked = max(_LEAST_BYTES, min(_MOST_BYTES, size_in_bytes or _MOST_BYTES))
        while at < end:

            def ask(deadline: Deadline, offset: int = at) -> PartitionData:
                return self._fetched(partition, topic_id, offset, deadline, isolation_level, max_bytes=asked)

            data = self._patiently(f"{partition} at offset {at}", ask, partition, at)
            # Without a list a broker says that there are none.
            aborted = aborted_filter(isolation_level, data.aborted_transactions or ())
            state = FetchState(BatchRules(), at, aborted, end, block_bytes=DEFAULT_MAX_DECOMPRESSED_BYTES, tally=tally)
            yield from _decoded(state, memoryview(data.records or b""), partition)
            # Compaction may have removed all batches up to the end.
            following = end if state.expected_offset >= end else state.next_fetch_offset
            if following > at:
                at, limit = following, Deadline(self._clock, self._patience)
            elif data.records or limit.expired():
                raise _failure(f"{partition}: the broker sends no batch from offset {at} on", partition, at)

    def close(self) -> None:
        """Closes all connections; calls in other threads fail. May be called twice."""
        self._closed.set()
        self._leaders.close()

    def _fetched(
        self,
        partition: TopicPartition,
        topic_id: UUID,
        offset: int,
        deadline: Deadline,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        max_bytes: int = 0,
        last_fetched_epoch: int = UNKNOWN_EPOCH,
    ) -> PartitionData:
        def question(leader: PartitionLeader, session: PeerSession) -> PartitionData:
            if ZERO_UUID not in {topic_id, leader.topic_id} and topic_id != leader.topic_id:
                raise broker_error(ErrorCode.INCONSISTENT_TOPIC_ID, f"topic {partition.topic} was created again; its id")
            version = fetch_version(leader, session)
            if version is None:
                raise broker_error(ErrorCode.UNSUPPORTED_VERSION, "Fetch")
            wanted = fetch.FetchPartition(partition.partition, offset, max_bytes, leader.leader_epoch, last_fetched_epoch)
            request = fetch.FetchRequest(
                topics=(fetch.FetchTopic((wanted,), partition.topic, leader.topic_id),),
                max_wait_ms=_WAIT_MS if max_bytes else 0,
                min_bytes=1 if max_bytes else 0,
                max_bytes=max_bytes,
                isolation_level=isolation_level,
            )
            body = session.call(FETCH, version, fetch.encode_request(request, version), deadline)
            answer = fetch.decode_response(body, version)
            if answer.error_code:
                raise broker_error(answer.error_code, f"Fetch of {partition}")
            data = only_partition(answer)
            if data is None:
                raise ProtocolError(f"Fetch of {partition}: the answer is about other partitions")
            if data.error_code:
                raise broker_error(data.error_code, f"Fetch of {partition} at offset {offset}")
            return data

        return self._leaders.ask(*partition, deadline, question)

    def _patiently(
        self,
        what: str,
        ask: Callable[[Deadline], _T],
        partition: TopicPartition | None = None,
        offset: int | None = None,
        *,
        final: frozenset[int] = _FINAL,
    ) -> _T:
        limit = Deadline(self._clock, self._patience)
        pause = Backoff(self._clock, *_PAUSE_SECONDS)
        while True:
            try:
                return ask(Deadline(self._clock, min(_REQUEST_SECONDS, self._patience)))
            except LocationError as error:
                if limit.expired() or not _may_pass(error, final) or self._clock.wait(self._closed, pause.failed()):
                    raise _failure(f"cannot read {what} from the brokers: {error}", partition, offset) from error


def open_broker_log(settings: Mapping[str, object], config: RemoteFetchConfig, clock: Clock | None = None) -> BrokerLog:
    """``settings``: librdkafka's for a connection, ``bootstrap.servers`` at least. It connects at the first call.

    Raises ConfigurationError for settings with which it cannot connect.
    """
    clock = clock or SystemClock()
    leaders = open_leaders(settings, clock, config.connect_timeout_ms / 1000)
    return BrokerLog(leaders, clock)


def _decoded(state: FetchState, records: memoryview, partition: TopicPartition) -> Generator[RecordBlock, None, None]:
    """Yields the records of the whole batches. The blocks refer to ``records``, which belong to one answer alone."""
    while records:
        try:
            block, consumed = state.feed(records, copies=False)
        except CorruptRecordError as error:
            at = state.next_fetch_offset
            raise _failure(f"the broker's records of {partition} at offset {at} are damaged: {error}", partition, at) from error
        if not consumed:
            return
        yield block
        records = records[consumed:]


def _bounds_led(
    isolation_level: IsolationLevel, session: PeerSession, led: Mapping[Key, PartitionLeader], deadline: Deadline
) -> Mapping[Key, tuple[int, int] | DirectFetchError]:
    starts = leader_offsets(session, OffsetSpec.EARLIEST, led, deadline)
    ends = leader_offsets(session, OffsetSpec.LATEST, led, deadline, isolation_level)
    found: dict[Key, tuple[int, int] | DirectFetchError] = {}
    for key, start in starts.items():
        end = ends[key]
        if isinstance(start, DirectFetchError):
            found[key] = start
        else:
            found[key] = end if isinstance(end, DirectFetchError) else (start, end)
    return found


_LASTING = (PeerCertificateError, ProtocolError, SaslAuthenticationError, SecurityProtocolError)
"""Errors that another attempt cannot mend."""


def _failure(text: str, partition: TopicPartition | None, offset: int | None) -> BrokerReadError:
    topic, number = partition or (None, None)
    return BrokerReadError(text).with_context(topic=topic, partition=number, offset=offset)


def _may_pass(error: LocationError, final: frozenset[int]) -> bool:
    if isinstance(error, BrokerResponseError):
        return error.retriable and error.code not in final
    return not isinstance(error, _LASTING)
