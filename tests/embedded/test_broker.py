"""The answers that the embedded broker gives in place of the mock, message by message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.embedded.broker import EmbeddedBroker
from kafka_remote_client.embedded.log import EmbeddedLogs
from kafka_remote_client.protocol import api_versions, fetch, list_offsets
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.list_offsets import OffsetSpec
from kafka_remote_client.shim.broker import ClientRequest, PassThrough
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.wire import Buffer
from tests.support.shim_fakes import FakeAsk
from tests.support.tier import TIP, batch

ARCHIVED = [batch(10 * number, 10) for number in range(5)]
LOCAL = [batch(10 * number, 10) for number in range(3, 8)]
SECOND = 8
"""Another partition with the same records."""
MOCK = api_versions.ApiVersionsResponse(
    api_keys=(api_versions.ApiVersion(ApiKey.API_VERSIONS, 0, 2), api_versions.ApiVersion(ApiKey.LIST_OFFSETS, 0, 7))
)


class Mock:
    """A mock broker whose log begins at 30 and ends at 80; the tier holds 0 to 49."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def __call__(self, api_key: int, version: int, body: Buffer) -> memoryview:
        if api_key == ApiKey.API_VERSIONS:
            assert version == 2
            return memoryview(api_versions.encode_response(MOCK, 2))
        if api_key == ApiKey.FETCH:
            return memoryview(fetch.encode_response(self._fetch(fetch.decode_request(body, version)), version))
        assert (api_key, version) == (ApiKey.LIST_OFFSETS, 7)
        return memoryview(list_offsets.encode_response(self._offsets(list_offsets.decode_request(body, 7)), 7))

    def _fetch(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        self.asked.append(request)
        return fetch.FetchResponse(
            tuple(
                fetch.FetchTopicResponse(tuple(self._data(one) for one in topic.partitions), topic.topic, topic.topic_id)
                for topic in request.topics
            )
        )

    def _data(self, asked: fetch.FetchPartition) -> fetch.PartitionData:
        if asked.partition == 9:
            return fetch.PartitionData(9, error_code=3)
        inside = 30 <= asked.fetch_offset <= 80
        found = [one for number, one in enumerate(LOCAL, 3) if 10 * number + 9 >= asked.fetch_offset][:1] if inside else []
        return fetch.PartitionData(asked.partition, 0 if inside else 1, 80, 80, 30, (), records=b"".join(found))

    def _offsets(self, request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            partitions = [
                list_offsets.ListOffsetsPartitionResponse(9, error_code=3)
                if one.partition_index == 9
                else list_offsets.ListOffsetsPartitionResponse(
                    one.partition_index, offset={OffsetSpec.EARLIEST: 30, OffsetSpec.LATEST: 80}[OffsetSpec(one.timestamp)]
                )
                for one in topic.partitions
            ]
            topics.append(list_offsets.ListOffsetsTopicResponse(topic.name, tuple(partitions)))
        return list_offsets.ListOffsetsResponse(tuple(topics))


class Made:
    """An embedded broker with that tier and that mock."""

    def __init__(self, workers: ThreadPoolExecutor, directory: Path, **options: bool) -> None:
        path = directory / "segment.log"
        path.write_bytes(b"".join(ARCHIVED))
        logs = EmbeddedLogs()
        for partition in (TIP.partition, SECOND):
            logs.append(attrs.evolve(TIP, partition=partition), path, b"".join(ARCHIVED))
        self.mock = Mock()
        self.counters = Counters()
        self.broker = EmbeddedBroker(PassThrough(), logs, self.counters, workers, **options)

    def answer(self, key: int, version: int, body: bytes) -> bytes:
        request = ClientRequest(RequestHeader(key, version, 1), memoryview(body))
        answer = asyncio.run(self.broker.answer(request, self.mock))
        assert answer is not None
        return answer

    def fetch(self, *partitions: fetch.FetchPartition, version: int = 12, **changes: Any) -> list[fetch.PartitionData]:
        topic = fetch.FetchTopic(partitions, TIP.topic, TIP.topic_id)
        given = fetch.FetchRequest((topic,), max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)
        request = attrs.evolve(given, **changes)
        answer = fetch.decode_response(self.answer(ApiKey.FETCH, version, fetch.encode_request(request, version)), version)
        return list(answer.responses[0].partitions)

    def offset(
        self, timestamp: int, partition: int = TIP.partition, version: int = 9
    ) -> list_offsets.ListOffsetsPartitionResponse:
        wanted = list_offsets.ListOffsetsTopic(TIP.topic, (list_offsets.ListOffsetsPartition(partition, timestamp),))
        body = list_offsets.encode_request(list_offsets.ListOffsetsRequest((wanted,)), version)
        answer = list_offsets.decode_response(self.answer(ApiKey.LIST_OFFSETS, version, body), version)
        return answer.topics[0].partitions[0]


@pytest.fixture(scope="module")
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def made(workers: ThreadPoolExecutor, tmp_path: Path) -> Made:
    return Made(workers, tmp_path)


def at(offset: int, max_bytes: int = 1 << 20, partition: int = TIP.partition) -> fetch.FetchPartition:
    return fetch.FetchPartition(partition, offset, max_bytes)


@pytest.mark.parametrize("version", [5, 11, 12, 13, 15])
def test_records_dropped_by_the_mock_come_from_the_tier(made: Made, version: int) -> None:
    (data,) = made.fetch(at(15), version=version)
    assert (data.error_code, data.high_watermark) == (0, 80)
    assert data.log_start_offset == 0
    assert bytes(data.records or b"") == b"".join(ARCHIVED[1:])
    assert made.counters["broker_tier_reads"] == 1


def test_records_in_the_mock_come_from_the_mock(made: Made) -> None:
    (data,) = made.fetch(at(35))
    assert bytes(data.records or b"") == LOCAL[0]
    assert data.log_start_offset == 0
    assert made.counters["broker_tier_reads"] == 0


def test_archived_records_can_be_expired_from_the_mock(workers: ThreadPoolExecutor, tmp_path: Path) -> None:
    made = Made(workers, tmp_path, expire_local=True)
    assert bytes(made.fetch(at(35))[0].records or b"") == b"".join(ARCHIVED[3:])
    assert bytes(made.fetch(at(55))[0].records or b"") == LOCAL[2]
    assert made.offset(OffsetSpec.EARLIEST_LOCAL).offset == 50


def test_a_fetch_below_the_log_start_is_out_of_range(made: Made) -> None:
    log = made.broker._logs.log(TIP.topic, TIP.topic_id, TIP.partition)
    assert log is not None
    log._stored = [one for one in log._stored if one.batch.base_offset >= 40]
    (data,) = made.fetch(at(39))  # which the mock still has
    assert (data.error_code, data.log_start_offset, data.records) == (1, 40, b"")
    (data,) = made.fetch(at(40))
    assert data.error_code == 0


def test_the_mock_waits_only_if_no_partition_has_records(made: Made) -> None:
    made.fetch(at(15))
    assert [request.max_wait_ms for request in made.mock.asked] == [0]
    made.mock.asked.clear()
    assert made.fetch(at(80))[0].records == b""
    assert [request.max_wait_ms for request in made.mock.asked] == [0, 500]


def test_a_fetch_that_does_not_wait_is_sent_once(made: Made) -> None:
    made.fetch(at(80), max_wait_ms=0)
    assert len(made.mock.asked) == 1


def test_errors_are_answered_at_once(made: Made) -> None:
    unknown, beyond, below = made.fetch(at(0, partition=9), at(81), at(5, partition=6))
    assert (unknown.error_code, beyond.error_code, below.error_code) == (3, 1, 1)
    assert len(made.mock.asked) == 1


def test_zero_bytes_give_no_records_and_one_byte_gives_a_batch(made: Made) -> None:
    assert made.fetch(at(15, 0))[0].records == b""
    assert made.fetch(at(15, 0))[0].error_code == 0
    assert bytes(made.fetch(at(15, 1))[0].records or b"") == ARCHIVED[1]


def test_max_bytes_bounds_the_whole_answer(made: Made) -> None:
    first, second = made.fetch(at(5), at(5, partition=SECOND), max_bytes=1)
    assert bytes(first.records or b"") == ARCHIVED[0]
    assert (second.error_code, second.records) == (0, b"")
    assert made.counters["broker_tier_reads"] == 1


def test_a_topic_may_be_given_by_name_or_id(made: Made) -> None:
    topic = fetch.FetchTopic((at(5),), topic_id=UUID(int=4))
    request = fetch.FetchRequest((topic,), max_bytes=100)
    body = made.answer(ApiKey.FETCH, 13, fetch.encode_request(request, 13))
    assert fetch.decode_response(body, 13).responses[0].partitions[0].error_code == 1


@pytest.mark.parametrize("version", [1, 3, 4, 7, 9])
@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (OffsetSpec.EARLIEST, 0),
        (OffsetSpec.LATEST, 80),
        (OffsetSpec.EARLIEST_LOCAL, 30),
        (OffsetSpec.LATEST_TIERED, 49),
        (1025, 25),
        (1065, 65),
        (5000, -1),
    ],
)
def test_offsets_are_those_of_both_tiers(made: Made, version: int, spec: int, offset: int) -> None:
    found = made.offset(spec, version=version)
    assert (found.error_code, found.offset) == (0, offset)
    if spec > 0:
        assert found.timestamp == (spec if offset >= 0 else -1)


