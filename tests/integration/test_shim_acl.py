"""A shim adds nothing to a client's rights: a real broker with StandardAuthorizer and SCRAM, with and without the shim.

The shim's own principal may READ and DESCRIBE the metadata topic, and nothing else.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from uuid import UUID, uuid4

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.protocol import api_versions, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.headers import frame
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.any_request import AnyRequest, requests_of_clients
from tests.support.kafka_client import RawClient
from tests.support.scenario import write_wide_topic
from tests.support.scram_broker import ScramBroker
from tests.support.scram_client import (
    answered,
    connection,
    error_of,
    is_granted,
    list_request,
    listed_segments,
    location_request,
    topic_id_of,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

METADATA = "__remote_log_metadata"
TIERED, MISSING = "orders", "absent"
"""A topic, and the name of none, with the same length."""
VERSIONS = (12, 13, 15)
DENIED = {"stranger": None, "describer": AclOperation.DESCRIBE, "writer": AclOperation.WRITE}
"""Users that may not read, and what else they may do with the topic."""
HANDSHAKE = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE})
"""Requests that belong to a connection's start. The shim changes the answer to ApiVersions."""
PRODUCE_THAT_IS_REFUSED = range(3)
"""Versions that a broker lists only for old clients of librdkafka (KAFKA-18659). It closes the connection."""
NEW_IDS = {22: "InitProducerId", 71: "GetTelemetrySubscriptions"}
"""Requests whose answer has a new id each time, and the same bytes before it."""
BEFORE_THE_ID = 11
TIMED_OUT = struct.pack(">ihqq", 0, ErrorCode.REQUEST_TIMED_OUT, -1, -1)
"""A partition in an answer to ListOffsets. A broker may send it at once for a time in the tier, in place of the offset.

``tests.support.offsets_at_times`` says why.
"""
QUOTED_REQUEST = re.compile(rb"(?s)..Request Request\(processor=.*? (needs [A-Z_]+ permission|is not authorized)\.")
"""An error text of the broker, with its length. It quotes the request with the ports of its connection."""
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
    return topic_id_of(broker, TIERED)


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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_denied_client_gets_the_brokers_answer_and_no_list(
    broker: ScramBroker, shim: Shim, topic_id: UUID, version: int
) -> None:
    lists_before = shim.metrics().get("segment_lists", 0)
    for user in DENIED:
        for topic, known in ((TIERED, topic_id), (MISSING, uuid4())):
            body = list_request(topic, known, version)
            direct = answered(broker.bootstrap_servers, user, body, version)
            assert answered(shim.bootstrap_servers, user, body, version) == direct
            assert error_of(direct, version) != 0
    assert shim.metrics().get("segment_lists", 0) == lists_before
    allowed = answered(shim.bootstrap_servers, "reader", list_request(TIERED, topic_id, version), version)
    assert (listed_segments(allowed, version) or 0) > 1, "the request itself is one that gets a list"


class Pair:
    """One user's connections to the broker and to the shim. Both get the same requests."""

    def __init__(self, user: str, broker: ScramBroker, shim: Shim) -> None:
        self._user = user
        self._servers = (broker.bootstrap_servers, shim.bootstrap_servers)
        self._made: list[BrokerConnection] = []
        self._clients: list[RawClient] = []
        self._ports: list[bytes] = []
        self._connect()
        body = api_versions.encode_request(api_versions.ApiVersionsRequest("tests", "1"), 3)
        told = self._made[1].send_receive(ApiKey.API_VERSIONS, 3, body, Deadline(_CLOCK, 60))
        entries = api_versions.decode_response(told, 3).api_keys
        self.offered = {entry.api_key: range(entry.min_version, entry.max_version + 1) for entry in entries}
        """The versions that the shim offers, by API key."""

    def _connect(self) -> None:
        self.close()
        self._made = [connection(servers, self._user) for servers in self._servers]
        nothing = metadata.encode_request(metadata.MetadataRequest(()), 12)
        for made in self._made:
            told = metadata.decode_response(made.send_receive(ApiKey.METADATA, 12, nothing, Deadline(_CLOCK, 60)), 12)
            self._ports.append(struct.pack(">i", told.brokers[0].port))
            assert made._socket is not None
            self._clients.append(RawClient.over(made._socket))

    def answers(self, request: AnyRequest, version: int, topic: str, topic_id: UUID, attempts: int = 5) -> tuple[bytes, bytes]:
        """Returns the answers of broker and shim, without their ports. An answer is empty if the connection was closed."""
        head = struct.pack(">hhih", request.api_key, version, 7, 5) + b"tests" + (b"\0" if request.flexible(version) else b"")
        asked = frame(head, request.body(version, topic, topic_id))
        for client in self._clients:
            client.send(asked)
        read = [client.read().replace(port, b"port") for client, port in zip(self._clients, self._ports, strict=True)]
        if request.api_key == ApiKey.LIST_OFFSETS and any(TIMED_OUT in answer for answer in read) and attempts > 1:
            return self.answers(request, version, topic, topic_id, attempts - 1)
        direct, through = (QUOTED_REQUEST.sub(b"", answer) for answer in read)
        if not (direct and through):
            self._connect()
        return direct, through

    def close(self) -> None:
        for made in self._made:
            made.close()
        self._made, self._clients, self._ports = [], [], []


