"""A tier and a broker for tests of grants: both are scripted and record their requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    ByteRange,
    EpochEntry,
    GrantedRange,
    IsolationLevel,
    NotRemote,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.remote_log.layout import LocatedRange, LocatedSegment
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.shim.broker_strategy import ClientRequest
from kafka_remote_client.shim.client_admission import QUESTION_VERSION, ClientAdmission
from kafka_remote_client.wire import Buffer

__all__ = [
    "SEGMENT",
    "TIP",
    "FakeAsk",
    "FakeTier",
    "admitted_client",
    "batched_fetch",
    "client_request",
    "data",
    "resolved",
    "tagged_fetch",
]

_SERVED = metadata.encode_response(
    metadata.MetadataResponse((metadata.MetadataBroker(1, "broker", 9092),), ()), QUESTION_VERSION
)


def admitted_client() -> ClientAdmission:
    """A client that its broker serves."""
    admission = ClientAdmission()
    admission.answered(_SERVED)
    return admission


TIP = TopicIdPartition(UUID(int=77), "orders", 3)
SEGMENT = RemoteLogSegmentMetadata(
    remote_log_segment_id=RemoteLogSegmentId(TIP, UUID(int=5)),
    start_offset=100,
    end_offset=199,
    max_timestamp_ms=0,
    broker_id=1,
    event_timestamp_ms=0,
    segment_leader_epochs=(EpochEntry(2, 100), EpochEntry(4, 150)),
    segment_size_in_bytes=10_000,
)


def resolved(**changes: Any) -> ResolvedSegment:
    """Offset 120 in two ranges up to 160, nothing aborted, all segments up to 300 were searched."""
    given = ResolvedSegment(
        metadata=SEGMENT,
        object_key="orders/segment.log",
        fetch_offset=120,
        ranges=(ByteRange(1000, 2000), ByteRange(2000, 4500)),
        range_offsets=(118, 131),
        next_offset=160,
        aborted=(),
        aborted_complete=True,
        searched_end=300,
        searched_epoch=4,
    )
    return attrs.evolve(given, **changes)


class FakeTier:
    """A LocationTier with ``partitions`` of one topic. ``answer`` is returned by resolve, or raised.

    ``listed``: the segments of each partition; ``None`` = not ready; an error is raised.
    """

    formats: tuple[str, ...] = ("ApacheKafkaV1",)

    def __init__(self, answer: ResolvedSegment | NotRemote | Exception | None = None) -> None:
        self.answer = resolved() if answer is None else answer
        self.calls: list[LocationQuestion] = []
        self.partitions: Container[int] = (TIP.partition,)
        self.located_as = "ApacheKafkaV1"
        self.data_key: bytes | None = None
        self.url_ttls: list[float | None] = []
        self.life = math.inf
        self.listed: Sequence[TieredSegment] | Exception | None = ()

    def segments(
        self, topic_id_partition: TopicIdPartition, start: int = 0, most: int | None = None
    ) -> list[TieredSegment] | None:
        if isinstance(self.listed, Exception):
            raise self.listed
        if self.listed is None:
            return None
        return [segment for segment in self.listed if segment.start >= start][:most]

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        known = topic_id == TIP.topic_id and partition in self.partitions and topic in ("", TIP.topic)
        return attrs.evolve(TIP, partition=partition) if known else None

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        self.calls.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        location = LocationMetadata(object_key=resolved.object_key, data_key=self.data_key)
        ranges = zip(resolved.ranges, resolved.range_offsets, strict=True)
        return LocatedSegment(self.located_as, tuple(LocatedRange(one, one, location, offset) for one, offset in ranges))

    def sign(
        self, located: LocatedSegment, etag: str | None, url_ttl: float | None = None
    ) -> tuple[tuple[GrantedRange, ...], float]:
        self.url_ttls.append(url_ttl)
        ranges = tuple(GrantedRange(one.range, self._signed(one, etag), one.first_offset) for one in located.ranges)
        return ranges, min(url_ttl or self.life, self.life)

    def _signed(self, one: LocatedRange, etag: str | None) -> bytes:
        url = f"http://store/{one.location.object_key}?{one.object_range.start}"
        return attrs.evolve(one.location, url=url, etag=etag).encode()


def data(**changes: Any) -> fetch.PartitionData:
    """A broker's answer for the partition: log from 50 to 1000, all of it stable, an empty list."""
    given = fetch.PartitionData(
        TIP.partition,
        high_watermark=1000,
        last_stable_offset=1000,
        log_start_offset=50,
        aborted_transactions=(),
        records=b"",
    )
    return attrs.evolve(given, **changes)


