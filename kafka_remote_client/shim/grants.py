"""Answers a Fetch that asks for a location, with the broker's own word on everything but the location.

::

    step | what                                                  | asked of
    1    | one partition, no session, a format that we may have  | the request
    2    | error, divergence, log start, high watermark, LSO     | the broker: the same Fetch, 0 bytes, no wait, no tags
    3    | segment, its format, ranges, aborted transactions     | the tier (a worker thread)
    4    | is that segment on the leader's lineage               | the broker: a Fetch at the window's end, with its epoch
    5    | aborted transactions whose marker is still local      | the broker: a Fetch at L, or at L-1 (see aborted_tail)
    6    | a signed URL per range                                | the tier (a worker thread)

Formats differ from segment to segment where a plugin stores some in chunks, so the segment's own is held against the client's
offer after step 3. The key of an encrypted segment goes to clients on encrypted connections only, unless that was waived.

An error or divergence of step 2 is the answer. Whatever else stands in the way means that nothing is granted: the client's
own request goes to the broker unchanged, and the client learns no reason, so that "you may not" and "there is nothing" look
alike. All questions go over the client's own connection: the client's READ right, quotas and fencing are the broker's to judge.

Step 4 closes the one gap of the metadata topic: after an unclean leader election the newest segments in the tier may hold
records that the new leader does not have, until it has tiered its own. Records are the same up to an offset when the leader
epoch before it is (the log-matching property), so one question answers for the whole window; its answer holds as long as the
leader epoch, which the client's own request names.

References: KIP-1248, KIP-1254, KIP-320, KIP-595 (LastFetchedEpoch), docs/wire-format.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

import attrs

from kafka_remote_client.errors import DirectFetchError, ProtocolError
from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    AbortedTransaction,
    GrantedRange,
    IsolationLevel,
    NotRemote,
    TopicIdPartition,
)
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.dialect import SegmentGrant, may_request_location
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.protocol.primitives import ZERO_UUID
from kafka_remote_client.remote_log.layout import LocatedSegment
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.remote_log.window import range_size
from kafka_remote_client.shim.aborted_tail import AbortedTail
from kafka_remote_client.shim.broker import Ask, ClientRequest
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.location_question import (
    DIALECT,
    LocationQuestion,
    NotGrantedError,
    asks_for_location,
    location_question,
)
from kafka_remote_client.shim.remembered import Remembered

__all__ = ["GrantLimits", "GrantingBroker", "LocationTier", "Window"]

_MAX_REQUEST_BYTES = 64 << 10
_METADATA_VERSION = 12
_NO_REPLICA = -1

_T = TypeVar("_T")


@attrs.frozen
class Window:
    """Bytes to be granted, and bytes of one of the ranges that they are granted in."""

    max_bytes: int
    range_bytes: int


class LocationTier(Protocol):
    """What lies in the tier, and how a client gets at it. Called from worker threads."""

    @property
    def formats(self) -> tuple[str, ...]:
        """The storage formats that segments may have."""

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        """The partition, by ``topic_id``; ``topic`` may be empty. ``None`` when nothing of it is tiered."""

    def resolve(
        self, tip: TopicIdPartition, offset: int, isolation_level: IsolationLevel, *, end: int, window: Window
    ) -> ResolvedSegment | NotRemote:
        """Where ``offset`` lies; nothing at or after ``end`` counts. Raises RemoteLogError or RemoteStorageError."""

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        """How its ranges are stored. Raises as :meth:`resolve`."""

    def sign(self, located: LocatedSegment, etag: str | None) -> tuple[GrantedRange, ...]:
        """Its ranges with the custom metadata by which a client reads them. Raises RemoteStorageError."""


@attrs.frozen
class GrantLimits:
    """Bytes of one range and of one grant at most, and the life of a grant in seconds.

    ``plaintext_data_keys``: whether keys of encrypted segments may go over connections that are not encrypted.
    """

    range_bytes: int = 8 << 20
    max_grant_bytes: int = 64 << 20
    url_ttl: float = 120.0
    plaintext_data_keys: bool = False

    def window(self, wanted: int) -> Window:
        """The sizes for a client that wants so many bytes, 0 = does not say."""
        max_bytes = min(wanted or self.range_bytes, self.max_grant_bytes)
        return Window(max_bytes, min(max_bytes, range_size(max_bytes, self.range_bytes)))


class GrantingBroker:
    """The strategy of a shim with a tier. One object serves all connections; its caches are bounded."""

    api_versions: Mapping[int, range] = {}

    def __init__(self, tier: LocationTier, limits: GrantLimits, counters: Counters, workers: Executor) -> None:
        self._tier = tier
        self._limits = limits
        self._counters = counters
        self._workers = workers
        self._on_lineage: Remembered[bool] = Remembered()
        self._aborted_tail = AbortedTail(counters)

    def collects(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.FETCH and head.api_version in DIALECT.fetch_versions and length <= _MAX_REQUEST_BYTES

    def claims(self, head: RequestHead, body: bytes) -> bool:  # noqa: ARG002 - the protocol's signature
        return may_request_location(body)

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        version = request.header.api_version
        asked = fetch.decode_request(request.body, version)
        if not asks_for_location(asked):
            return None  # the bytes looked like our tag by chance
        self._counters.add("location_requests")
        try:
            return await self._grant(location_question(asked, version), ask, secure=request.secure)
        except NotGrantedError as refused:
            self._refuse(refused.why)
        except ProtocolError:
            raise  # the broker's answer to a question of ours does not parse
        except DirectFetchError as error:
            self._refuse(error.cause)
        return None

    def _refuse(self, why: str) -> None:
        self._counters.add(f"locations_refused.{why}")

    async def _grant(self, question: LocationQuestion, ask: Ask, *, secure: bool) -> bytes:
        if not set(self._tier.formats).intersection(question.wanted.format_versions):
            raise NotGrantedError("format")
        body = await self._ask(question, question.probe(), ask)
        answer = fetch.decode_response(body, question.version)
        data = _only_partition(answer)
        if answer.error_code or data is None or data.error_code or fetch.DIVERGING_EPOCH_TAG in data.tags:
            self._refuse("broker-error")
            return bytes(body)
        resolved, located = await self._resolve(question, data, ask)
        if located.format not in question.wanted.format_versions:
            raise NotGrantedError("format")
        if located.has_data_key and not (secure or self._limits.plaintext_data_keys):
            raise NotGrantedError("plaintext-data-key")
        await self._check_lineage(question, resolved, ask)
        aborted = await self._aborted(question, resolved, ask)
        ranges = await self._in_worker(partial(self._tier.sign, located, resolved.etag))
        return self._granted(question, answer, data, self._grant_of(resolved, located.format, ranges), aborted)

    async def _ask(self, question: LocationQuestion, probe: bytes, ask: Ask) -> memoryview:
        self._counters.add("probes")
        return await ask(ApiKey.FETCH, question.version, probe)

    async def _in_worker(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, call)

    async def _resolve(
        self, question: LocationQuestion, data: PartitionData, ask: Ask
    ) -> tuple[ResolvedSegment, LocatedSegment]:
        offset = question.offset
        committed = question.isolation_level is IsolationLevel.READ_COMMITTED
        end = data.last_stable_offset if committed else data.high_watermark
        if data.preferred_read_replica != _NO_REPLICA:
            raise NotGrantedError("preferred-replica")
        if not data.log_start_offset <= offset < end:
            raise NotGrantedError("not-tiered")
        topic_id = question.topic.topic_id
        if question.version < fetch.FIRST_VERSION_WITH_TOPIC_IDS:
            topic_id = await _topic_id(question.topic.topic, ask)
        found = await self._in_worker(partial(self._look_up, question, topic_id, end))
        if isinstance(found, NotRemote):
            raise NotGrantedError(found.reason)
        return found

    def _look_up(
        self, question: LocationQuestion, topic_id: UUID, end: int
    ) -> tuple[ResolvedSegment, LocatedSegment] | NotRemote:
        tip = self._tier.find(question.topic.topic, topic_id, question.partition.partition)
        if tip is None:
            return NotRemote("not-tiered")
        window = self._limits.window(question.wanted.max_bytes)
        found = self._tier.resolve(tip, question.offset, question.isolation_level, end=end, window=window)
        return found if isinstance(found, NotRemote) else (found, self._tier.locate(found))

    async def _check_lineage(self, question: LocationQuestion, resolved: ResolvedSegment, ask: Ask) -> None:
        leader_epoch = question.partition.current_leader_epoch
        key = (resolved.metadata.remote_log_segment_id, resolved.next_offset, leader_epoch)
        if leader_epoch != UNKNOWN_EPOCH and self._on_lineage.get(key):
            return
        epoch = resolved.metadata.epoch_for_offset(resolved.next_offset - 1)
        probe = question.probe(fetch_offset=resolved.next_offset, last_fetched_epoch=epoch)
        answer = fetch.decode_response(await self._ask(question, probe, ask), question.version)
        data = _only_partition(answer)
        if answer.error_code or data is None or data.error_code or fetch.DIVERGING_EPOCH_TAG in data.tags:
            raise NotGrantedError("lineage")
        self._on_lineage.put(key, value=True)

    async def _aborted(
        self, question: LocationQuestion, resolved: ResolvedSegment, ask: Ask
    ) -> tuple[AbortedTransaction, ...] | None:
        if question.isolation_level is not IsolationLevel.READ_COMMITTED:
            return None
        if resolved.aborted_complete:
            return resolved.aborted

        async def fetch_at(offset: int) -> PartitionData | None:
            epoch = UNKNOWN_EPOCH  # the position is ours, not one that the client has read up to
            probe = question.probe(fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=1)
            answer = fetch.decode_response(await self._ask(question, probe, ask), question.version)
            return None if answer.error_code else _only_partition(answer)

        tip = resolved.metadata.topic_id_partition
        leader_epoch = question.partition.current_leader_epoch
        listed = await self._aborted_tail.ask(tip, resolved.tiered_end, leader_epoch, fetch_at)
        if listed is None:
            raise NotGrantedError("aborted-unknown")
        below = (one for one in listed if one.first_offset < resolved.next_offset)
        return tuple(sorted({*resolved.aborted, *below}, key=lambda one: (one.first_offset, one.producer_id)))

    def _grant_of(self, resolved: ResolvedSegment, format_name: str, ranges: tuple[GrantedRange, ...]) -> SegmentGrant:
        segment = resolved.metadata
        return SegmentGrant(
            segment_id=segment.remote_log_segment_id.id,
            format=format_name,
            ranges=ranges,
            segment_size=segment.segment_size_in_bytes,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            leader_epochs=segment.segment_leader_epochs,
            next_offset=resolved.next_offset,
            expires_in_ms=int(self._limits.url_ttl * 1000),
        )

    def _granted(
        self,
        question: LocationQuestion,
        answer: fetch.FetchResponse,
        data: PartitionData,
        grant: SegmentGrant,
        aborted: tuple[AbortedTransaction, ...] | None,
    ) -> bytes:
        try:
            tags = DIALECT.grant_tags(grant)
        except ProtocolError:  # what the tier says about this segment contradicts itself
            raise NotGrantedError("inconsistent") from None
        granted = PartitionData(
            data.partition_index,
            high_watermark=data.high_watermark,
            last_stable_offset=data.last_stable_offset,
            log_start_offset=data.log_start_offset,
            aborted_transactions=aborted,
            records=b"",
            tags=tags,
        )
        self._counters.add("locations_granted")
        self._counters.add("ranges_granted", len(grant.ranges))
        self._counters.add("bytes_granted", grant.span.size)
        topic = attrs.evolve(answer.responses[0], partitions=(granted,))
        response = fetch.FetchResponse((topic,), throttle_time_ms=answer.throttle_time_ms)
        return fetch.encode_response(response, question.version)


def _only_partition(answer: fetch.FetchResponse) -> PartitionData | None:
    if len(answer.responses) != 1 or len(answer.responses[0].partitions) != 1:
        return None
    return answer.responses[0].partitions[0]


async def _topic_id(topic: str, ask: Ask) -> UUID:
    """The id that the name has now, by the broker: a topic may have been deleted and created again. Raises NotGrantedError."""
    request = metadata.MetadataRequest((metadata.MetadataRequestTopic(topic),), allow_auto_topic_creation=False)
    body = await ask(ApiKey.METADATA, _METADATA_VERSION, metadata.encode_request(request, _METADATA_VERSION))
    for told in metadata.decode_response(body, _METADATA_VERSION).topics:
        if told.name == topic and not told.error_code and told.topic_id != ZERO_UUID:
            return told.topic_id
    raise NotGrantedError("unknown-topic")