def test_a_partition_without_archived_records_has_the_mocks_offsets(made: Made) -> None:
    assert made.offset(OffsetSpec.EARLIEST, partition=1).offset == 30
    assert made.offset(OffsetSpec.EARLIEST_LOCAL, partition=1).offset == 30
    assert made.offset(OffsetSpec.LATEST_TIERED, partition=1).offset == -1
    assert made.offset(1065, partition=1).offset == 65


def test_errors_of_the_mock_and_unknown_offset_specs_are_errors(made: Made) -> None:
    assert made.offset(OffsetSpec.EARLIEST, partition=9).error_code == 3
    unknown = made.offset(OffsetSpec.EARLIEST_PENDING_UPLOAD)
    assert (unknown.error_code, unknown.offset) == (35, -1)


@pytest.mark.parametrize("version", [3, 4])
def test_versions_are_answered_in_newer_formats(made: Made, version: int) -> None:
    body = made.answer(ApiKey.API_VERSIONS, version, b"\x02a\x02b\0")
    told = api_versions.decode_response(body, version)
    assert told.announces_direct_fetch
    assert told.best_version(ApiKey.API_VERSIONS, range(9)) == 4
    assert told.best_version(ApiKey.LIST_OFFSETS, range(20)) == 9


@pytest.mark.parametrize("version", [0, 3, 4])
def test_plain_broker_does_not_announce_direct_fetch(workers: ThreadPoolExecutor, tmp_path: Path, version: int) -> None:
    made = Made(workers, tmp_path, announces=False)
    body = b"\x02a\x02b\0" if version >= 3 else b""
    told = api_versions.decode_response(made.answer(ApiKey.API_VERSIONS, version, body), version)
    assert not told.announces_direct_fetch
    assert told.best_version(ApiKey.LIST_OFFSETS, range(20)) == 9