class FakeAsk:
    """The broker behind a client's connection.

    ``answers`` has partition data by fetch offset, to which the partition's number is added; the default is ``data()``.
    """

    def __init__(self, answers: Callable[[fetch.FetchPartition], fetch.PartitionData | None] = lambda _asked: None) -> None:
        self._answers = answers
        self.fetches: list[fetch.FetchRequest] = []
        self.metadata_topics: list[str | None] = []
        self.topics: tuple[metadata.MetadataTopic, ...] = (metadata.MetadataTopic(TIP.topic, topic_id=TIP.topic_id),)
        self.error_code = 0
        self.throttle_time_ms = 0

    @property
    def partitions(self) -> list[fetch.FetchPartition]:
        """The partition of each Fetch with one partition so far."""
        return [request.topics[0].partitions[0] for request in self.fetches if len(request.topics[0].partitions) == 1]

    async def __call__(self, api_key: int, version: int, body: Buffer) -> memoryview:
        if api_key == ApiKey.METADATA:
            request = metadata.decode_request(body, version)
            assert not request.allow_auto_topic_creation, "a question of the shim's creates no topic"
            self.metadata_topics += [topic.name for topic in request.topics or ()]
            return memoryview(metadata.encode_response(metadata.MetadataResponse((), self.topics), version))
        assert api_key == ApiKey.FETCH
        asked = fetch.decode_request(body, version)
        self.fetches.append(asked)
        answers = (fetch.FetchTopicResponse(self._told(topic), topic.topic, topic.topic_id) for topic in asked.topics)
        response = fetch.FetchResponse(tuple(answers), throttle_time_ms=self.throttle_time_ms, error_code=self.error_code)
        return memoryview(fetch.encode_response(response, version))

    def _told(self, topic: fetch.FetchTopic) -> tuple[fetch.PartitionData, ...]:
        return tuple(
            attrs.evolve(self._answers(asked) or data(), partition_index=asked.partition) for asked in topic.partitions
        )


def tagged_fetch(
    *,
    offset: int = 120,
    isolation_level: int = IsolationLevel.READ_COMMITTED,
    max_bytes: int = 8 << 20,
    formats: tuple[str, ...] = ("Other", "ApacheKafkaV1"),
    requested: bool = True,
    wanted: dict[str, Any] | None = None,
    partition: dict[str, Any] | None = None,
    **changes: Any,
) -> fetch.FetchRequest:
    """A Fetch with a location request for the partition, with leader epoch 9 as the client's.

    ``wanted``: more of the LocationRequest; ``partition``: changes to the FetchPartition.
    """
    root, tags = TaggedDialect().request_tags(LocationRequest(formats, requested, max_bytes, **wanted or {}))
    asked = fetch.FetchPartition(TIP.partition, offset, 1, current_leader_epoch=9, last_fetched_epoch=2, tags=tags)
    topic = fetch.FetchTopic((attrs.evolve(asked, **partition or {}),), TIP.topic, TIP.topic_id)
    given = fetch.FetchRequest((topic,), max_wait_ms=500, min_bytes=1, max_bytes=1, isolation_level=isolation_level, tags=root)
    return attrs.evolve(given, **changes)


def batched_fetch(*partitions: int, **changes: Any) -> fetch.FetchRequest:
    """The same for several partitions of the topic, in one batch that may wait for a minute."""
    given = {"max_wait_ms": 60_000, "wanted": {"batched": True}, **changes}
    request = tagged_fetch(**given)
    (topic,) = request.topics
    asked = tuple(attrs.evolve(topic.partitions[0], partition=number) for number in partitions)
    return attrs.evolve(request, topics=(attrs.evolve(topic, partitions=asked),))


def client_request(request: fetch.FetchRequest, version: int = 13, *, secure: bool = False) -> ClientRequest:
    """Returns the request in the form for a strategy."""
    body = fetch.encode_request(request, version)
    return ClientRequest(RequestHeader(ApiKey.FETCH, version, 1, "me"), memoryview(body), secure)
