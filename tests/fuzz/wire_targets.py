"""Messages of a peer in Kafka's protocol: any bytes give a value or a typed error, and a value equals the bytes' contents."""

from __future__ import annotations

import contextlib
import struct
from itertools import pairwise
from uuid import UUID

from kafka_remote_client.errors import (
    BrokerResponseError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationError,
    ProtocolError,
    UnsupportedFormatError,
)
from kafka_remote_client.location.answer import location_of
from kafka_remote_client.location.leader_lists import page_of_answer
from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    AbortedTransaction,
    IsolationLevel,
    NotRemote,
    SegmentLocation,
)
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import SegmentPage, TaggedDialect
from kafka_remote_client.protocol.fetch import FetchResponse, FetchTopicResponse, PartitionData
from kafka_remote_client.protocol.headers import RequestHeader, decode_request_header, encode_request_header
from kafka_remote_client.shim.tagged_fetch import asks_for_location, read_tagged_fetch
from tests.fuzz import independent
from tests.fuzz.bounded import Target, bounded
from tests.support.questions import GRANT

__all__ = ["TARGETS"]

_DIALECT = TaggedDialect()
_TOPIC_ID = UUID(int=7)
_OFFSET = 1000
_FIRST_TAG, _LAST_TAG = 12480, 12490
_SEGMENT_ID, _RANGE, _RANGES = 12482, 12484, 12488
_LIST, _LIST_NEXT = 12499, 12500
_OTHER_TAGS = {253: _LIST_NEXT, 254: _LIST, 255: 0}
_FETCH = 1
_FLEXIBLE = range(12, 19)


def fetch_response(data: bytes) -> None:
    """The body of a FetchResponse, in the version that the first byte chooses."""
    version = 4 + (data[0] if data else 0) % 15
    try:
        response = fetch.decode_response(data[1:], version)
    except ProtocolError:
        return
    assert fetch.decode_response(fetch.encode_response(response, version), version) == response
    if version in _FLEXIBLE:
        _agrees(response, independent.read_all(independent.fetch_response(version), data[1:]))


def _agrees(response: FetchResponse, judge: dict) -> None:
    assert (response.throttle_time_ms, response.error_code, response.session_id, response.tags) == (
        judge["throttle"],
        judge["error"],
        judge["session"],
        judge["tags"],
    )
    for topic, other in zip(response.responses, judge["topics"], strict=True):
        assert topic.topic == other.get("topic", "")
        assert topic.topic_id.bytes == other.get("topic_id", bytes(16))
        assert topic.tags == other["tags"]
        for one, parsed in zip(topic.partitions, other["partitions"], strict=True):
            aborted = one.aborted_transactions
            assert parsed == {
                "index": one.partition_index,
                "error": one.error_code,
                "high_watermark": one.high_watermark,
                "last_stable": one.last_stable_offset,
                "log_start": one.log_start_offset,
                "aborted": None if aborted is None else parsed["aborted"],
                "preferred": one.preferred_read_replica,
                "records": None if one.records is None else bytes(one.records),
                "tags": one.tags,
            }
            pairs = [(each["producer"], each["first"]) for each in parsed["aborted"] or ()]
            assert pairs == [(each.producer_id, each.first_offset) for each in aborted or ()]


def location_answer(data: bytes) -> None:
    """A grant or a list of segments with replaced, added or missing fields, in an answer with any offsets.

    The first bytes: flags, then the three offsets. The rest: tag, size and value alternately; size 255 removes a field.
    """
    front = data[:7].ljust(7, b"\0")
    flags, *offsets = struct.unpack(">Bhhh", front)
    tags = {} if flags & 1 else dict(_DIALECT.grant_tags(GRANT))
    at = 7
    while at + 1 < len(data):
        tag, size = data[at], data[at + 1]
        number = _OTHER_TAGS.get(tag, _FIRST_TAG + tag % (_LAST_TAG - _FIRST_TAG + 1))
        tags[number] = data[at + 2 : at + 2 + size]
        if size == 255:
            del tags[number]
        at += 2 + (0 if size == 255 else size)
    high, stable, start = (1800 + offset for offset in offsets)
    partition = PartitionData(
        3,
        error_code=flags >> 6,
        high_watermark=high,
        last_stable_offset=stable,
        log_start_offset=start - 1500,
        aborted_transactions=None if flags & 2 else (AbortedTransaction(5, 1100),),
        records=b"record" if flags & 4 else None,
        tags=tags,
    )
    version = _FLEXIBLE[flags >> 3 & 3]
    by_id = version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS
    topic = FetchTopicResponse((partition,), "" if by_id else "t", _TOPIC_ID if by_id else UUID(int=0))
    body = fetch.encode_response(FetchResponse((topic,)), version)
    level = IsolationLevel(flags >> 5 & 1)
    question = LocationQuestion(
        topic="t",
        topic_id=_TOPIC_ID,
        partition=3,
        offset=_OFFSET,
        isolation_level=level,
        formats=("ApacheKafkaV1", "AivenV1"),
    )
    response = fetch.decode_response(body, version)
    with contextlib.suppress(BrokerResponseError, LocationError):
        page = page_of_answer(question, response, start, by_id=by_id, dialect=_DIALECT)
        if isinstance(page, SegmentPage):
            _is_sound_page(page, tags, start)
    try:
        answer = location_of(question, response, sent_at=0.0, by_id=by_id, dialect=_DIALECT)
    except (BrokerResponseError, ProtocolError, UnsupportedFormatError):
        return
    if isinstance(answer, NotRemote):
        return
    _is_sound(answer, tags, high, stable, level)


