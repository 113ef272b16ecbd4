"""Spark's readers, without Spark, with an unreadable tier: one time-out, one message, or one error before any task."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.spark.reading import split_reader
from kafka_remote_client.spark.reading.broker_limit import BrokerBytesError
from kafka_remote_client.spark.source.datasource import KafkaRemoteReader
from tests.support.embedded_topics import fill_topic, filled_cluster
from tests.support.micro_batches import Query
from tests.support.ports import HOST, free_ports
from tests.support.silent_peer import SilentPeer
from tests.support.spark_worker import close_task_state
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

COUNT = 400
BATCHES = 20


cluster = filled_cluster("orders", COUNT, partitions=(0, 1))


@pytest.fixture(autouse=True)
def _a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clears the state of earlier tests."""
    close_task_state()
    monkeypatch.setattr(split_reader._worker_fallbacks._limit, "_written", {})
    yield
    close_task_state()


def options(cluster: EmbeddedCluster, **more: str | None) -> dict[str, str]:
    """Returns options that read both partitions in twelve splits, or in fourteen that end with segments if a shim lists these.

    ``None`` removes an option.
    """
    all_of_them: Mapping[str, str | None] = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "assign": '{"orders":[0,1]}',
        "fetch.remote.bootstrap.servers": cluster.bootstrap_servers,
        "remote.storage.fetcher.allowed.hosts": cluster.origin_url.partition("//")[2],
        "remote.storage.fetcher.allow.http": "true",
        "remote.storage.fetcher.allow.private.addresses": "true",
        "remote.librdkafka.log_level": "0",
        "maxRecordsPerPartition": "70",
        **more,
    }
    return {name: value for name, value in all_of_them.items() if value is not None}


@pytest.fixture
def silent() -> Iterator[SilentPeer]:
    with SilentPeer() as peer:
        yield peer


def read_all(given: Mapping[str, str]) -> tuple[int, list[tuple[int, int]]]:
    """How many splits there are, and what their tasks read, as Spark does: reader and splits go through a pickle."""
    reader = KafkaRemoteReader(given)
    partitions = reader.partitions()
    rows = []
    for partition in partitions:
        task, split = pickle.loads(pickle.dumps((reader, partition)))
        rows += [(row["partition"], row["offset"]) for batch in task.read(split) for row in batch.to_pylist()]
    return len(partitions), rows


EVERY = [(partition, offset) for partition in (0, 1) for offset in range(COUNT)]

# The mistake and the expected message.
MISTAKES: Mapping[str, tuple[dict[str, str | None], str]] = {
    "another host is allowed": ({"remote.storage.fetcher.allowed.hosts": "store.example:9000"}, "allowed.hosts"),
    "http is not allowed": ({"remote.storage.fetcher.allow.http": None}, "allow.http"),
    "the port of the shim is closed": ({"fetch.remote.bootstrap.servers": "closed"}, "cannot connect to"),
    "the shim is a plain broker": ({"fetch.remote.bootstrap.servers": "mock"}, "does not announce direct fetch"),
    "the shim does not answer": (
        {"fetch.remote.bootstrap.servers": "silent", "fetch.remote.location.timeout.ms": "500"},
        "SILENT",
    ),
}


@pytest.fixture(params=MISTAKES)
def mistake(request: pytest.FixtureRequest, cluster: EmbeddedCluster, silent: SilentPeer) -> tuple[dict[str, str], str]:
    given, text = MISTAKES[request.param]
    addresses = {"closed": f"{HOST}:{free_ports(1)[0]}", "silent": silent.address, "mock": cluster.broker_bootstrap_servers}
    wrong = {name: addresses.get(value or "", value) for name, value in given.items()}
    return options(cluster, **wrong), text.replace("SILENT", silent.address)


