"""A fault costs speed only: all produced records are delivered, and each fallback is counted by its cause."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import attrs
import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    MissingExtraError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ReadableStream
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Row,
    direct_settings,
    fallbacks,
    fill_topic,
    filled_cluster,
    from_broker,
    from_store,
    plain_rows,
    read_to_ends,
    small_cluster,
    take,
)
from tests.support.golden_tier import CutStream, FlippedStream

pytestmark = pytest.mark.embedded

COUNT = 400
TOPIC = "orders"


running = filled_cluster(TOPIC, COUNT, max_grant_bytes=2_000)


@pytest.fixture(scope="module")
def expected(running: EmbeddedCluster) -> list[Row]:
    return plain_rows(running, TOPIC)


def consumer_of(cluster: EmbeddedCluster, **more: object) -> Consumer:
    made = Consumer(direct_settings(cluster, **{"fetch_remote_fallback_backoff_ms": 600_000, **more}))
    made.assign([TopicPartition(TOPIC, 0, 0)])
    return made


def rest(consumer: Consumer) -> list[Row]:
    return read_to_ends(consumer)[TOPIC, 0]


class FaultyFetcher:
    """The consumer's own fetcher with one fault in it, at each call or at the first few."""

    def __init__(self, inner: Any, fault: Callable[[ReadableStream], ReadableStream] | Exception) -> None:
        self._inner = inner
        self._fault = fault
        self.calls = 0

    def configure(self, configs: Any) -> None:
        """Does nothing: the fetcher is configured already."""

    def fetch_log_segment(self, metadata: Any, start: int, end: int) -> ReadableStream:
        self.calls += 1
        if isinstance(self._fault, Exception):
            raise self._fault
        return self._fault(self._inner.fetch_log_segment(metadata, start, end))

    def close(self) -> None:
        self._inner.close()


class Liar:
    """A buffer that claims more bytes than it has."""

    def __init__(self, stream: ReadableStream) -> None:
        self._stream = stream

    def readinto(self, buffer: Any, /) -> int:
        return len(buffer) + 1

    def close(self) -> None:
        self._stream.close()


def spoil(consumer: Consumer, fault: Callable[[ReadableStream], ReadableStream] | Exception) -> FaultyFetcher:
    engine = consumer._direct_engine
    engine._fetcher = FaultyFetcher(engine._fetcher, fault)
    return engine._fetcher


FAULTS: list[tuple[str, Callable[[EmbeddedCluster], None], dict[str, object], set[str]]] = [
    ("down", lambda cluster: cluster.faults.store_down(), {}, {"unavailable", "breaker-open"}),
    (
        "slow",
        lambda cluster: cluster.faults.slow_store(600),
        {"fetch_remote_read_timeout_ms": 3_000},  # a store that is well answers within that on a loaded machine, too
        {"timeout", "breaker-open"},
    ),
    ("expired", lambda cluster: cluster.faults.expired_urls(), {}, {"expired"}),
]