def _is_sound_page(page: SegmentPage, tags: dict[int, bytes], start: int) -> None:
    """Checks that an accepted page equals its tags, by an independent reading, and that it gets nearer to the list's end."""
    told = list(struct.iter_unpack(">16sqqqqiqq", tags[_LIST]))
    assert [tuple(entry) for entry in page.entries] == told
    at = start
    for _, own_start, own_end, first, following, *_ in told:
        assert max(at, own_start) <= first < following <= own_end + 1
        at = following
    assert page.next_start is None or page.next_start == at > start
    assert (page.next_start is not None) == (_LIST_NEXT in tags)


def _is_sound(answer: SegmentLocation, tags: dict[int, bytes], high: int, stable: int, level: IsolationLevel) -> None:
    """Checks that an accepted grant equals its tags, by an independent reading of their bytes."""
    start, end, size, first, last = struct.unpack_from(">iiiqq", tags[_RANGE])
    end = size if end == -1 else end
    assert answer.metadata.remote_log_segment_id.id.bytes == tags[_SEGMENT_ID]
    parsed = (answer.span.start, answer.span.end, answer.metadata.segment_size_in_bytes)
    assert parsed == (start, end, size)
    assert (answer.metadata.start_offset, answer.metadata.end_offset) == (first, last)
    assert 0 <= start < end <= size
    assert all(one.range.end == two.range.start for one, two in pairwise(answer.ranges))
    assert first <= _OFFSET < answer.next_offset <= last + 1
    bound = stable if level else high
    assert bound < 0 or answer.next_offset <= bound
    assert answer.log_start_offset <= _OFFSET
    if _RANGES in tags:
        ranges, _ = independent.read(
            [("all", [("start", "i32"), ("end", "i32"), ("custom", "bytes?"), ("tags", "tags")])], tags[_RANGES], 0
        )
        assert [(one["start"], one["end"]) for one in ranges["all"]] == [
            (one.range.start, one.range.end) for one in answer.ranges
        ]
    for granted in answer.ranges:
        location_metadata(granted.custom_metadata or b"")


def location_metadata(data: bytes) -> None:
    """The custom metadata of a granted range."""
    try:
        location = LocationMetadata.decode(data)
    except (InvalidStorageResponseError, ForbiddenLocationError):
        return
    assert LocationMetadata.decode(location.encode()) == location
    if not data:
        return
    fields = independent.read_all([("fields", "tags")], data)["fields"]
    parsed = (location.url, location.object_key, location.etag, location.chunk_table, location.data_key)
    texts = [fields[tag].decode() if tag in fields else None for tag in (0, 2, 3)]
    assert parsed == (*texts, fields.get(4), fields.get(5))
    assert not any(set("\r\n\0") & set(name + value) for name, value in location.signed_headers)


def fetch_request(data: bytes) -> None:
    """The frame of a Fetch request, as the shim reads it; the API key is corrected."""
    frame = struct.pack(">h", _FETCH) + data
    try:
        header, body = decode_request_header(frame)
        request = fetch.decode_request(body, header.api_version)
    except ProtocolError:
        return
    again, rest = decode_request_header(encode_request_header(header) + b"rest")
    assert isinstance(again, RequestHeader)
    assert (again, bytes(rest)) == (header, b"rest")
    encoded = fetch.encode_request(request, header.api_version)
    assert fetch.decode_request(encoded, header.api_version) == request
    with contextlib.suppress(ProtocolError, NotGrantedError):
        asks_for_location(request)
        tagged = read_tagged_fetch(request, header.api_version)
        probe = fetch.decode_request(tagged.probe(), header.api_version)
        assert not asks_for_location(probe)
        probed = [partition for topic in probe.topics for partition in topic.partitions]
        assert (probe.max_wait_ms, {partition.partition_max_bytes for partition in probed}) == (0, {0})
        assert [partition.fetch_offset for partition in probed] == [one.offset for one in tagged.partitions]


TARGETS: dict[str, Target] = {
    target.__name__: bounded(target) for target in (fetch_response, location_answer, location_metadata, fetch_request)
}
