"""A broker that implements the dialect with our own codecs, and a location source for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.model import (
    ByteRange,
    EpochEntry,
    GrantedRange,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
)
from kafka_remote_client.protocol import api_versions, fetch, list_offsets, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse
from kafka_remote_client.protocol.dialect import SegmentGrant, SegmentPage, TaggedDialect
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.list_offsets import ListOffsetsPartitionResponse, OffsetSpec
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataPartition, MetadataResponse, MetadataTopic
from kafka_remote_client.protocol.segment_list import SegmentEntry
from tests.support.questions import question
from tests.support.scripted_peer import PeerConnection, ScriptedPeer, broker_script

__all__ = ["DIALECT", "GRANT", "TOPIC_ID", "FakeBroker", "Setup"]

DIALECT = TaggedDialect()
TOPIC_ID = UUID(int=7)
GRANT = SegmentGrant(
    segment_id=UUID(int=9),
    format="ApacheKafkaV1",
    ranges=(GrantedRange(ByteRange(0, 4096), b""),),
    segment_size=4096,
    start_offset=0,
    end_offset=99,
    leader_epochs=(EpochEntry(0, 0),),
    next_offset=100,
)


class FakeBroker:
    """A broker with one topic "t" of three partitions, which implements the dialect by default.

    Tests change its fields between requests; ``fetches`` are its requests, with the version. ``lists`` has the segments of
    partitions, of which a page has ``page_entries``.
    """

    def __init__(self) -> None:
        self.versions = ApiVersionsResponse(
            api_keys=(
                ApiVersion(ApiKey.FETCH, 4, 18),
                ApiVersion(ApiKey.LIST_OFFSETS, 1, 11),
                ApiVersion(ApiKey.METADATA, 0, 13),
            )
        ).announcing()
        self.topic_id = TOPIC_ID
        self.leader_epoch = 4
        self.leader = ("127.0.0.1", 0)
        self.errors: list[int] = []
        self.pending: set[int] = set()
        self.lists: dict[int, list[SegmentEntry]] = {}
        self.page_entries = 2
        self.answer = fetch.PartitionData(0, 0, 1000, 1000, 0, aborted_transactions=(), tags=DIALECT.grant_tags(GRANT))
        self.offsets = {
            OffsetSpec.EARLIEST: 10,
            OffsetSpec.EARLIEST_LOCAL: 60,
            OffsetSpec.LATEST_TIERED: 80,
            OffsetSpec.LATEST: 90,
        }
        self.fetches: list[tuple[int, fetch.FetchRequest]] = []
        self.metadata_requests: list[metadata.MetadataRequest] = []
        self.throttle_time_ms = 0
        self.before_fetch: Callable[[], None] = lambda: None

    def script(self) -> Callable[[PeerConnection], None]:
        return broker_script(
            {
                ApiKey.API_VERSIONS: lambda header, _: api_versions.encode_response(self.versions, header.api_version),
                ApiKey.METADATA: self._metadata,
                ApiKey.FETCH: self._fetch,
                ApiKey.LIST_OFFSETS: self._list_offsets,
            }
        )

    def _metadata(self, header: RequestHeader, body: bytes) -> bytes:
        self.metadata_requests.append(metadata.decode_request(body, header.api_version))
        partitions = tuple(MetadataPartition(index, 1, leader_epoch=self.leader_epoch) for index in range(3))
        response = MetadataResponse(
            (MetadataBroker(1, *self.leader),), (MetadataTopic("t", partitions, topic_id=self.topic_id),)
        )
        return metadata.encode_response(response, header.api_version)

    def _fetch(self, header: RequestHeader, body: bytes) -> bytes:
        version = header.api_version
        request = fetch.decode_request(body, version)
        self.fetches.append((version, request))
        self.before_fetch()
        topic = request.topics[0]
        answers = tuple(self._listed(request, asked, self._partition(asked.partition)) for asked in topic.partitions)
        response = fetch.FetchTopicResponse(answers, topic.topic, topic.topic_id)
        return fetch.encode_response(fetch.FetchResponse((response,), self.throttle_time_ms), version)

    def _partition(self, partition: int) -> fetch.PartitionData:
        data = attrs.evolve(self.answer, partition_index=partition, error_code=self.errors.pop(0) if self.errors else 0)
        if data.error_code:
            return attrs.evolve(data, tags={})
        return attrs.evolve(data, tags=DIALECT.pending_tags()) if partition in self.pending else data

    def _listed(
        self, request: fetch.FetchRequest, asked: fetch.FetchPartition, data: fetch.PartitionData
    ) -> fetch.PartitionData:
        """Returns the answer with a page of segments, if the request is for a list."""
        start = DIALECT.read_request(request.tags, asked.tags).list_start
        if start is None or data.error_code or asked.partition in self.pending:
            return data
        if asked.partition not in self.lists:
            return data
        left = [entry for entry in self.lists[asked.partition] if entry.first_offset >= start]
        page = tuple(left[: self.page_entries])
        following = page[-1].next_offset if len(left) > len(page) else None
        return attrs.evolve(data, tags=DIALECT.page_tags(SegmentPage(page, following)))

    def _list_offsets(self, header: RequestHeader, body: bytes) -> bytes:
        request = list_offsets.decode_request(body, header.api_version)
        answers = tuple(
            ListOffsetsPartitionResponse(
                asked.partition_index,
                self.errors.pop(0) if self.errors else 0,
                offset=self.offsets[OffsetSpec(asked.timestamp)],
            )
            for asked in request.topics[0].partitions
        )
        response = list_offsets.ListOffsetsTopicResponse(request.topics[0].name, answers)
        return list_offsets.encode_response(list_offsets.ListOffsetsResponse((response,)), header.api_version)


class Setup:
    """A fake broker that is up, and a source that knows it."""

    def __init__(self, broker: FakeBroker, peer: ScriptedPeer) -> None:
        self.broker = broker
        self.peer = peer
        broker.leader = (peer.host, peer.port)
        self.source = BrokerLocationSource(peer.address, client_id="me", clock=SystemClock(), connect_timeout=30)

    def locate(self, **changes: Any) -> SegmentLocation | NotRemote:
        deadline = changes.pop("deadline", None) or Deadline(SystemClock(), 60)
        given = {"topic": "t", "partition": 0, "offset": 5, "leader_epoch": 3, "max_bytes": 1 << 20}
        return locate_one(self.source, question(**{**given, **changes}), deadline)

    def offsets(self) -> PartitionOffsets:
        return self.source.offsets("t", 0, Deadline(SystemClock(), 60))
