"""A tier and a broker for tests of grants: both answer what they are told to and remember what they were asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.location_metadata import LocationMetadata
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
from kafka_remote_client.protocol.primitives import Buffer
from kafka_remote_client.remote_log.layout import LocatedRange, LocatedSegment
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.shim.broker import ClientRequest
from kafka_remote_client.shim.grants import Window

__all__ = ["SEGMENT", "TIP", "FakeAsk", "FakeTier", "client_request", "resolved", "tagged_fetch"]

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
    """Offset 120 in two ranges up to 160, nothing aborted, the tier ends at 300."""
    given = ResolvedSegment(
        metadata=SEGMENT,
        object_key="orders/segment.log",
        fetch_offset=120,
        ranges=(ByteRange(1000, 2000), ByteRange(2000, 4500)),
        next_offset=160,
        aborted=(),
        aborted_complete=True,
        tiered_end=300,
        lineage=LeaderEpochLineage([EpochEntry(2, 0), EpochEntry(4, 150)]),
    )
    return attrs.evolve(given, **changes)


class FakeTier:
    """A LocationTier with one partition. ``answer`` is returned by resolve, or raised."""

    formats: tuple[str, ...] = ("ApacheKafkaV1",)

    def __init__(self, answer: ResolvedSegment | NotRemote | Exception | None = None) -> None:
        self.answer = resolved() if answer is None else answer
        self.calls: list[tuple[TopicIdPartition, int, IsolationLevel, int, int, Window]] = []
        self.located_as = "ApacheKafkaV1"
        self.data_key: bytes | None = None

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        known = (topic_id, partition) == (TIP.topic_id, TIP.partition) and topic in ("", TIP.topic)
        return TIP if known else None

    def resolve(
        self, tip: TopicIdPartition, offset: int, isolation_level: IsolationLevel, *, log_start: int, end: int, window: Window
    ) -> ResolvedSegment | NotRemote:
        self.calls.append((tip, offset, isolation_level, log_start, end, window))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        location = LocationMetadata(object_key=resolved.object_key, data_key=self.data_key)
        return LocatedSegment(self.located_as, tuple(LocatedRange(one, one, location) for one in resolved.ranges))

    def sign(self, located: LocatedSegment, etag: str | None) -> tuple[GrantedRange, ...]:
        return tuple(GrantedRange(one.range, self._signed(one, etag)) for one in located.ranges)

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
    """The broker behind a client's connection. ``answers`` gives partition data by what is fetched; all else is ``data()``."""

    def __init__(self, answers: Callable[[fetch.FetchPartition], fetch.PartitionData | None] = lambda _asked: None) -> None:
        self._answers = answers
        self.fetches: list[fetch.FetchRequest] = []
        self.metadata_topics: list[str | None] = []
        self.topics: tuple[metadata.MetadataTopic, ...] = (metadata.MetadataTopic(TIP.topic, topic_id=TIP.topic_id),)
        self.error_code = 0
        self.throttle_time_ms = 0

    @property
    def partitions(self) -> list[fetch.FetchPartition]:
        """The one partition of each Fetch so far."""
        return [request.topics[0].partitions[0] for request in self.fetches]

    async def __call__(self, api_key: int, version: int, body: Buffer) -> memoryview:
        if api_key == ApiKey.METADATA:
            request = metadata.decode_request(body, version)
            self.metadata_topics += [topic.name for topic in request.topics or ()]
            return memoryview(metadata.encode_response(metadata.MetadataResponse((), self.topics), version))
        assert api_key == ApiKey.FETCH
        asked = fetch.decode_request(body, version)
        self.fetches.append(asked)
        (topic,) = asked.topics
        told = self._answers(topic.partitions[0]) or data()
        answer = fetch.FetchTopicResponse((told,), topic.topic, topic.topic_id)
        response = fetch.FetchResponse((answer,), throttle_time_ms=self.throttle_time_ms, error_code=self.error_code)
        return memoryview(fetch.encode_response(response, version))


def tagged_fetch(
    *,
    offset: int = 120,
    isolation_level: int = IsolationLevel.READ_COMMITTED,
    max_bytes: int = 8 << 20,
    formats: tuple[str, ...] = ("Other", "ApacheKafkaV1"),
    requested: bool = True,
    partition: dict[str, Any] | None = None,
    **changes: Any,
) -> fetch.FetchRequest:
    """A Fetch of the partition that asks for a location, with leader epoch 9 as the client knows it."""
    root, tags = TaggedDialect().request_tags(LocationRequest(formats, requested, max_bytes))
    wanted = fetch.FetchPartition(TIP.partition, offset, 1, current_leader_epoch=9, last_fetched_epoch=2, tags=tags)
    topic = fetch.FetchTopic((attrs.evolve(wanted, **partition or {}),), TIP.topic, TIP.topic_id)
    given = fetch.FetchRequest((topic,), max_wait_ms=500, min_bytes=1, max_bytes=1, isolation_level=isolation_level, tags=root)
    return attrs.evolve(given, **changes)


def client_request(request: fetch.FetchRequest, version: int = 13, *, secure: bool = False) -> ClientRequest:
    """The request as a strategy gets it."""
    body = fetch.encode_request(request, version)
    return ClientRequest(RequestHeader(ApiKey.FETCH, version, 1, "me"), memoryview(body), secure)
