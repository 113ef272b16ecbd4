"""This package reads a real broker's answers in each version that it supports."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import NotAnnouncedError
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.model import NotRemote, PartitionOffsets
from kafka_remote_client.protocol import api_versions, fetch, list_offsets, metadata
from kafka_remote_client.protocol.api_keys import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, Api
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.list_offsets import FIRST_VERSION, OffsetSpec
from tests.support.kafka_broker import KafkaBroker
from tests.support.questions import question

pytestmark = pytest.mark.broker

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    name = f"wire-versions-{uuid4()}"  # each worker makes its own
    running_broker.create_topic(name, segment_bytes=2000)
    producer = Producer({"bootstrap.servers": running_broker.bootstrap_servers, "batch.num.messages": 20, "log_level": 0})
    for number in range(500):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    running_broker.wait_until_tiered(name)
    return name


@pytest.fixture
def connection(kafka_broker: KafkaBroker) -> Iterator[BrokerConnection]:
    connection = BrokerConnection("127.0.0.1", kafka_broker.port, client_id="tests", clock=CLOCK, connect_timeout=30)
    yield connection
    connection.close()


def ask(connection: BrokerConnection, api: Api, version: int, body: bytes) -> bytes:
    return bytes(connection.send_receive(api.key, version, body, Deadline(CLOCK, 60)))


@pytest.mark.parametrize("version", API_VERSIONS.versions)
def test_api_versions_are_read_in_each_version(connection: BrokerConnection, version: int) -> None:
    request = api_versions.ApiVersionsRequest("tests", "1") if version >= 3 else api_versions.ApiVersionsRequest()
    body = ask(connection, API_VERSIONS, version, api_versions.encode_request(request, version))
    response = api_versions.decode_response(body, version)
    assert response.best_version(FETCH.key, FETCH.versions) == FETCH.versions[-1]
    assert response.best_version(LIST_OFFSETS.key, LIST_OFFSETS.versions) == LIST_OFFSETS.versions[-1]
    assert response.best_version(METADATA.key, METADATA.versions) == METADATA.versions[-1]
    assert not response.announces_direct_fetch
    assert api_versions.encode_response(response, version) == body


def test_an_unknown_api_version_is_refused_in_version_0(connection: BrokerConnection) -> None:
    future = API_VERSIONS.versions[-1] + 100
    body = ask(connection, API_VERSIONS, future, api_versions.encode_request(api_versions.ApiVersionsRequest("t", "1"), 3))
    assert api_versions.decode_response(body, 3).error_code == 35


@pytest.mark.parametrize("version", METADATA.versions)
def test_metadata_are_read_in_each_version(connection: BrokerConnection, topic: str, version: int) -> None:
    request = metadata.MetadataRequest((metadata.MetadataRequestTopic(topic),))
    body = ask(connection, METADATA, version, metadata.encode_request(request, version))
    response = metadata.decode_response(body, version)
    assert [(one.name, one.error_code, len(one.partitions)) for one in response.topics] == [(topic, 0, 1)]
    assert metadata.encode_response(response, version) == body


@pytest.mark.parametrize("version", LIST_OFFSETS.versions)
@pytest.mark.parametrize("spec", OffsetSpec)
def test_list_offsets_are_read_in_each_version(
    connection: BrokerConnection, topic: str, version: int, spec: OffsetSpec
) -> None:
    asked = list_offsets.ListOffsetsTopic(topic, (list_offsets.ListOffsetsPartition(0, spec),))
    body = ask(
        connection, LIST_OFFSETS, version, list_offsets.encode_request(list_offsets.ListOffsetsRequest((asked,)), version)
    )
    response = list_offsets.decode_response(body, version)
    (told,) = response.topics[0].partitions
    assert told.error_code == (0 if version >= FIRST_VERSION[spec] else 35)
    assert list_offsets.encode_response(response, version) == body


@pytest.mark.parametrize("offset", [0, 499, 5000])
@pytest.mark.parametrize("version", FETCH.versions)
def test_fetches_are_read_in_each_version(connection: BrokerConnection, topic: str, version: int, offset: int) -> None:
    described = metadata.encode_request(metadata.MetadataRequest((metadata.MetadataRequestTopic(topic),)), 12)
    topic_id = metadata.decode_response(ask(connection, METADATA, 12, described), 12).topics[0].topic_id
    wanted = fetch.FetchTopic((fetch.FetchPartition(0, offset, 1 << 16),), topic, topic_id)
    request = fetch.FetchRequest((wanted,), max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, isolation_level=1)
    body = ask(connection, FETCH, version, fetch.encode_request(request, version))
    response = fetch.decode_response(body, version)
    (data,) = response.responses[0].partitions
    assert data.error_code == (1 if offset == 5000 else 0)
    assert bool(data.records) == (offset != 5000)
    assert fetch.encode_response(response, version) == body


def test_a_plain_broker_gives_offsets_and_no_grant(kafka_broker: KafkaBroker, topic: str) -> None:
    source = BrokerLocationSource(kafka_broker.bootstrap_servers, client_id="tests", clock=CLOCK)
    deadline = Deadline(CLOCK, 60)
    judged = kafka_broker.offsets(topic)
    leaders = PartitionLeaders(kafka_broker.bootstrap_servers, client_id="tests", clock=CLOCK)
    assert leaders.offsets(topic, 0, deadline) == PartitionOffsets(
        judged.log_start, judged.earliest_local, judged.latest_tiered, judged.high_watermark
    )
    leaders.close()
    with pytest.raises(NotAnnouncedError, match=f"{kafka_broker.bootstrap_servers} does not announce direct fetch"):
        source.offsets(topic, 0, deadline)
    refused = locate_one(source, question(topic, 0, 0), deadline)
    assert refused == NotRemote("not-announced")
    source.close()