@pytest.mark.parametrize("when", ["from-the-start", "mid-read"])
@pytest.mark.parametrize(("name", "fault", "settings", "causes"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_store_that_fails_costs_speed_only(
    cluster: EmbeddedCluster,
    expected: list[Row],
    name: str,
    fault: Callable[[EmbeddedCluster], None],
    settings: dict[str, object],
    causes: set[str],
    when: str,
) -> None:
    if when == "from-the-start":
        fault(cluster)
    with consumer_of(cluster, **settings) as consumer:
        rows = take(consumer, 20) if when == "mid-read" else []
        if when == "mid-read":
            assert from_store(consumer) >= 20
            fault(cluster)
        assert rows + rest(consumer) == expected
        assert set(fallbacks(consumer)) <= causes, name
        assert sum(fallbacks(consumer).values()) == 1
        assert from_store(consumer) + from_broker(consumer) == COUNT


def test_goes_back_to_the_store_once_it_is_well(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    cluster.faults.expired_urls()
    settings = {"fetch_remote_fallback_backoff_ms": 1, "queued_min_messages": 1, "fetch_message_max_bytes": 1000}
    with consumer_of(cluster, **settings) as consumer:
        rows = take(consumer, 3)
        assert from_broker(consumer) == 3
        cluster.faults.clear()
        while not from_store(consumer):
            rows += take(consumer, 1)
        assert rows + rest(consumer) == expected
        assert consumer.metrics()["remote-fetch-handovers-total"] == 1


@pytest.mark.parametrize(
    ("settings", "cause", "text"),
    [
        (
            {"remote_storage_fetcher_allowed_hosts": "store.example"},
            "forbidden-location",
            "URL host '{store}' is not in remote.storage.fetcher.allowed.hosts",
        ),
        (
            {"remote_storage_fetcher_allow_http": False},
            "forbidden-location",
            "the URL is plain http; set remote.storage.fetcher.allow.http=true to permit it",
        ),
        (
            {"remote_storage_fetcher_allow_private_addresses": False},
            "forbidden-location",
            "127.0.0.1 resolves to a private address; set remote.storage.fetcher.allow.private.addresses=true to permit it",
        ),
        ({"fetch_remote_bootstrap_servers": "127.0.0.1:1"}, "peer-unreachable", "cannot connect to 127.0.0.1:1: "),
        ({"fetch_remote_bootstrap_servers": "{broker}"}, "not-announced", "{broker} does not announce direct fetch"),
    ],
    ids=["other-host", "http", "private-address", "shim-port-closed", "plain-broker-as-shim"],
)
def test_a_mistake_in_the_settings_is_one_warning(
    cluster: EmbeddedCluster,
    expected: list[Row],
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, str],
    cause: str,
    text: str,
) -> None:
    places = {"store": cluster.origin_url.partition("//")[2], "broker": cluster.broker_bootstrap_servers}
    settings = {name: value.format(**places) if isinstance(value, str) else value for name, value in settings.items()}
    with consumer_of(cluster, **settings) as consumer:
        assert rest(consumer) == expected
        assert fallbacks(consumer) == {cause: 1}
        assert from_store(consumer) == 0
    (line,) = [record.getMessage() for record in caplog.records if record.name == "kafka_remote_client.consumer.routing"]
    assert line.startswith(f"direct fetch disabled for {TOPIC}-0: {text.format(**places)}")
    assert line.endswith(f"the broker continues at offset 0 ({cause})")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (ValueError("garbage, with https://host/?signature=secret"), "storage-error"),
        (ForbiddenLocationError("redirect"), "forbidden-location"),
        (RemoteStorageUnavailableError("refused"), "unavailable"),
        (lambda stream: FlippedStream(stream, 100), "corrupt"),
        (lambda stream: FlippedStream(stream, 3), "corrupt"),
        (lambda stream: CutStream(stream, 40), "unavailable"),
        (lambda stream: stream.close(), "storage-error"),  # nobody closes a stream that was not handed on
        (Liar, "invalid-response"),
    ],
    ids=["garbage", "redirect", "refused", "damaged-body", "damaged-offset", "cut", "no-stream", "too-many-bytes"],
)
def test_a_fetcher_that_fails_costs_speed_only(
    cluster: EmbeddedCluster, expected: list[Row], caplog: pytest.LogCaptureFixture, fault: Any, cause: str
) -> None:
    with consumer_of(cluster) as consumer:
        consumer.assign([])
        spoiled = spoil(consumer, fault)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert rest(consumer) == expected
        assert fallbacks(consumer) == {cause: 1}
        assert spoiled.calls > 0
    assert "secret" not in caplog.text


@pytest.mark.parametrize("change", ["format", "gap"])
def test_a_location_that_cannot_be_used_costs_speed_only(cluster: EmbeddedCluster, expected: list[Row], change: str) -> None:
    with consumer_of(cluster) as consumer:
        consumer.assign([])
        source = consumer._direct_engine._source
        locate = source.locate

        def changed(*args: Any, **kwargs: Any) -> Any:
            found = locate(*args, **kwargs)
            if change == "format":
                return attrs.evolve(found, format="Iceberg")
            # The range begins one batch late, as after a compaction that left a hole.
            first = found.ranges[0]
            return attrs.evolve(
                found, ranges=(attrs.evolve(first, range=attrs.evolve(first.range, end=first.range.end - 1)), *found.ranges[1:])
            )

        source.locate = changed
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert rest(consumer) == expected
        assert sum(fallbacks(consumer).values()) == 1


@pytest.mark.fault("F61")
def test_a_location_peer_that_never_announced_itself_is_not_asked(cluster: EmbeddedCluster) -> None:
    topic = "at-the-broker"
    cluster.produce(topic, [(b"k", b"v%d" % n) for n in range(50)])
    settings = direct_settings(cluster) | {"bootstrap.servers": cluster.broker_bootstrap_servers}
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert len(read_to_ends(consumer)[topic, 0]) == 50
        assert from_store(consumer) == 0
        assert consumer.metrics()["remote-fetch-location-request-total"] == 0


def test_a_location_peer_that_is_not_there_leaves_everything_to_the_broker(
    cluster: EmbeddedCluster, expected: list[Row]
) -> None:
    settings = {"fetch_remote_bootstrap_servers": "127.0.0.1:1", "fetch_remote_location_timeout_ms": 300}
    with consumer_of(cluster, **settings) as consumer:
        assert rest(consumer) == expected
        assert from_store(consumer) == 0
        assert consumer.metrics()["remote-fetch-fallbacks-total"] == {"peer-unreachable": 1}


