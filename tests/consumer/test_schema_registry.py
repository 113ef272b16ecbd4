"""Schema Registry's (de)serialisers on both tiers: keys and values equal those of confluent_kafka's own classes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from attrs import evolve, frozen
from confluent_kafka import SerializingProducer, TopicPartition
from confluent_kafka.error import ValueDeserializationError
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import (
    AsyncAvroDeserializerBuilder,
    AvroDeserializer,
    AvroDeserializerBuilder,
    AvroSerializer,
)
from confluent_kafka.schema_registry.json_schema import (
    AsyncJSONDeserializerBuilder,
    JSONDeserializerBuilder,
    JSONSerializer,
)
from confluent_kafka.schema_registry.protobuf import (
    AsyncProtobufDeserializerBuilder,
    ProtobufDeserializerBuilder,
    ProtobufSerializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.rpc.status_pb2 import Status

from kafka_remote_client import AsyncDeserializingConsumer, Consumer, DeserializingConsumer
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Row,
    direct_settings,
    from_broker,
    from_store,
    plain_settings,
    row,
    small_cluster,
    tiers,
)
from tests.support.schema_registry import SchemaRegistry

pytestmark = pytest.mark.embedded

COUNT = 240
_BATCH = 20
_KEY_SCHEMA = '"string"'
_FIELDS = [{"name": "number", "type": "long"}, {"name": "text", "type": "string"}]
_NOTE = {"name": "note", "type": "string", "default": "none"}


def _record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


FIRST_SCHEMA, SECOND_SCHEMA = _record(*_FIELDS), _record(*_FIELDS, _NOTE)
JSON_SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"number": {"type": "integer"}, "text": {"type": "string"}},
        "required": ["number"],
    }
)


def _order(n: int) -> dict[str, Any]:
    return {"number": n, "text": f"text {n} " * (1 + n % 4)}


def _status(n: int) -> Status:
    """A value of a type that the deserialiser does not know by default."""
    return Status(code=n, message=f"text {n}")


def _read_avro(n: int) -> dict[str, Any]:
    """The Avro value in the second schema: the first half of the records was written with the first schema."""
    return {**_order(n), "note": "none" if n < COUNT // 2 else f"note {n}"}


@frozen
class Format:
    """A format: its serializers, used one after the other, and record n as written and as read."""

    serializers: Callable[[SchemaRegistryClient, dict[str, Any]], Sequence[Any]]
    written: Callable[[int], Any]
    read: Callable[[int], Any]
    builder: Callable[..., Any]
    async_builder: Callable[..., Any]
    reader: dict[str, Any]


FORMATS = {
    "avro": Format(
        lambda client, conf: [AvroSerializer(client, schema, conf=conf) for schema in (FIRST_SCHEMA, SECOND_SCHEMA)],
        lambda n: {**_order(n), "note": f"note {n}"},
        _read_avro,
        AvroDeserializerBuilder,
        AsyncAvroDeserializerBuilder,
        {"schema": SECOND_SCHEMA},
    ),
    "json": Format(
        lambda client, conf: [JSONSerializer(JSON_SCHEMA, client, conf=conf)],
        _order,
        _order,
        JSONDeserializerBuilder,
        AsyncJSONDeserializerBuilder,
        {},
    ),
    "protobuf": Format(
        lambda client, conf: [ProtobufSerializer(Status, client, conf=conf)],
        _status,
        _status,
        ProtobufDeserializerBuilder,
        AsyncProtobufDeserializerBuilder,
        {"message_type": Status},
    ),
}


@frozen
class Written:
    """A topic whose records have one format, some of them in the tier, and the registry with their schemas."""

    format: Format
    cluster: EmbeddedCluster
    registry: SchemaRegistry
    topic: str

    def direct(self, **more: Any) -> dict[str, Any]:
        return {**direct_settings(self.cluster, enable_partition_eof=False), **self._builders(), **more}

    def plain(self, **more: Any) -> dict[str, Any]:
        return {**plain_settings(self.cluster, enable_partition_eof=False), **self._builders(), **more}

    def _builders(self) -> dict[str, Any]:
        return {
            "key.deserializer.builder": AvroDeserializerBuilder(self.of_registry),
            "value.deserializer.builder": self.format.builder(self.of_registry, **self.format.reader),
        }

    @property
    def of_registry(self) -> dict[str, Any]:
        return {"url": self.registry.url, "max.retries": 0}

    def new_requests(self) -> list[str]:
        """Returns the requests since the last call."""
        requests, self.registry.requests[:] = list(self.registry.requests), []
        return requests


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        yield made


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        yield made


def write(
    cluster: EmbeddedCluster,
    registry: SchemaRegistry,
    chosen: Format,
    place: Callable[..., bytes] = prefix_schema_id_serializer,
    topic: str | None = None,
) -> Written:
    """Writes the records. Every seventh value is null."""
    topic = topic or f"orders-{uuid4()}"
    settings = {"bootstrap.servers": cluster.broker_bootstrap_servers, "log_level": 4}
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializers = chosen.serializers(client, {"schema.id.serializer": place})
        key = AvroSerializer(client, _KEY_SCHEMA, conf={"schema.id.serializer": place})
        turn = COUNT // len(serializers)
        for first in range(0, COUNT, turn):
            serdes = {"key.serializer": key, "value.serializer": serializers[first // turn]}
            with SerializingProducer({**settings, **serdes}) as producer:
                for n in range(first, first + turn):
                    value = None if n % 7 == 3 else chosen.written(n)
                    producer.produce(topic, f"key-{n}", value, partition=0, headers=[("number", b"%d" % n)])
                    if n % _BATCH == _BATCH - 1:
                        assert producer.flush(PATIENCE_SECONDS) == 0
    cluster.archive()
    assert 0 < tiers(cluster, topic).earliest_local < COUNT
    registry.requests.clear()
    return Written(chosen, cluster, registry, topic)


@pytest.fixture(scope="module", params=[header_schema_id_serializer, prefix_schema_id_serializer], ids=["header", "prefix"])
def place(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module", params=list(FORMATS))
def written(request: pytest.FixtureRequest, place: Any, cluster: EmbeddedCluster, registry: SchemaRegistry) -> Written:
    return write(cluster, registry, FORMATS[request.param], place)


def read(consumer: confluent_kafka.DeserializingConsumer[Any, Any], topic: str, count: int = COUNT) -> list[Row]:
    consumer.assign([TopicPartition(topic, 0, 0)])
    return [row(consumer.poll(PATIENCE_SECONDS)) for _ in range(count)]


def position(consumer: confluent_kafka.Consumer, topic: str) -> list[int | None]:
    return [partition.offset for partition in consumer.position([TopicPartition(topic, 0)])]


def plain_read(written: Written) -> tuple[list[Row], list[str]]:
    """The rows that upstream's class reads, and its requests to the registry."""
    written.new_requests()
    with confluent_kafka.DeserializingConsumer[Any, Any](written.plain()) as consumer:
        rows = read(consumer, written.topic)
    assert [(key, value) for *_, key, value, _ in rows] == expected(written)
    return rows, written.new_requests()


