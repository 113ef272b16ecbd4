"""Clients without READ get nothing from a shim: a real broker with StandardAuthorizer and SCRAM, with and without the shim.

The shim's own principal may READ and DESCRIBE the metadata topic, and nothing else.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID, uuid4

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation, ResourceType

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.sasl_settings import authenticator
from kafka_remote_client.model import uuid_from_text
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_client import RawClient
from tests.support.scenario import write_wide_topic
from tests.support.scram_broker import ScramBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

METADATA = "__remote_log_metadata"
TIERED, MISSING = "orders", "there-is-none"
VERSIONS = (12, 13, 15)
DENIED = {"stranger": None, "describer": AclOperation.DESCRIBE, "writer": AclOperation.WRITE}
"""Users that may not read, and what else they may do with the topic."""
FORMATS = ("ApacheKafkaV1",)
_CLOCK = SystemClock()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScramBroker]:
    with ScramBroker(tmp_path_factory.mktemp("acl")) as running:
        write_wide_topic(running.broker, TIERED)
        for user in ("shim", "reader", *DENIED):
            running.add_user(user)
        running.allow("shim", AclOperation.READ, ResourceType.TOPIC, METADATA)
        running.allow("shim", AclOperation.DESCRIBE, ResourceType.TOPIC, METADATA)
        running.allow("reader", AclOperation.READ, ResourceType.TOPIC, TIERED)
        for user, operation in DENIED.items():
            if operation is not None:
                running.allow(user, operation, ResourceType.TOPIC, TIERED)
        yield running


@pytest.fixture(scope="module")
def shim(broker: ScramBroker) -> Iterator[Shim]:
    follower = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "shim", "sasl.password": "shim-password"}
    config = ShimConfig(
        broker.bootstrap_servers,
        store=broker.broker.store_url,
        broker_settings={"security.protocol": "sasl_plaintext"},
        metadata_consumer=follower,
    )
    with Shim(config) as started:
        assert started.wait_ready(60)
        yield started


@pytest.fixture(scope="module")
def topic_id(broker: ScramBroker) -> UUID:
    told = broker.broker.admin.describe_topics(TopicCollection([TIERED]))[TIERED].result(60)
    return uuid_from_text(str(told.topic_id).translate(str.maketrans("+/", "-_")))  # librdkafka writes ids with other signs


def connection(servers: str, user: str) -> BrokerConnection:
    host, port = parse_address(servers)
    login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": f"{user}-password",
    }
    sasl = authenticator(login, _CLOCK)
    return BrokerConnection(host, port, client_id="tests", clock=_CLOCK, connect_timeout=60, sasl=sasl)


def location_request(topic: str, topic_id: UUID, version: int) -> bytes:
    root, tags = TaggedDialect().request_tags(LocationRequest(FORMATS, True, 8 << 20))
    asked = fetch.FetchPartition(0, 0, 1 << 20, tags=tags)
    topics = (fetch.FetchTopic((asked,), topic, topic_id),)
    return fetch.encode_request(fetch.FetchRequest(topics, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, tags=root), version)


def answered(servers: str, user: str, body: bytes, version: int) -> bytes:
    """Returns the body of the answer to a Fetch by ``user``."""
    made = connection(servers, user)
    try:
        return bytes(made.send_receive(ApiKey.FETCH, version, body, Deadline(_CLOCK, 60)))
    finally:
        made.close()


def error_of(body: bytes, version: int) -> int:
    told = fetch.decode_response(memoryview(body), version)
    return told.error_code or told.responses[0].partitions[0].error_code


def is_granted(body: bytes, version: int) -> bool:
    (partition,) = fetch.decode_response(memoryview(body), version).responses[0].partitions
    return TaggedDialect().read_grant(partition.tags, FORMATS) is not None


@pytest.mark.fault("S07", "S09", "S14")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_read_right_gets_the_brokers_exact_answer(
    broker: ScramBroker, shim: Shim, topic_id: UUID, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    granted_before = shim.metrics().get("locations_granted", 0)
    for user in DENIED:
        for topic, known in ((TIERED, topic_id), (MISSING, uuid4())):
            body = location_request(topic, known, version)
            direct = answered(broker.bootstrap_servers, user, body, version)
            assert answered(shim.bootstrap_servers, user, body, version) == direct
            assert error_of(direct, version) != 0
    missing = location_request(MISSING, uuid4(), version)
    direct = answered(broker.bootstrap_servers, "reader", missing, version)
    assert answered(shim.bootstrap_servers, "reader", missing, version) == direct
    assert shim.metrics().get("locations_granted", 0) == granted_before
    allowed = answered(shim.bootstrap_servers, "reader", location_request(TIERED, topic_id, version), version)
    assert is_granted(allowed, version), "the question itself is one that is granted"
    assert not [user for user in ("reader", *DENIED) if f"{user}-password" in caplog.text]


@pytest.mark.fault("S11")
@pytest.mark.parametrize("length", [-1, 0, 352_518_912, (1 << 31) - 1])
def test_an_impossible_length_ends_its_own_connection_only(shim: Shim, topic_id: UUID, length: int) -> None:
    before = shim.metrics().get("connections_dropped.protocol", 0)
    with RawClient(shim.bootstrap_servers, 60) as hostile:
        with suppress(ConnectionError):
            hostile.send(struct.pack(">i", length) + bytes(64))
        assert hostile.closed()
    wait_until(lambda: shim.metrics().get("connections_dropped.protocol", 0) == before + 1, "the connection to be counted")
    assert is_granted(answered(shim.bootstrap_servers, "reader", location_request(TIERED, topic_id, 13), 13), 13)


@pytest.mark.fault("S13")
def test_pipelined_answers_reach_the_right_client(broker: ScramBroker, shim: Shim, topic_id: UUID) -> None:
    """Two users pipeline the same requests with the same correlation ids; only one may read."""
    body = location_request(TIERED, topic_id, 13)
    denied = answered(broker.bootstrap_servers, "stranger", body, 13)
    makers = {user: connection(shim.bootstrap_servers, user) for user in ("reader", "stranger")}
    try:
        clients = {}
        for user, made in makers.items():
            made.send_receive(ApiKey.FETCH, 13, body, Deadline(_CLOCK, 60))
            assert made._socket is not None
            clients[user] = RawClient.over(made._socket)
        for client in clients.values():
            client.socket.settimeout(60)
            client.send(b"".join(client.request(ApiKey.FETCH, 13, number, body) for number in range(100, 130)))
        for user, client in clients.items():
            for number in range(100, 130):
                frame = client.read()
                assert struct.unpack_from(">i", frame) == (number,)
                answer = frame[5:]  # correlation id, and no tags
                assert is_granted(answer, 13) if user == "reader" else answer == denied
    finally:
        for made in makers.values():
            made.close()


@pytest.mark.fault("S08")
def test_nothing_is_granted_after_a_revocation(broker: ScramBroker, shim: Shim, topic_id: UUID) -> None:
    """The shim asks the broker before each grant, so it grants nothing from the moment that the broker denies."""
    body = location_request(TIERED, topic_id, 13)
    open_one = connection(shim.bootstrap_servers, "reader")
    try:
        assert is_granted(bytes(open_one.send_receive(ApiKey.FETCH, 13, body, Deadline(_CLOCK, 60))), 13)
        broker.revoke("reader", AclOperation.READ, ResourceType.TOPIC, TIERED)
        try:
            wait_until(lambda: error_of(answered(broker.bootstrap_servers, "reader", body, 13), 13), "the broker to deny")
            direct = answered(broker.bootstrap_servers, "reader", body, 13)
            assert bytes(open_one.send_receive(ApiKey.FETCH, 13, body, Deadline(_CLOCK, 60))) == direct
            assert answered(shim.bootstrap_servers, "reader", body, 13) == direct
        finally:
            broker.allow("reader", AclOperation.READ, ResourceType.TOPIC, TIERED)
            wait_until(lambda: is_granted(answered(shim.bootstrap_servers, "reader", body, 13), 13), "the right to be back")
    finally:
        open_one.close()
