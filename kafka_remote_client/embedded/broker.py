"""Makes a mock broker and a tier on disk look like one broker with tiered storage. For the demo and for tests.

librdkafka's mock broker drops the front of its log and has no tier. In the embedded cluster the shim therefore acts as the
tiered broker. All differences from a shim in front of a real broker are in this module::

    request         | missing in the mock                  | what this module does
    ApiVersions 3-4 | an answer that parses                | its answer to version 2, in the requested version
    Fetch           | records below its own log start      | read from the tier's files (embedded/log.py)
                    | LogStartOffset of the tier           | set in the answer
    ListOffsets     | -2 with the tier, -4, -5, by time    | answered from tier and mock together

A tagged Fetch is granted as with a real broker: the requests of the granting strategy use the same Fetch.

The first Fetch is sent to the mock with MaxWaitMs 0, because the mock would wait although the tier has records. If neither has
records, the client's Fetch is sent unchanged.

References: KIP-405; Kafka's ReplicaManager.readFromLog, UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeVar

import attrs

from kafka_remote_client.embedded.log import EmbeddedLog, EmbeddedLogs, end_offset, find_time
from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel
from kafka_remote_client.protocol import api_versions, fetch, list_offsets
from kafka_remote_client.protocol.api_keys import API_VERSIONS, ApiKey
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
    OffsetSpec,
)
from kafka_remote_client.shim.api_versions import announce
from kafka_remote_client.shim.broker import Ask, BrokerStrategy, ClientRequest
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.wire import ZERO_UUID, Buffer

__all__ = ["EmbeddedBroker"]

_T = TypeVar("_T")

_MAX_REQUEST_BYTES = 1 << 20
_MOCK_API_VERSIONS = 2
_MOCK_LIST_OFFSETS = 7
_FETCH_BY_NAME = 12
_FIRST_FETCH_WITH_LOG_START = 5
_SCAN_BYTES = 8 << 20


class EmbeddedBroker:
    """The strategy of the embedded cluster. ``granting``: the strategy that answers tagged requests.

    ``expire_local``: tiered records count as deleted from the mock's log at once, and not only when the mock drops them.
    ``announces`` False: a plain broker, which does not announce direct fetch.
    """

    api_versions: Mapping[int, range] = {
        ApiKey.FETCH: range(_FIRST_FETCH_WITH_LOG_START, 16),
        ApiKey.LIST_OFFSETS: range(1, list_offsets.FIRST_VERSION[OffsetSpec.LATEST_TIERED] + 1),
        ApiKey.API_VERSIONS: range(5),
    }

    def __init__(
        self,
        granting: BrokerStrategy,
        logs: EmbeddedLogs,
        counters: Counters,
        workers: Executor,
        *,
        expire_local: bool = False,
        announces: bool = True,
    ) -> None:
        self._granting = granting
        self._logs = logs
        self._counters = counters
        self._workers = workers
        self._expire_local = expire_local
        self._announces = announces
        self.clients: list[str] = []
        """Address, port and client id of each connection, in the order of their ApiVersions requests."""

    def collects(self, head: RequestHead, length: int) -> bool:
        known: Mapping[int, range] = {
            # The shim announces itself in answers that it forwards.
            ApiKey.API_VERSIONS: API_VERSIONS.versions[_MOCK_API_VERSIONS + 1 if self._announces else 0 :],
            ApiKey.FETCH: self.api_versions[ApiKey.FETCH],
            ApiKey.LIST_OFFSETS: self.api_versions[ApiKey.LIST_OFFSETS],
        }
        return head.api_version in known.get(head.api_key, ()) and length <= _MAX_REQUEST_BYTES

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return True

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        version, body = request.header.api_version, request.body
        if request.header.api_key == ApiKey.API_VERSIONS:
            self.clients.append(f"{request.client} {request.header.client_id or ''}")
            return await self._api_versions(version, ask)
        if request.header.api_key == ApiKey.LIST_OFFSETS:
            return await self._list_offsets(version, body, ask)

        async def ask_as_broker(api_key: int, version: int, body: Buffer) -> memoryview:
            if api_key == ApiKey.FETCH:
                return memoryview(await self._fetch(version, body, ask))
            return await ask(api_key, version, body)

        head = RequestHead(request.header.api_key, version, request.header.correlation_id)
        if self._granting.collects(head, len(body)) and self._granting.claims(head, bytes(body)):
            granted = await self._granting.answer(request, ask_as_broker)
            if granted is not None:
                return granted
        return await self._fetch(version, body, ask)

    async def _api_versions(self, version: int, ask: Ask) -> bytes:
        parsed = api_versions.decode_response(await ask(ApiKey.API_VERSIONS, _MOCK_API_VERSIONS, b""), _MOCK_API_VERSIONS)
        encoded = api_versions.encode_response(parsed, version)
        return announce(version, encoded, self.api_versions, direct_fetch=self._announces)

    # Fetch.

    async def _fetch(self, version: int, body: Buffer, ask: Ask) -> bytes:
        request = fetch.decode_request(body, version)
        at_once = attrs.evolve(request, max_wait_ms=0)
        for attempt in (at_once, request):
            parsed = await ask(ApiKey.FETCH, version, fetch.encode_request(attempt, version))
            response = fetch.decode_response(parsed, version)
            merged = await self._work(lambda: self._with_tier(request, response))  # noqa: B023 - awaited in this turn
            if not request.max_wait_ms or _has_records_or_error(merged):
                break
        return fetch.encode_response(merged, version)

    def _with_tier(self, request: fetch.FetchRequest, response: fetch.FetchResponse) -> fetch.FetchResponse:
        asked = {
            (topic.topic, topic.topic_id, partition.partition): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        left = request.max_bytes
        isolation = request.isolation_level
        topics = []
        for topic in response.responses:
            partitions = []
            for data in topic.partitions:
                wanted = asked.get((topic.topic, topic.topic_id, data.partition_index))
                log = self._logs.log(topic.topic, topic.topic_id, data.partition_index)
                answer = data if wanted is None or log is None else self._of_partition(log, wanted, data, left, isolation)
                left -= len(answer.records or b"")
                partitions.append(answer)
            topics.append(attrs.evolve(topic, partitions=tuple(partitions)))
        return attrs.evolve(response, responses=tuple(topics))

    def _of_partition(
        self, log: EmbeddedLog, wanted: fetch.FetchPartition, data: fetch.PartitionData, left: int, isolation: int
    ) -> fetch.PartitionData:
        if data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            return data
        local_start = self._local_start(log, data.log_start_offset)
        data = attrs.evolve(data, log_start_offset=log.start)
        if wanted.fetch_offset < log.start:
            return attrs.evolve(data, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")
        if wanted.fetch_offset >= min(log.end, local_start):
            return data
        records, aborted = b"", data.aborted_transactions
        if wanted.partition_max_bytes > 0 and left > 0:
            size = min(wanted.partition_max_bytes, left)
            records, overlapping = log.read(wanted.fetch_offset, size)
            if isolation == IsolationLevel.READ_COMMITTED:
                aborted = overlapping
            self._counters.add("broker_tier_reads")
            self._counters.add("broker_tier_bytes", len(records))
        return attrs.evolve(data, error_code=ErrorCode.NONE, records=records, aborted_transactions=aborted)

    def _local_start(self, log: EmbeddedLog, mock_start: int) -> int:
        return max(mock_start, log.end) if self._expire_local else mock_start

    # ListOffsets.

    async def _list_offsets(self, version: int, body: Buffer, ask: Ask) -> bytes:
        request = list_offsets.decode_request(body, version)
        earliest = await self._ask_offsets(request, OffsetSpec.EARLIEST, ask)
        latest = await self._ask_offsets(request, OffsetSpec.LATEST, ask)
        topics = []
        for topic in request.topics:
            partitions = []
            for wanted in topic.partitions:
                key = topic.name, wanted.partition_index
                answer = earliest[key]
                if not answer.error_code:
                    answer = await self._offset(topic.name, wanted, answer, latest[key], ask)
                partitions.append(answer)
            topics.append(ListOffsetsTopicResponse(topic.name, tuple(partitions)))
        return list_offsets.encode_response(list_offsets.ListOffsetsResponse(tuple(topics)), version)

    async def _ask_offsets(
        self, request: list_offsets.ListOffsetsRequest, spec: OffsetSpec, ask: Ask
    ) -> Mapping[tuple[str, int], ListOffsetsPartitionResponse]:
        topics = tuple(
            attrs.evolve(topic, partitions=tuple(attrs.evolve(one, timestamp=int(spec)) for one in topic.partitions))
            for topic in request.topics
        )
        body = list_offsets.encode_request(attrs.evolve(request, topics=topics), _MOCK_LIST_OFFSETS)
        parsed = list_offsets.decode_response(await ask(ApiKey.LIST_OFFSETS, _MOCK_LIST_OFFSETS, body), _MOCK_LIST_OFFSETS)
        return {(topic.name, one.partition_index): one for topic in parsed.topics for one in topic.partitions}

    async def _offset(
        self,
        topic: str,
        wanted: ListOffsetsPartition,
        earliest: ListOffsetsPartitionResponse,
        latest: ListOffsetsPartitionResponse,
        ask: Ask,
    ) -> ListOffsetsPartitionResponse:
        log = await self._work(lambda: self._logs.log(topic, ZERO_UUID, wanted.partition_index))
        if wanted.timestamp >= 0:
            return await self._offset_for_time(topic, wanted, log, earliest, ask)
        offsets = {
            OffsetSpec.EARLIEST: earliest.offset if log is None else log.start,
            OffsetSpec.LATEST: latest.offset,
            OffsetSpec.EARLIEST_LOCAL: earliest.offset if log is None else self._local_start(log, earliest.offset),
            OffsetSpec.LATEST_TIERED: UNKNOWN_OFFSET if log is None else log.end - 1,
        }
        if wanted.timestamp not in offsets:
            return attrs.evolve(earliest, error_code=ErrorCode.UNSUPPORTED_VERSION, offset=UNKNOWN_OFFSET)
        return attrs.evolve(earliest, offset=offsets[OffsetSpec(wanted.timestamp)])

    async def _offset_for_time(
        self,
        topic: str,
        wanted: ListOffsetsPartition,
        log: EmbeddedLog | None,
        earliest: ListOffsetsPartitionResponse,
        ask: Ask,
    ) -> ListOffsetsPartitionResponse:
        found = None if log is None else await self._work(lambda: log.find_time(wanted.timestamp))
        if found is not None:
            return attrs.evolve(earliest, offset=found.offset, timestamp=found.timestamp, leader_epoch=found.leader_epoch)
        offset = earliest.offset if log is None else max(log.end, earliest.offset)
        while records := await self._local_records(topic, wanted.partition_index, offset, ask):
            if found := find_time(records, wanted.timestamp):
                return attrs.evolve(earliest, offset=found.offset, timestamp=found.timestamp, leader_epoch=found.leader_epoch)
            offset = end_offset(records)
        return attrs.evolve(earliest, offset=UNKNOWN_OFFSET)

    async def _local_records(self, topic: str, partition: int, offset: int, ask: Ask) -> bytes:
        wanted = fetch.FetchTopic((fetch.FetchPartition(partition, offset, _SCAN_BYTES),), topic)
        body = fetch.encode_request(fetch.FetchRequest((wanted,), max_bytes=_SCAN_BYTES), _FETCH_BY_NAME)
        answer = fetch.decode_response(await ask(ApiKey.FETCH, _FETCH_BY_NAME, body), _FETCH_BY_NAME)
        return bytes(answer.responses[0].partitions[0].records or b"")

    async def _work(self, job: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, job)


def _has_records_or_error(response: fetch.FetchResponse) -> bool:
    """Returns whether the answer has records, or an error for the client."""
    return bool(response.error_code) or any(
        data.error_code or data.records for topic in response.responses for data in topic.partitions
    )