def test_a_mistake_logs_one_warning_in_the_driver(
    mistake: tuple[dict[str, str], str], caplog: pytest.LogCaptureFixture
) -> None:
    given, text = mistake
    with caplog.at_level(logging.WARNING):
        splits, rows = read_all(given)
    assert splits == 12
    assert sorted(rows) == EVERY
    told = [record for record in caplog.records if record.name.startswith("kafka_remote_client.spark")]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert text in told[0].getMessage()


def test_a_mistake_fails_the_query_before_its_first_task(mistake: tuple[dict[str, str], str]) -> None:
    given, text = mistake
    with pytest.raises(TierUnavailableError, match=text):
        KafkaRemoteReader(given | {"remote.onFallback": "fail"}).partitions()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("remote.storage.fetcher.allowed.hosts", None, "remote.storage.fetcher.allowed.hosts"),
        ("remote.storage.fetcher.allowed.host", "a", "did you mean remote.storage.fetcher.allowed.hosts"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_the_driver(
    cluster: EmbeddedCluster, name: str, value: str | None, text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        KafkaRemoteReader(options(cluster, **{name: value})).partitions()


def test_a_shim_that_never_answers_is_asked_once(cluster: EmbeddedCluster, silent: SilentPeer) -> None:
    given = {"fetch.remote.bootstrap.servers": silent.address, "fetch.remote.location.timeout.ms": "500"}
    splits, rows = read_all(options(cluster, **given))
    assert (splits, sorted(rows)) == (12, EVERY)
    assert silent.connections == 1


def test_a_stream_asks_an_unresponsive_shim_once_and_warns_once(
    cluster: EmbeddedCluster, silent: SilentPeer, caplog: pytest.LogCaptureFixture
) -> None:
    topic = fill_topic(cluster, "unanswered", COUNT)
    given = {"fetch.remote.bootstrap.servers": silent.address, "fetch.remote.location.timeout.ms": "500"}
    query = Query(options(cluster, assign=f'{{"{topic}":[0]}}', startingOffsets="earliest", **given))
    try:
        assert len(query.batch() or ()) == COUNT
        for _ in range(BATCHES - 1):
            cluster.produce(topic, [(b"k", b"v")])
            assert len(query.batch() or ()) == 1
    finally:
        query.stop()
    assert silent.connections == 1
    (warning,) = [record for record in caplog.records if record.name.startswith("kafka_remote_client.spark")]
    assert silent.address in warning.getMessage()


def test_bytes_from_brokers_are_limited_for_the_whole_job(cluster: EmbeddedCluster) -> None:
    splits, rows = read_all(options(cluster, **{"remote.maxBrokerBytes": "1000000"}))
    assert (splits, sorted(rows)) == (14, EVERY)
    with pytest.raises(BrokerBytesError, match=r"of this job are not tiered, more than remote\.maxBrokerBytes=100"):
        read_all(options(cluster, **{"remote.maxBrokerBytes": "100"}))


def test_micro_batches_open_no_new_connections(cluster: EmbeddedCluster) -> None:
    """Spark's own source opens none either. Eleven are to open: five of the admin client and of the engines, three of each
    task's consumer. Nothing waits for those to the groups' coordinators, which may come after the batch.
    """
    topic = fill_topic(cluster, "stream", COUNT, partitions=(0, 1))
    given = options(cluster, assign=f'{{"{topic}":[0,1]}}', startingOffsets="earliest", maxRecordsPerPartition=None)
    query = Query(given, side_by_side=True)
    others = len(cluster.clients())

    def opened() -> list[str]:
        return cluster.clients()[others:]

    def batch() -> int:
        for partition in (0, 1):
            cluster.produce(topic, [(b"k", b"v")] * 5, partition=partition)
        return len(query.batch() or ())

    try:
        assert batch() == 2 * (COUNT + 5)  # opens all connections
        assert batch() == 10
        wait_until(lambda: len(opened()) >= 5 + 2 * 3, "all connections")
        first, before = opened(), cluster.metrics()["connections"]
        assert [batch() for _ in range(BATCHES)] == [10] * BATCHES
        assert opened() == first
        assert cluster.metrics()["connections"] - before == 0
    finally:
        query.stop()