def expected(written: Written) -> list[tuple[str, Any]]:
    return [(f"key-{n}", None if n % 7 == 3 else written.format.read(n)) for n in range(COUNT)]


def test_deserializing_consumer_reads_each_format_as_upstreams_class_does(written: Written) -> None:
    rows, requests = plain_read(written)
    with DeserializingConsumer[Any, Any](written.direct()) as consumer:
        assert isinstance(consumer, DirectConsumer)
        assert read(consumer, written.topic) == rows
        assert from_store(consumer) > 0
        assert from_broker(consumer) > 0
    assert written.new_requests() == requests
    assert len(requests) < COUNT // 10, "schemas are asked for once, not for each record"


def test_asyncio_consumer_reads_each_format_as_upstreams_class_does(written: Written) -> None:
    async def scenario() -> list[Row]:
        builders = {
            "key.deserializer.builder": AsyncAvroDeserializerBuilder(written.of_registry),
            "value.deserializer.builder": written.format.async_builder(written.of_registry, **written.format.reader),
        }
        consumer = await AsyncDeserializingConsumer[Any, Any](written.direct(**builders))
        try:
            await consumer.assign([TopicPartition(written.topic, 0, 0)])
            rows = [row(await consumer.poll(PATIENCE_SECONDS)) for _ in range(COUNT // 2)]
            while len(rows) < COUNT:
                rows += [row(message) for message in await consumer.consume(COUNT - len(rows), 0.1)]
            assert int((await consumer.metrics())["remote-fetch-records-total"]) > 0
            return rows
        finally:
            await consumer.close()

    rows, requests = plain_read(written)
    assert asyncio.run(scenario()) == rows
    assert written.new_requests() == requests


def test_deserializers_called_by_hand_take_what_our_consumer_delivers(written: Written) -> None:
    key, _ = AvroDeserializerBuilder(written.of_registry).build({}, True)
    value, _ = written.format.builder(written.of_registry, **written.format.reader).build({}, False)
    pairs: list[tuple[Any, Any]] = []
    with (
        closing(key),
        closing(value),
        Consumer(direct_settings(written.cluster, enable_partition_eof=False)) as consumer,
    ):
        consumer.assign([TopicPartition(written.topic, 0, 0)])
        while len(pairs) < COUNT:
            for message in consumer.consume(50, 0.1):
                assert message.error() is None
                of_key = SerializationContext(written.topic, MessageField.KEY, message.headers())
                of_value = SerializationContext(written.topic, MessageField.VALUE, message.headers())
                pairs.append((key(message.key(), of_key), value(message.value(), of_value)))
        assert from_store(consumer) > 0
    assert pairs == expected(written)


def test_the_subject_is_the_one_associated_with_the_topic_of_this_cluster(
    cluster: EmbeddedCluster, registry: SchemaRegistry
) -> None:
    """The consumer tells deserialisers which cluster it reads; here records are read as the newest schema of that subject."""
    topic = f"orders-{uuid4()}"
    with confluent_kafka.Consumer(plain_settings(cluster)) as consumer:
        cluster_id = consumer.cluster_id(timeout=PATIENCE_SECONDS)
    registry.associations[cluster_id, topic, "value"] = "of-the-team"
    newest = evolve(
        FORMATS["avro"],
        serializers=lambda client, conf: [AvroSerializer(client, FIRST_SCHEMA, conf=conf)],
        read=lambda n: {**_order(n), "note": "none"},
        reader={"deserializer_config": {"use.latest.version": True}},
    )
    written = write(cluster, registry, newest, topic=topic)
    with SchemaRegistryClient(written.of_registry) as client:
        client.register_schema("of-the-team", Schema(SECOND_SCHEMA, "AVRO"))
    rows, requests = plain_read(written)
    with DeserializingConsumer[Any, Any](written.direct()) as consumer:
        assert read(consumer, topic) == rows
        assert from_store(consumer) > 0
    assert written.new_requests() == requests
    assert {f"GET /associations/resources/{cluster_id}/{topic}", "GET /subjects/of-the-team/versions/latest"} <= set(requests)


def test_record_without_a_schema_raises_and_can_be_sought_again(cluster: EmbeddedCluster, registry: SchemaRegistry) -> None:
    written = write(cluster, registry, FORMATS["avro"])

    def events(consumer: confluent_kafka.DeserializingConsumer[Any, Any]) -> list[object]:
        seen: list[object] = [read(consumer, written.topic, 1)]
        registry.forbidden = True  # the second half needs a schema that nobody has asked for yet
        consumer.seek(TopicPartition(written.topic, 0, COUNT // 2))
        try:
            for _ in range(2):
                with pytest.raises(ValueDeserializationError) as failure:
                    consumer.poll(PATIENCE_SECONDS)
                refused = failure.value.kafka_message
                assert refused is not None
                seen.append((failure.value.exception.__class__, row(refused)))
        finally:
            registry.forbidden = False
        seen += position(consumer, written.topic)
        consumer.seek(TopicPartition(written.topic, 0, COUNT // 2))
        return [*seen, *(row(consumer.poll(PATIENCE_SECONDS)) for _ in range(COUNT // 2))]

    with confluent_kafka.DeserializingConsumer[Any, Any](written.plain()) as plain:
        as_upstream = events(plain)
    with DeserializingConsumer[Any, Any](written.direct()) as consumer:
        assert events(consumer) == as_upstream
        assert from_store(consumer) > 0


def test_what_no_serializer_wrote_is_raised_and_the_next_record_comes(
    cluster: EmbeddedCluster, registry: SchemaRegistry
) -> None:
    topic = f"orders-{uuid4()}"
    cluster.produce(topic, [(None, b"no framing at all")])
    written = write(cluster, registry, FORMATS["json"], topic=topic)

    def events(consumer: confluent_kafka.DeserializingConsumer[Any, Any]) -> list[object]:
        consumer.assign([TopicPartition(topic, 0, 0)])
        with pytest.raises(ValueDeserializationError) as failure:
            consumer.poll(PATIENCE_SECONDS)
        assert failure.value.kafka_message is not None
        rest = [row(consumer.poll(PATIENCE_SECONDS)) for _ in range(COUNT)]
        return [str(failure.value.exception), row(failure.value.kafka_message), *rest]

    with confluent_kafka.DeserializingConsumer[Any, Any](written.plain()) as plain:
        as_upstream = events(plain)
    with DeserializingConsumer[Any, Any](written.direct()) as consumer:
        assert events(consumer) == as_upstream
        assert from_store(consumer) > 0


def test_what_a_builder_made_is_closed_with_the_consumer(cluster: EmbeddedCluster, registry: SchemaRegistry) -> None:
    made: list[AvroDeserializer] = []
    builder = AvroDeserializerBuilder({"url": registry.url}, deserializer_init=made.append)
    with DeserializingConsumer({**direct_settings(cluster), "value.deserializer.builder": builder}) as consumer:
        assert isinstance(consumer, DirectConsumer)
        (session,) = {deserializer._registry._rest_client.session for deserializer in made}
        assert not session.is_closed
    assert session.is_closed


def test_given_deserializer_reads_both_tiers_and_outlives_the_consumer(
    cluster: EmbeddedCluster, registry: SchemaRegistry
) -> None:
    written = write(cluster, registry, FORMATS["avro"])
    with SchemaRegistryClient(written.of_registry) as client:
        serdes = {"key.deserializer": AvroDeserializer(client), "value.deserializer": AvroDeserializer(client, SECOND_SCHEMA)}
        settings = direct_settings(cluster, enable_partition_eof=False)
        with DeserializingConsumer[Any, Any]({**settings, **serdes}) as consumer:
            assert [(key, value) for *_, key, value, _ in read(consumer, written.topic)] == expected(written)
            assert from_store(consumer) > 0
            assert from_broker(consumer) > 0
        assert not client._rest_client.session.is_closed


def test_the_registry_tells_what_it_does_not_have(registry: SchemaRegistry) -> None:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        for ask in (
            lambda: client.get_schema(10_000),
            lambda: client.get_version("nobody", 1),
            lambda: client.lookup_schema("nobody", Schema(FIRST_SCHEMA, "AVRO")),
            lambda: client.get_mode("nobody"),
        ):
            with pytest.raises(SchemaRegistryError) as failure:
                ask()
            assert failure.value.http_status_code == 404
