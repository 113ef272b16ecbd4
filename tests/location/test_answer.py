from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import BrokerResponseError, ProtocolError, UnsupportedFormatError
from kafka_remote_client.location.answer import MAX_EXPIRY_MS, location_of
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    NO_EXPIRY,
    AbortedTransaction,
    ByteRange,
    GrantedRange,
    IsolationLevel,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
)
from kafka_remote_client.protocol.dialect import SegmentGrant, TaggedDialect
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, FetchResponse, FetchTopicResponse, PartitionData
from tests.support import questions
from tests.support.questions import question

DIALECT = TaggedDialect()
TOPIC_ID = UUID(int=7)
QUESTION = question("t", 3, 1000, topic_id=TOPIC_ID, formats=("ApacheKafkaV1",))
GRANT = attrs.evolve(
    questions.GRANT,
    ranges=(
        GrantedRange(ByteRange(4096, 8192), LocationMetadata(url="https://store/1").encode()),
        GrantedRange(ByteRange(8192, 9000), LocationMetadata(url="https://store/2").encode()),
    ),
)
ABORTED = (AbortedTransaction(5, 1100),)
NUMBERS = {"high_watermark": 5000, "last_stable_offset": 4000, "log_start_offset": 100}


def data(grant: SegmentGrant | None = GRANT, **changes: Any) -> PartitionData:
    tags = {} if grant is None else DIALECT.grant_tags(grant)
    values = {"aborted_transactions": ABORTED, "tags": tags, **NUMBERS, **changes}
    return PartitionData(3, **values)


def answer(
    partition: PartitionData, question: LocationQuestion = QUESTION, *, by_id: bool = True, **changes: Any
) -> SegmentLocation | NotRemote:
    topic = FetchTopicResponse((PartitionData(4), partition), "" if by_id else "t", TOPIC_ID if by_id else UUID(int=0))
    response = FetchResponse((FetchTopicResponse((), "other", UUID(int=8)), topic), throttle_time_ms=17, **changes)
    return location_of(question, response, sent_at=50.0, by_id=by_id, dialect=DIALECT)


def located(*arguments: Any, **changes: Any) -> SegmentLocation:
    location = answer(*arguments, **changes)
    assert isinstance(location, SegmentLocation)
    return location


@pytest.mark.parametrize("by_id", [True, False])
def test_a_grant_becomes_a_location(by_id: bool) -> None:
    location = located(data(), by_id=by_id)
    metadata = location.metadata
    tip = metadata.topic_id_partition
    assert (tip.topic, tip.topic_id, tip.partition, metadata.remote_log_segment_id.id) == ("t", TOPIC_ID, 3, UUID(int=9))
    assert (metadata.start_offset, metadata.end_offset, metadata.segment_size_in_bytes) == (900, 1999, 10_000)
    assert metadata.segment_leader_epochs == GRANT.leader_epochs
    assert metadata.custom_metadata is None
    assert (location.format, location.fetch_offset, location.next_offset) == ("ApacheKafkaV1", 1000, 1800)
    assert location.ranges == GRANT.ranges
    assert location.aborted_transactions == ABORTED
    assert (location.high_watermark, location.last_stable_offset, location.log_start_offset) == (5000, 4000, 100)
    assert location.throttle_time_ms == 17


def test_fields_missing_from_a_grant_are_minus_one_in_the_metadata() -> None:
    metadata = located(data()).metadata
    assert (metadata.max_timestamp_ms, metadata.broker_id, metadata.event_timestamp_ms) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("expires_in_ms", "expires_at"),
    [(120_000, 170.0), (None, NO_EXPIRY), (0, 50.0), (-5, 50.0), (1 << 62, 50.0 + MAX_EXPIRY_MS / 1000)],
)
def test_expiry_counts_from_the_time_of_the_request(expires_in_ms: int | None, expires_at: float) -> None:
    assert located(data(attrs.evolve(GRANT, expires_in_ms=expires_in_ms))).expires_at == expires_at


@pytest.mark.parametrize(
    ("custom_metadata", "signed"),
    [
        (LocationMetadata(url="https://store/1").encode(), True),
        (LocationMetadata(object_key="a/b").encode(), False),
        (None, False),
        (b"\xff", True),
    ],
)
def test_only_a_location_without_url_may_be_read_in_parts(custom_metadata: bytes | None, signed: bool) -> None:
    grant = attrs.evolve(GRANT, ranges=(GrantedRange(ByteRange(0, 9000), custom_metadata),))
    assert located(data(grant)).range_signed is signed


