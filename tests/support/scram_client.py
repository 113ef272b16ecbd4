"""A user of a :class:`~tests.support.scram_broker.ScramBroker` that requests locations, and the answers to it."""

from __future__ import annotations

from uuid import UUID

from confluent_kafka import TopicCollection

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.sasl_settings import authenticator
from kafka_remote_client.model import uuid_from_text
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.shim.config import parse_address
from tests.support.scram_broker import ScramBroker

__all__ = [
    "answered",
    "connection",
    "error_of",
    "is_granted",
    "list_request",
    "listed_segments",
    "location_request",
    "topic_id_of",
]

_FORMATS = ("ApacheKafkaV1",)
_CLOCK = SystemClock()


def topic_id_of(broker: ScramBroker, topic: str) -> UUID:
    described = broker.broker.admin.describe_topics(TopicCollection([topic]))[topic].result(60)
    return uuid_from_text(
        str(described.topic_id).translate(str.maketrans("+/", "-_"))
    )  # librdkafka writes ids with other signs


def connection(servers: str, user: str) -> BrokerConnection:
    """A connection of the user to the broker or to a shim. The caller closes it."""
    host, port = parse_address(servers)
    login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": f"{user}-password",
    }
    sasl = authenticator(login, _CLOCK)
    return BrokerConnection(host, port, client_id="tests", clock=_CLOCK, connect_timeout=60, sasl=sasl)


def location_request(topic: str, topic_id: UUID, version: int, offset: int = 0) -> bytes:
    """Returns the body of a Fetch that requests a location in partition 0."""
    root, tags = TaggedDialect().request_tags(LocationRequest(_FORMATS, True, 8 << 20))
    asked = fetch.FetchPartition(0, offset, 1 << 20, tags=tags)
    topics = (fetch.FetchTopic((asked,), topic, topic_id),)
    return fetch.encode_request(fetch.FetchRequest(topics, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, tags=root), version)


def list_request(topic: str, topic_id: UUID, version: int) -> bytes:
    """Returns the body of a Fetch that requests the list of segments of partition 0, from its first offset on."""
    _, tags = TaggedDialect().request_tags(LocationRequest((), batched=True, list_start=0))
    topics = (fetch.FetchTopic((fetch.FetchPartition(0, 0, 0, tags=tags),), topic, topic_id),)
    return fetch.encode_request(fetch.FetchRequest(topics, max_wait_ms=60_000, max_bytes=1), version)


def answered(servers: str, user: str, body: bytes, version: int) -> bytes:
    """Returns the body of the answer to a Fetch by ``user``."""
    made = connection(servers, user)
    try:
        return bytes(made.send_receive(ApiKey.FETCH, version, body, Deadline(_CLOCK, 60)))
    finally:
        made.close()


def error_of(body: bytes, version: int) -> int:
    """Returns the error code of a Fetch answer or of its partition."""
    described = fetch.decode_response(memoryview(body), version)
    return described.error_code or described.responses[0].partitions[0].error_code


def listed_segments(body: bytes, version: int) -> int | None:
    """Returns the number of segments in a Fetch answer's list; ``None`` if it has no list."""
    (partition,) = fetch.decode_response(memoryview(body), version).responses[0].partitions
    page = TaggedDialect().read_page(partition.tags, 0)
    return None if page is None else len(page.entries)


def is_granted(body: bytes, version: int) -> bool:
    (partition,) = fetch.decode_response(memoryview(body), version).responses[0].partitions
    return TaggedDialect().read_grant(partition.tags, _FORMATS) is not None