@pytest.mark.fault("S07", "S14")
@pytest.mark.parametrize("user", ["reader", *DENIED])
def test_every_request_gets_the_brokers_answer(broker: ScramBroker, shim: Shim, topic_id: UUID, user: str) -> None:
    """Every API key and version that the shim offers, for a topic that exists and for one that does not."""
    compared, different = 0, []
    with closing(Pair(user, broker, shim)) as pair:
        for request in requests_of_clients():
            if request.api_key in HANDSHAKE:
                continue
            for version in pair.offered.get(request.api_key, ()):
                what = f"{request.name} {version}"
                direct, through = pair.answers(request, version, TIERED, topic_id)
                missing, missing_through = pair.answers(request, version, MISSING, uuid4())
                assert direct or (request.api_key == ApiKey.PRODUCE and version in PRODUCE_THAT_IS_REFUSED), what
                end = BEFORE_THE_ID if request.api_key in NEW_IDS else None
                for one, other in ((direct, through), (missing, missing_through)):
                    compared += 1
                    if one[:end] != other[:end] or len(one) != len(other):
                        different.append(f"{what}: {one!r} {other!r}")
                by_name = request.body(version, "", UUID(int=1)) == request.body(version, "", UUID(int=2))
                if user == "stranger" and by_name and through[:end].replace(TIERED.encode(), MISSING.encode()) != missing[:end]:
                    different.append(f"{what}: denied {through!r}, missing {missing!r}")
    assert different == []
    assert compared > 400


@pytest.mark.fault("S14")
def test_deleted_records_and_topics_are_never_granted(broker: ScramBroker, shim: Shim) -> None:
    """The owner of a topic moves its log start, deletes it and creates it again, all through the shim."""
    topic = "moved"
    broker.add_user("owner")
    broker.allow("owner", AclOperation.ALL, ResourceType.TOPIC, topic)
    broker.broker.create_topic(topic)
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "owner"}
    client = {"bootstrap.servers": shim.bootstrap_servers, "sasl.password": "owner-password", "log_level": 0, **login}
    producer, admin = Producer({**client, "batch.num.messages": 10}), AdminClient(client)

    def delivered(error: KafkaError | None, _: Message) -> None:
        assert error is None

    def produce(count: int) -> None:
        for number in range(count):
            producer.produce(topic, b"%d" % number * 500, partition=0, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0

    def granted(user: str, known: UUID, version: int, offset: int = 0) -> bool:
        """Returns whether the user gets a location. Any other answer must be the broker's."""
        body = location_request(topic, known, version, offset)
        through = answered(shim.bootstrap_servers, user, body, version)
        if not error_of(through, version) and is_granted(through, version):
            return True
        assert through == answered(broker.bootstrap_servers, user, body, version)
        return False

    def denied(user: str, known: UUID, version: int, offset: int = 0) -> bool:
        """Returns whether the broker answers with an error, and the shim with the same bytes."""
        body = location_request(topic, known, version, offset)
        direct = answered(broker.bootstrap_servers, user, body, version)
        return bool(error_of(direct, version)) and answered(shim.bootstrap_servers, user, body, version) == direct

    first = topic_id_of(broker, topic)
    wait_until(lambda: not denied("owner", first, 13), "the right to be known")
    produce(100)
    broker.broker.wait_until_tiered(topic)
    wait_until(lambda: granted("owner", first, 13), "the shim to know the tier")
    admin.delete_records([TopicPartition(topic, 0, 30)])[TopicPartition(topic, 0)].result(60)
    for version in VERSIONS:
        assert not granted("owner", first, version, 29)
        assert granted("owner", first, version, 30)
        assert denied("stranger", first, version, 30)
    admin.delete_topics([topic])[topic].result(60)
    wait_until(lambda: denied("owner", first, 13), "the topic to be deleted")
    for version in VERSIONS:
        assert denied("owner", first, version)
        assert denied("stranger", first, version)
    config = {"remote.storage.enable": "true", "local.retention.bytes": "1", "internal.segment.bytes": "20000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(60)
    wait_until(lambda: topic in broker.broker.admin.list_topics(timeout=60).topics, "the new topic")
    second = topic_id_of(broker, topic)
    assert second != first
    wait_until(lambda: not denied("owner", second, 13), "the new topic to have a leader")
    produce(5)
    for version in VERSIONS:
        for known in (first, second):
            assert not granted("owner", known, version)
            assert not granted("stranger", known, version)


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
@pytest.mark.parametrize(
    ("request_of", "is_served"), [(location_request, is_granted), (list_request, listed_segments)], ids=["location", "list"]
)
def test_nothing_is_granted_after_a_revocation(
    broker: ScramBroker, shim: Shim, topic_id: UUID, request_of: Callable[..., bytes], is_served: Callable[..., object]
) -> None:
    """The shim asks the broker before each grant and list, so it gives nothing from the moment that the broker denies."""
    body = request_of(TIERED, topic_id, 13)
    open_one = connection(shim.bootstrap_servers, "reader")
    try:
        assert is_served(bytes(open_one.send_receive(ApiKey.FETCH, 13, body, Deadline(_CLOCK, 60))), 13)
        broker.revoke("reader", AclOperation.READ, ResourceType.TOPIC, TIERED)
        try:
            wait_until(lambda: error_of(answered(broker.bootstrap_servers, "reader", body, 13), 13), "the broker to deny")
            direct = answered(broker.bootstrap_servers, "reader", body, 13)
            assert bytes(open_one.send_receive(ApiKey.FETCH, 13, body, Deadline(_CLOCK, 60))) == direct
            assert answered(shim.bootstrap_servers, "reader", body, 13) == direct
        finally:
            broker.allow("reader", AclOperation.READ, ResourceType.TOPIC, TIERED)
            wait_until(lambda: is_served(answered(shim.bootstrap_servers, "reader", body, 13), 13), "the right to be back")
    finally:
        open_one.close()
