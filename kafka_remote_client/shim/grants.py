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

Steps 2, 4 and 5 are those of every location source (:mod:`kafka_remote_client.location.brokers_word`).

References: KIP-1248, KIP-1254, docs/wire-format.md.
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
from kafka_remote_client.location.brokers_word import BrokersWord, only_partition, readable_end
from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, Probes
from kafka_remote_client.model import (
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
from kafka_remote_client.shim.broker import Ask, ClientRequest
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.location_question import (
    DIALECT,
    LocationQuestion,
    asks_for_location,
    location_question,
)

__all__ = ["GrantLimits", "GrantingBroker", "LocationTier", "Window"]

_MAX_REQUEST_BYTES = 64 << 10
_METADATA_VERSION = 12
_COUNTED = {
    ProbeKind.POSITION: (),
    ProbeKind.LINEAGE: (),
    ProbeKind.ABORTED: ("aborted_probes",),
    ProbeKind.ABORTED_IN_TIER: ("aborted_probes", "remote_probes"),
}

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
        self, tip: TopicIdPartition, offset: int, isolation_level: IsolationLevel, *, log_start: int, end: int, window: Window
    ) -> ResolvedSegment | NotRemote:
        """Where ``offset`` lies in the log ``[log_start, end)``. Raises RemoteLogError or RemoteStorageError."""

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
    max_grant_bytes: int = 256 << 20
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
        self._word = BrokersWord()

    def collects(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.FETCH and head.api_version in DIALECT.fetch_versions and length <= _MAX_REQUEST_BYTES

    def claims(self, head: RequestHead, body: bytes) -> bool:
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
        data = only_partition(answer)
        if answer.error_code or data is None or data.error_code or fetch.DIVERGING_EPOCH_TAG in data.tags:
            self._refuse("broker-error")
            return bytes(body)
        resolved, located = await self._resolve(question, data, ask)
        if located.format not in question.wanted.format_versions:
            raise NotGrantedError("format")
        if located.has_data_key and not (secure or self._limits.plaintext_data_keys):
            raise NotGrantedError("plaintext-data-key")
        leader_epoch = question.partition.current_leader_epoch
        aborted = await self._answered(question, self._word.confirm(resolved, question.isolation_level, leader_epoch), ask)
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
        end = readable_end(data, question.offset, question.isolation_level)
        topic_id = question.topic.topic_id
        if question.version < fetch.FIRST_VERSION_WITH_TOPIC_IDS:
            topic_id = await _topic_id(question.topic.topic, ask)
        found = await self._in_worker(partial(self._look_up, question, topic_id, data.log_start_offset, end))
        if isinstance(found, NotRemote):
            raise NotGrantedError(found.reason)
        return found

    def _look_up(
        self, question: LocationQuestion, topic_id: UUID, log_start: int, end: int
    ) -> tuple[ResolvedSegment, LocatedSegment] | NotRemote:
        tip = self._tier.find(question.topic.topic, topic_id, question.partition.partition)
        if tip is None:
            return NotRemote("not-tiered")
        window = self._limits.window(question.wanted.max_bytes)
        found = self._tier.resolve(tip, question.offset, question.isolation_level, log_start=log_start, end=end, window=window)
        return found if isinstance(found, NotRemote) else (found, self._tier.locate(found))

    async def _answered(self, question: LocationQuestion, probes: Probes[_T], ask: Ask) -> _T:
        """What ``probes`` returns when the client's broker answers each."""
        try:
            probe = next(probes)
            while True:
                probe = probes.send(await self._probed(question, probe, ask))
        except StopIteration as done:
            result: _T = done.value
            return result

    async def _probed(self, question: LocationQuestion, probe: Probe, ask: Ask) -> PartitionData | None:
        for name in _COUNTED[probe.kind]:
            self._counters.add(name)
        body = question.probe(
            fetch_offset=probe.offset, last_fetched_epoch=probe.last_fetched_epoch, partition_max_bytes=probe.max_bytes
        )
        answer = fetch.decode_response(await self._ask(question, body, ask), question.version)
        return None if answer.error_code else only_partition(answer)

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


async def _topic_id(topic: str, ask: Ask) -> UUID:
    """The id that the name has now, by the broker: a topic may have been deleted and created again. Raises NotGrantedError."""
    request = metadata.MetadataRequest((metadata.MetadataRequestTopic(topic),), allow_auto_topic_creation=False)
    body = await ask(ApiKey.METADATA, _METADATA_VERSION, metadata.encode_request(request, _METADATA_VERSION))
    for told in metadata.decode_response(body, _METADATA_VERSION).topics:
        if told.name == topic and not told.error_code and told.topic_id != ZERO_UUID:
            return told.topic_id
    raise NotGrantedError("unknown-topic")
