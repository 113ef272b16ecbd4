"""Turns the answer to a tagged Fetch into a location, or into the reason why there is none. Pure.

::

    the partition's answer                                   | becomes
    error OFFSET_OUT_OF_RANGE, or offset below log start     | NotRemote "out-of-range", out_of_range
    any other error                                          | BrokerResponseError
    DivergingEpoch                                           | NotRemote "diverging-epoch"
    RemoteLogLocationPending                                 | LocationPending
    no RemoteLogSegmentId                                    | NotRemote "not-granted"
    a grant, aborted transactions null, read_committed       | NotRemote "aborted-unknown"
    a grant that does not hold the offset, reaches past the  | ProtocolError
    isolation level's end of the log, or comes with records  |
    a grant                                                  | SegmentLocation

References: docs/wire-format.md, KIP-595 (DivergingEpoch).
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_remote_client.errors import DirectFetchError, ProtocolError
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    NO_EXPIRY,
    GrantedRange,
    IsolationLevel,
    LocationPending,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentLocation,
)
from kafka_remote_client.protocol.dialect import SegmentGrant, TaggedDialect
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, FetchResponse, PartitionData
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["MAX_EXPIRY_MS", "leader_answer", "location_of", "not_remote"]

MAX_EXPIRY_MS = 7 * 24 * 3600 * 1000
"""The longest life of a store's signed URL (a week, by AWS Signature Version 4). A longer one is ignored."""

_UNKNOWN = -1


def location_of(
    question: LocationQuestion, response: FetchResponse, *, sent_at: float, by_id: bool, dialect: TaggedDialect
) -> SegmentLocation | NotRemote | LocationPending:
    """Reads one partition's part of the answer to a Fetch; ``by_id`` = the request named the topic by its id.

    ``sent_at``: when the question was sent, on the monotonic clock.

    Raises BrokerResponseError, ProtocolError and UnsupportedFormatError as the module's table says.
    """
    data = leader_answer(question, response, by_id=by_id)
    if isinstance(data, NotRemote):
        return data
    if dialect.is_pending(data.tags):
        return LocationPending()
    grant = dialect.read_grant(data.tags, question.formats)
    if grant is None:
        return not_remote("not-granted", question, data, by_id=by_id)
    if question.offset < data.log_start_offset:
        return not_remote("out-of-range", question, data, by_id=by_id, out_of_range=True)
    if question.isolation_level == IsolationLevel.READ_COMMITTED and data.aborted_transactions is None:
        return not_remote("aborted-unknown", question, data, by_id=by_id)
    _check_grant(question, grant, data)
    return SegmentLocation(
        metadata=_metadata(question, grant),
        format=grant.format,
        fetch_offset=question.offset,
        ranges=grant.ranges,
        next_offset=grant.next_offset,
        aborted_transactions=data.aborted_transactions,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        expires_at=_expires_at(sent_at, grant.expires_in_ms),
        range_signed=_has_signed_url(grant.ranges),
        throttle_time_ms=response.throttle_time_ms,
    )


def leader_answer(question: LocationQuestion, response: FetchResponse, *, by_id: bool) -> PartitionData | NotRemote:
    """Returns the leader's data of the partition, or why it has nothing for this position.

    Raises BrokerResponseError for any other error, and ProtocolError for an answer about something else.
    """
    if response.error_code != ErrorCode.NONE:
        raise broker_error(response.error_code, str(question))
    data = _partition_data(question, response, by_id=by_id)
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return not_remote("out-of-range", question, data, by_id=by_id, out_of_range=True)
    if data.error_code != ErrorCode.NONE:
        raise broker_error(data.error_code, str(question))
    if DIVERGING_EPOCH_TAG in data.tags:
        return not_remote("diverging-epoch", question, data, by_id=by_id)
    return data


def not_remote(
    reason: str,
    question: LocationQuestion,
    data: PartitionData,
    *,
    by_id: bool,
    out_of_range: bool = False,
    error: DirectFetchError | None = None,
) -> NotRemote:
    """A refusal with what the leader's answer says about the log: its start, its end, and the topic's id."""
    offsets = PartitionOffsets(log_start=data.log_start_offset, high_watermark=data.high_watermark)
    return NotRemote(reason, offsets, out_of_range, error, question.topic_id if by_id else ZERO_UUID)


def _partition_data(question: LocationQuestion, response: FetchResponse, *, by_id: bool) -> PartitionData:
    for topic in response.responses:
        if topic.topic_id == question.topic_id if by_id else topic.topic == question.topic:
            for data in topic.partitions:
                if data.partition_index == question.partition:
                    return data
    raise ProtocolError(f"{question}: the answer is for other partitions")


def _check_grant(question: LocationQuestion, grant: SegmentGrant, data: PartitionData) -> None:
    if data.records:
        raise ProtocolError(f"{question}: the answer has a grant and records")
    if not grant.start_offset <= question.offset < grant.next_offset:
        raise ProtocolError(f"{question}: the grant is for [{grant.start_offset}, {grant.next_offset})")
    committed = question.isolation_level == IsolationLevel.READ_COMMITTED
    end = data.last_stable_offset if committed else data.high_watermark
    if 0 <= end < grant.next_offset:
        raise ProtocolError(f"{question}: the grant reaches {grant.next_offset}, past the log's end {end}")


def _metadata(question: LocationQuestion, grant: SegmentGrant) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(question.topic_id_partition, grant.segment_id),
        start_offset=grant.start_offset,
        end_offset=grant.end_offset,
        max_timestamp_ms=_UNKNOWN,
        broker_id=_UNKNOWN,
        event_timestamp_ms=_UNKNOWN,
        segment_leader_epochs=grant.leader_epochs,
        segment_size_in_bytes=grant.segment_size,
    )


def _expires_at(sent_at: float, expires_in_ms: int | None) -> float:
    """Counts from the time of the request, which is before the grant, so the result is never too late."""
    return NO_EXPIRY if expires_in_ms is None else sent_at + max(0, min(expires_in_ms, MAX_EXPIRY_MS)) / 1000


def _has_signed_url(ranges: Iterable[GrantedRange]) -> bool:
    """Whether any range may only be read completely. The fetcher rejects metadata that does not parse."""
    try:
        return any(LocationMetadata.decode(granted.custom_metadata).url is not None for granted in ranges)
    except DirectFetchError:
        return True