def test_an_answer_without_a_grant_is_not_granted() -> None:
    assert answer(data(None, records=b"records")) == NotRemote("not-granted", PartitionOffsets(100, -1, -1, 5000))


def test_an_offset_out_of_range_goes_to_the_broker() -> None:
    refused = answer(data(None, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=1200))
    assert refused == NotRemote("out-of-range", PartitionOffsets(log_start=1200, high_watermark=5000), out_of_range=True)


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize(
    "partition",
    [
        data(None),
        data(None, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        data(log_start_offset=1001),
        data(tags={DIVERGING_EPOCH_TAG: bytes(13)}),
        data(aborted_transactions=None),
    ],
    ids=["not-granted", "out-of-range", "below-log-start", "diverging", "aborted-unknown"],
)
def test_a_refusal_names_the_topic_if_it_was_asked_by_id(partition: PartitionData, by_id: bool) -> None:
    refused = answer(partition, by_id=by_id)
    assert isinstance(refused, NotRemote)
    assert refused.topic_id == (TOPIC_ID if by_id else UUID(int=0))


def test_a_grant_below_the_log_start_is_not_used() -> None:
    refused = answer(data(log_start_offset=1001))
    assert isinstance(refused, NotRemote)
    assert refused.out_of_range


def test_a_diverging_epoch_goes_to_the_broker() -> None:
    tags = {**DIALECT.grant_tags(GRANT), DIVERGING_EPOCH_TAG: bytes.fromhex("00000001000000000000000500")}
    assert answer(data(tags=tags)) == NotRemote("diverging-epoch", PartitionOffsets(100, -1, -1, 5000))


def test_read_committed_needs_the_aborted_transactions() -> None:
    assert answer(data(aborted_transactions=None)) == NotRemote("aborted-unknown", PartitionOffsets(100, -1, -1, 5000))
    uncommitted = attrs.evolve(QUESTION, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    assert located(data(aborted_transactions=None), uncommitted).aborted_transactions is None


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER, 999])
def test_other_errors_are_raised(code: int) -> None:
    for refusal in ({"partition": data(error_code=code)}, {"partition": data(), "error_code": code}):
        with pytest.raises(BrokerResponseError, match="Fetch of t-3 at 1000") as failure:
            answer(**refusal)
        assert failure.value.code == code


@pytest.mark.parametrize(
    ("partition", "question", "message"),
    [
        (data(records=b"x"), QUESTION, "the answer has a grant and records"),
        (data(), attrs.evolve(QUESTION, offset=899), "the grant is for"),
        (data(), attrs.evolve(QUESTION, offset=1800), "the grant is for"),
        (data(last_stable_offset=1799), QUESTION, "past the log's end 1799"),
        (
            data(high_watermark=1799),
            attrs.evolve(QUESTION, isolation_level=IsolationLevel.READ_UNCOMMITTED),
            "past the log's end",
        ),
        (data(), attrs.evolve(QUESTION, partition=5), "other partitions"),
        (data(), attrs.evolve(QUESTION, topic_id=UUID(int=6)), "other partitions"),
    ],
)
def test_a_grant_for_another_partition_or_offset_is_a_protocol_error(
    partition: PartitionData, question: LocationQuestion, message: str
) -> None:
    with pytest.raises(ProtocolError, match=message):
        answer(partition, question)


def test_an_unknown_end_of_the_log_is_accepted() -> None:
    assert located(data(last_stable_offset=-1)).last_stable_offset == -1


def test_a_format_that_was_not_offered_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError):
        answer(data(attrs.evolve(GRANT, format="Other")))


@settings(max_examples=200, deadline=None)
@given(
    tag=st.sampled_from([0, *range(12480, 12491)]),
    value=st.none() | st.binary(max_size=40),
    numbers=st.fixed_dictionaries({name: st.integers(-1, 3000) for name in NUMBERS}),
)
def test_any_answer_is_a_location_a_reason_or_a_typed_error(tag: int, value: bytes | None, numbers: dict[str, int]) -> None:
    tags = {**DIALECT.grant_tags(GRANT), tag: value}
    partition = data(tags={tag: value for tag, value in tags.items() if value is not None}, **numbers)
    try:
        found = answer(partition)
    except (ProtocolError, UnsupportedFormatError):
        return
    if isinstance(found, SegmentLocation):
        assert numbers["log_start_offset"] <= QUESTION.offset < found.next_offset
        assert found.aborted_transactions is not None