def test_a_granted_location_is_the_answer(workers: ThreadPoolExecutor, tmp_path: Path) -> None:
    made = Made(workers, tmp_path)

    class Granting(PassThrough):
        def collects(self, head: RequestHead, length: int) -> bool:
            return True

        def claims(self, head: RequestHead, body: bytes) -> bool:
            return True

        async def answer(self, request: ClientRequest, ask: Any) -> bytes | None:
            probe = fetch.encode_request(fetch.FetchRequest((fetch.FetchTopic((at(15),), TIP.topic),), max_bytes=1), 12)
            told = fetch.decode_response(await ask(ApiKey.FETCH, 12, probe), 12)
            assert told.responses[0].partitions[0].error_code == 0, "questions go to the tier as well"
            await ask(ApiKey.API_VERSIONS, 2, b"")
            return b"granted"

    made.broker._granting = Granting()
    assert made.answer(ApiKey.FETCH, 12, b"whatever it is") == b"granted"


def test_only_requests_that_it_answers_are_collected(made: Made) -> None:
    looks = made.broker.collects
    assert looks(RequestHead(ApiKey.FETCH, 5, 1), 100)
    assert looks(RequestHead(ApiKey.LIST_OFFSETS, 9, 1), 100)
    assert looks(RequestHead(ApiKey.API_VERSIONS, 3, 1), 100)
    assert not looks(RequestHead(ApiKey.API_VERSIONS, 2, 1), 100)
    assert not looks(RequestHead(ApiKey.LIST_OFFSETS, 0, 1), 100)
    assert not looks(RequestHead(ApiKey.FETCH, 12, 1), (1 << 20) + 1)
    assert not looks(RequestHead(ApiKey.METADATA, 9, 1), 100)
    assert made.broker.claims(RequestHead(ApiKey.FETCH, 4, 1), b"")
    assert not FakeAsk().fetches