@pytest.mark.parametrize("one", ["poll", "consume"])
@pytest.mark.fault("F57")
def test_a_shim_that_vanishes_ends_as_with_confluent_kafka(tmp_path: Any, one: str) -> None:
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, TOPIC, COUNT)
        codes: set[int] = set()
        settings: dict[str, object] = {
            "fetch_remote_location_timeout_ms": 500,
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 10,
        }
        on_error = {"error_cb": lambda error: codes.add(error.code())}
        with Consumer(direct_settings(cluster, **settings) | on_error) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            rows = take(consumer, 10)
            assert cluster._shim is not None
            cluster._shim.stop()
            deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
            while confluent_kafka.KafkaError._ALL_BROKERS_DOWN not in codes:
                assert not deadline.expired(), f"only {codes} after {len(rows)} records: {consumer.metrics()}"
                messages = [consumer.poll(0.2)] if one == "poll" else consumer.consume(50, 0.2)
                rows += [(m.topic(), m.partition(), m.offset()) for m in messages if m is not None and m.error() is None]
            assert [r[2] for r in rows] == list(range(len(rows)))
            consumer.seek(TopicPartition(TOPIC, 0, 5))  # does not hang either


# -- what is refused at construction ---------------------------------------------------------------------------------------

LISTED = {"remote.storage.fetcher.allowed.hosts": "store.example"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"remote.storage.fetcher.class": "no-such"}, "unknown fetcher 'no-such'"),
        ({"remote.storage.fetcher.class": "os:getcwd"}, "neither an installed fetcher nor listed"),
        ({"fetch.remote.enabeld": True}, "unknown setting: fetch.remote.enabeld; did you mean fetch.remote.enabled?"),
        (
            {"remote.storage.fetcher.allow.hosts": "store.example"},
            "unknown setting of fetcher 'presigned': remote.storage.fetcher.allow.hosts; "
            "did you mean remote.storage.fetcher.allowed.hosts?",
        ),
        ({"remote.storage.fetcher.allowed.hosts": " "}, "fetcher 'presigned' needs remote.storage.fetcher.allowed.hosts"),
        ({"fetch.remote.retries": 99}, "fetch.remote.retries"),
        ({"remote.storage.fetcher.class.path": "."}, "needs fetch.remote.allow.class.path"),
        ({"fetch.remote.bootstrap.servers": "a:b:c"}, "bootstrap.servers"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(settings: dict[str, object], text: str) -> None:
    base = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "fetch.remote.enabled": True}
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        Consumer({**base, "remote.storage.fetcher.class": "presigned", **LISTED, **settings})


TLS = {"security.protocol": "ssl", "ssl.sigalgs.list": "RSA+SHA256"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "remote.storage.fetcher.class is not set"),
        ({"remote.storage.fetcher.class": "presigned", **LISTED, "test.mock.num.brokers": 1}, "bootstrap.servers is not set"),
        ({"remote.storage.fetcher.class": "presigned", **LISTED, **TLS}, "ssl.sigalgs.list is not supported by direct fetch"),
    ],
)
def test_log_says_once_that_direct_fetch_cannot_work(
    caplog: pytest.LogCaptureFixture, settings: dict[str, object], text: str
) -> None:
    with caplog.at_level(logging.WARNING):
        consumer = Consumer({"group.id": "g", "fetch.remote.enabled": True, "log_level": 0, **settings})
    assert [text in record.getMessage() for record in caplog.records] == [True]
    assert type(consumer) is Consumer
    consumer.close()


def test_a_fetcher_whose_extra_is_missing_leaves_the_broker_path_untouched(
    cluster: EmbeddedCluster, expected: list[Row], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_fetcher(*_: object) -> None:
        raise MissingExtraError("the plugin s3 needs boto3: pip install 'kafka-remote-client[s3]'")

    monkeypatch.setattr("kafka_remote_client.fetch.assemble.load_fetcher", load_fetcher)
    with caplog.at_level(logging.WARNING):
        consumer = Consumer(direct_settings(cluster))
    assert [record.getMessage() for record in caplog.records] == [
        "direct fetch is off: the plugin s3 needs boto3: pip install 'kafka-remote-client[s3]'"
    ]
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    assert read_to_ends(consumer)[TOPIC, 0] == expected
    consumer.close()


def test_a_configuration_that_confluent_kafka_refuses_leaves_nothing_open(cluster: EmbeddedCluster) -> None:
    with pytest.raises(confluent_kafka.KafkaException, match="No such configuration property"):
        Consumer(direct_settings(cluster) | {"no.such.setting": 1})
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        Consumer({k: v for k, v in direct_settings(cluster).items() if k != "group.id"})


def test_partition_whose_start_librdkafka_lost_still_delivers_everything(
    cluster: EmbeddedCluster, expected: list[Row], caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka then refuses to seek the partition until it is assigned again, however long that takes."""
    with consumer_of(cluster) as consumer:
        inner = consumer._direct_routing._inner
        started: list[TopicPartition] = []

        def seek(partition: TopicPartition) -> None:
            if not started:
                raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._STATE))
            inner.seek(partition)

        def incremental_assign(partitions: list[TopicPartition]) -> None:
            started.extend(partitions)
            inner.incremental_assign(partitions)

        consumer._direct_routing._inner = attrs.evolve(inner, seek=seek, incremental_assign=incremental_assign)
        assert rest(consumer) == expected
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], 60.0)
        assert committed.offset == COUNT
    assert len(started) == 1
    assert 0 < started[0].offset < COUNT
    assert "librdkafka has not started orders-0 after 1 s: assigning it again" in caplog.text
