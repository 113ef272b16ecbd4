"""A shim reports its state: not ready without a broker, why it grants nothing; and the broker serves in any case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import NewTopic

from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import SHORT_LIVED
from tests.support.kafka_broker import KafkaBroker
from tests.support.running_shim import RunningShim
from tests.support.s3_server import S3Server
from tests.support.scenario import TransactionalTopic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

LISTEN = ("--listen", "127.0.0.1:0")
SHARED = "share.coordinator.state.topic"
PROPERTIES = {
    f"{SHARED}.replication.factor": "1",
    f"{SHARED}.min.isr": "1",
    f"{SHARED}.num.partitions": "3",
    "listener.name.ssl.ssl.client.auth": "required",
    "listener.name.ssl.ssl.truststore.type": "PEM",
    "listener.name.ssl.ssl.truststore.location": "{directory}/ca.pem",
}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that this module stops and starts. Its TLS listener accepts only clients with a certificate."""
    broker = KafkaBroker(tmp_path_factory.mktemp("starting"), properties=PROPERTIES, java_options=("-Xmx512m", *SHORT_LIVED))
    try:
        broker.start()
        yield broker
    finally:
        broker.destroy()


def before(broker: KafkaBroker, store: str, *more: str) -> tuple[str, ...]:
    return ("--bootstrap-servers", broker.bootstrap_servers, *LISTEN, "--store", store, *more)


def produced_and_consumed(servers: str, topic: str, value: bytes) -> bytes | None:
    quiet = {"bootstrap.servers": servers, "log_level": 0}
    producer = Producer(quiet)
    producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({**quiet, "group.id": topic})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = consumer.consume(1, 60)
        assert message.error() is None, message.error()
        return message.value()
    finally:
        consumer.close()


def test_ready_only_when_a_broker_answers(own_broker: KafkaBroker) -> None:
    own_broker.stop()
    try:
        with RunningShim(before(own_broker, own_broker.store_url)) as shim:
            said = shim.wait_for_log(" not ready: no broker answers")
            assert "WARNING" in said
            status, text = shim.page("/readyz")
            assert (status, text.startswith("no broker answers: ")) == (503, True)
            assert not any(" ready: " in line and "not ready: " not in line for line in shim.lines)
            assert shim.page("/livez")[0] == 200
            own_broker.start()
            assert "INFO" in shim.wait_for_log("health_log ready: a broker answers")
            assert shim.is_healthy("/readyz")
    finally:
        own_broker.start()


def test_a_broker_that_requires_certificates_is_explained(own_broker: KafkaBroker) -> None:
    tls = ("--broker-setting", "security.protocol=ssl", "--broker-setting", f"ssl.ca.location={own_broker.authority}")
    arguments = ("--bootstrap-servers", own_broker.tls_bootstrap_servers, *LISTEN, "--store", own_broker.store_url, *tls)
    with RunningShim(arguments) as shim:
        assert "the broker asks for a client certificate" in shim.wait_for_log(" not ready: ")
        assert "the broker asks for a client certificate" in shim.page("/readyz")[1]


def test_an_empty_tier_is_healthy(own_broker: KafkaBroker, s3_environment: S3Server) -> None:
    options = [f"--store-option={name}={value}" for name, value in s3_environment.options.items()]
    store = f"s3://{s3_environment.new_bucket([])}/no/such/prefix"
    with RunningShim(before(own_broker, store, *options)) as shim:
        assert "INFO" in shim.wait_for_log("the tier can be read: locations are granted")
        assert shim.page("/tierz") == (200, "ok\n")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (("--layout", "aiven"), "a name of the layout aiven"),
        (("--layout", "aiven", "--key-prefix", "elsewhere/"), "check store, layout and key_prefix"),
    ],
)
def test_a_wrong_layout_is_a_warning_with_its_reason(
    transactional_topic: TransactionalTopic, kafka_broker: KafkaBroker, wrong: tuple[str, ...], reason: str
) -> None:
    with RunningShim(before(kafka_broker, kafka_broker.store_url, *wrong)) as shim:
        assert "WARNING" in shim.wait_for_log(reason)
        status, text = shim.page("/tierz")
        assert (status, reason in text, "cannot be found in the store" in text) == (503, True, True)
        assert shim.is_healthy("/readyz")


def test_a_missing_store_is_a_warning_with_its_reason(own_broker: KafkaBroker, s3_environment: S3Server) -> None:
    options = [f"--store-option={name}={value}" for name, value in s3_environment.options.items()]
    with RunningShim(before(own_broker, "s3://no-such-bucket/tier", *options)) as shim:
        assert "WARNING" in shim.wait_for_log("the store cannot be read")
        assert shim.page("/tierz")[0] == 503
        assert shim.is_healthy("/readyz")


def test_without_store_and_trusted_metadata_the_broker_continues(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """The store is stopped and a metadata partition is distrusted: a tier fault never makes a shim unready."""
    topic, metadata = f"served-{uuid4().hex}", f"metadata-{uuid4().hex}"
    own_broker.create_topic(topic)
    (made,) = own_broker.admin.create_topics([NewTopic(metadata, 5, 1)]).values()
    made.result(60)
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3") as store:
        options = [f"--store-option={name}={value}" for name, value in store.options.items()]
        url = f"s3://{store.new_bucket([])}/tier"
        arguments = before(own_broker, url, *options, "--metadata-topic", metadata, "--lookup-timeout", "2")
        with RunningShim(arguments, variables=store.environment) as shim:
            shim.wait_for_log("the tier can be read: locations are granted")
            producer = Producer({"bootstrap.servers": own_broker.bootstrap_servers, "log_level": 0})
            producer.produce(metadata, b"no metadata record", partition=3)
            assert producer.flush(60) == 0
            store.stop()
            both = ("not trusted: 3", "the store cannot be read")
            wait_until(lambda: all(one in shim.page("/tierz")[1] for one in both), "both faults to be seen")
            assert produced_and_consumed(shim.bootstrap_servers, topic, b"served") == b"served"
            assert shim.page("/readyz") == (200, "ok\n")


def test_a_share_consumer_behind_a_shim_takes_no_records_from_others(own_broker: KafkaBroker) -> None:
    """It joins no group and keeps its connections. So the other member gets all produced records of any partition."""
    topic = f"shared-{uuid4().hex}"
    own_broker.create_topic(topic, partitions=4, tiered=False)
    producer = Producer({"bootstrap.servers": own_broker.bootstrap_servers, "log_level": 0})
    with Shim(ShimConfig(own_broker.bootstrap_servers)) as shim:
        members = [
            ShareConsumer({"bootstrap.servers": servers, "group.id": topic, "log_level": 0})
            for servers in (shim.bootstrap_servers, own_broker.bootstrap_servers)
        ]
        behind, direct = members
        for member in members:
            member.subscribe([topic])
        taken: set[int] = set()

        def all_partitions() -> bool:
            for partition in range(4):  # a group begins at the end, so records from before it joined are not its own
                producer.produce(topic, b"x", partition=partition)
            assert producer.flush(60) == 0
            assert not list(behind.poll(0.1))
            taken.update(message.partition() for message in direct.poll(0.5) if message.error() is None)
            return len(taken) == 4

        wait_until(all_partitions, "records of all partitions at the other member")
        for member in members:
            member.close()
        assert shim.metrics()["requests"] > 0
        assert "connections_dropped.protocol" not in shim.metrics()
