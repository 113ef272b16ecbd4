"""Faults of a broker, with three real brokers: direct fetch gives the same records as a plain consumer afterwards.

Two consumers see each fault, ours and confluent's own: both have read the same records and are paused when it happens,
so both drop the records read ahead, and both continue afterwards. Their rows and errors must then be equal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition

from kafka_remote_client import Consumer, model
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster
from kafka_remote_client.spark.options.source_options import parse_options
from tests.faults.chaos import Chaos
from tests.support import kafka_wire
from tests.support.history import History, Moved, Outage, Produced
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import TierOffsets
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ports import HOST
from tests.support.reading import PATIENCE_SECONDS, Row, direct, row, settings, total
from tests.support.recorder import recorded
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

LEVELS = ["read_committed", "read_uncommitted"]
_SMALL_RANGES = {"fetch.remote.range.bytes": 64 << 10, "fetch.remote.fallback.backoff.ms": 600_000}
_PATIENCE_SECONDS = 2 * PATIENCE_SECONDS
_CHAOS_SECONDS = 25
_CHAOS_SEED = 1451
_CHAOS_FAULTS = ("broker-killed", "records-deleted")
"""What the short run has in any case. Others follow, as many as there is time for."""


@pytest.fixture
def cluster(kafka_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """All three brokers run; brokers that a test stopped are started after it."""
    yield kafka_cluster
    kafka_cluster.heal()


@pytest.fixture(scope="module")
def shim(kafka_cluster: KafkaCluster) -> Iterator[Shim]:
    config = ShimConfig(
        kafka_cluster.bootstrap_servers,
        store=kafka_cluster.store_url,
        range_bytes=64 << 10,
        max_grant_bytes=64 << 10,
        metadata_consumer={"log_level": 0},
    )
    with Shim(config) as running:
        assert running.wait_ready(_PATIENCE_SECONDS)
        yield running


@pytest.fixture
def topic() -> str:
    return f"faults-{uuid4().hex[:8]}"


def write(cluster: KafkaCluster, topic: str, count: int, name: str) -> None:
    """Writes transactions of 50 records, every third aborted, with plain records between them."""
    common = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "batch.num.messages": 10, "linger.ms": 2}
    plain = Producer({**common, "enable.idempotence": True})
    transactional = Producer({**common, "transactional.id": f"{topic}-{name}"})
    transactional.init_transactions(_PATIENCE_SECONDS)
    for first in range(0, count, 50):
        transactional.begin_transaction()
        for producer, numbers in ((transactional, range(first, first + 40)), (plain, range(first + 40, first + 50))):
            for number in numbers:
                producer.produce(topic, b"%s %d " % (name.encode(), number) * 12, b"%d" % number, partition=0)
            assert producer.flush(_PATIENCE_SECONDS) == 0
        (transactional.abort_transaction if first % 150 == 100 else transactional.commit_transaction)(_PATIENCE_SECONDS)


def tiered(cluster: KafkaCluster, shim: Shim, topic: str) -> TierOffsets:
    """Waits until everything that can be tiered is tiered, and the shim knows it."""
    offsets = cluster.wait_until_tiered(topic)
    with Consumer(direct(shim, "read_uncommitted")) as consumer:
        # The last tiered record is read directly as soon as the shim knows its segment.
        def known() -> bool:
            consumer.assign([TopicPartition(topic, 0, offsets.latest_tiered)])
            first = consumer.consume(1, PATIENCE_SECONDS)
            return bool(first) and total(consumer.metrics(), "remote-fetch-records-total") > 0

        wait_until(known, f"the shim to know the tier of {topic}", seconds=_PATIENCE_SECONDS)
    return offsets


def read_on(consumer: confluent_kafka.Consumer, *, until_error: bool = False) -> tuple[list[Row], set[int]]:
    """Returns all rows up to the end of the one partition, or to an error, and the codes of errors."""
    rows: list[Row] = []
    codes: set[int] = set()
    deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
    while not deadline.expired():
        for message in consumer.consume(500, 0.2):
            error = message.error()
            if error is None:
                rows.append(row(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return rows, codes
            else:
                codes.add(error.code())
                if until_error:
                    return rows, codes
    raise AssertionError(f"no end after {len(rows)} records, errors {codes}")


def read_some(consumer: confluent_kafka.Consumer, count: int) -> list[Row]:
    rows: list[Row] = []
    deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
    while len(rows) < count:
        assert not deadline.expired(), f"{len(rows)} of {count} records came"
        for message in consumer.consume(count - len(rows), 0.2):
            assert message.error() is None, message.error()
            rows.append(row(message))
    return rows


class Pair:
    """Our consumer and confluent's own on partition 0 of one topic, both recorded. A context manager."""

    def __init__(self, cluster: KafkaCluster, shim: Shim, topic: str, isolation: str, **more: object) -> None:
        self.partition = TopicPartition(topic, 0)
        self.history, self.truth = History(), History()
        plainly = settings(cluster.bootstrap_servers, isolation, **more)
        self.direct = recorded(Consumer, direct(shim, isolation, **_SMALL_RANGES, **more), self.history)
        self.plain = recorded(confluent_kafka.Consumer, plainly, self.truth)
        self._both: tuple[Any, ...] = (self.direct, self.plain)

    def __enter__(self) -> Self:
        for consumer in self._both:
            consumer.assign([TopicPartition(self.partition.topic, 0, OFFSET_BEGINNING)])
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._both:
            consumer.close()

    @property
    def direct_records(self) -> int:
        return total(self.direct.metrics(), "remote-fetch-records-total")

    def read_and_pause(self, count: int) -> int:
        """Both read the same number of records, ours from the store. Returns the next offset."""
        ours, theirs = (read_some(consumer, count) for consumer in self._both)
        assert ours == theirs
        assert self.direct_records >= count
        for consumer in self._both:
            consumer.pause([self.partition])
        return int(ours[-1][0]) + 1

    def log_start_moves(self, log_start: int) -> None:
        """Records that records below ``log_start`` are deleted."""
        self.history.add(Moved, key=(self.partition.topic, 0), log_start=log_start)

    def log_was_cut(self, end: int) -> None:
        """Records that the log was truncated to ``end``, for both."""
        for history in (self.history, self.truth):
            history.add(Moved, key=(self.partition.topic, 0), end=end)

    def judge(self) -> None:
        """Compares our consumer's history with the plain one's."""
        check(self.history, Oracle.of(self.truth))

    def go_on(self, **how: Any) -> tuple[list[Row], set[int]]:
        """Both continue; returns what both got."""
        for consumer in self._both:
            consumer.resume([self.partition])
        ours, theirs = (read_on(consumer, **how) for consumer in self._both)
        assert ours == theirs
        return ours


@pytest.mark.fault("F62")
def test_f62_leader_killed_during_a_fetch_costs_speed_only(cluster: KafkaCluster, shim: Shim, topic: str) -> None:
    cluster.create_topic(topic, (1, 2, 3))
    write(cluster, topic, 1_500, "first")
    tiered(cluster, shim, topic)
    readers = [Consumer(direct(shim, isolation, **_SMALL_RANGES)) for isolation in LEVELS]
    try:
        for consumer in readers:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        rows = [read_some(consumer, 20) for consumer in readers]
        assert all(total(consumer.metrics(), "remote-fetch-records-total") >= 20 for consumer in readers)
        cluster.stop(1)
        more = [read_on(consumer) for consumer in readers]
        assert cluster.leader(topic) in {2, 3}, "the fault is an election"
    finally:
        for consumer in readers:
            consumer.close()
    for isolation, first, (rest, codes) in zip(LEVELS, rows, more, strict=True):
        judge = confluent_kafka.Consumer(settings(cluster.bootstrap_servers, isolation))
        judge.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert (first + rest, codes) == read_on(judge)
        judge.close()


@pytest.mark.fault("F63")
def test_f63_truncation_below_the_position_is_found_as_by_a_plain_consumer(
    cluster: KafkaCluster, shim: Shim, topic: str
) -> None:
    cluster.create_topic(topic, (1, 2), unclean_leader_election_enable="true")
    write(cluster, topic, 300, "kept")
    cluster.wait_until_in_sync(topic, 1, 2)
    cluster.stop(2, kill=False)
    cluster.wait_until_in_sync(topic, 1)
    kept = tiered(cluster, shim, topic).high_watermark
    write(cluster, topic, 600, "lost")
    assert tiered(cluster, shim, topic).latest_tiered > kept + 200, "what is lost was tiered"
    with Pair(cluster, shim, topic, LEVELS[0]) as committed, Pair(cluster, shim, topic, LEVELS[1]) as uncommitted:
        positions = [committed.read_and_pause(kept - 50), uncommitted.read_and_pause(kept + 100)]
        assert min(positions) > kept
        cluster.stop(1, kill=False)
        cluster.start(2)
        cluster.wait_for_leader(topic, 2)
        end = cluster.offsets(topic)
        assert end is not None
        assert end.high_watermark <= kept, "the fault is a truncation"
        for pair in (committed, uncommitted):
            pair.log_was_cut(end.high_watermark)
        write(cluster, topic, 900, "new")
        assert cluster.wait_until_tiered(topic).latest_tiered > max(positions)
        for pair in (committed, uncommitted):
            rows, _ = pair.go_on()
            names = {(r[4] or b"").split()[0] for r in rows}
            assert b"new" in names
            assert b"lost" not in names
    for pair in (committed, uncommitted):
        pair.judge()


@pytest.mark.fault("F64")
def test_f64_deleted_records_follow_the_reset_policy(cluster: KafkaCluster, shim: Shim, topic: str) -> None:
    cluster.create_topic(topic)
    write(cluster, topic, 600, "some")
    before = tiered(cluster, shim, topic)
    deleted = before.latest_tiered - 200
    policies = ["earliest", "latest", "error"]
    pairs = {reset: Pair(cluster, shim, topic, LEVELS[0], **{"auto.offset.reset": reset}) for reset in policies}
    with pairs["earliest"], pairs["latest"], pairs["error"]:
        assert all(pair.read_and_pause(30) < deleted - 30 for pair in pairs.values())
        for pair in pairs.values():
            pair.log_start_moves(deleted)
        cluster.delete_records(topic, deleted)
        after = {reset: pair.go_on(until_error=reset == "error") for reset, pair in pairs.items()}
    for pair in pairs.values():
        pair.judge()
    assert after["earliest"][0]
    assert all(r[0] >= deleted for r in after["earliest"][0])
    assert after["latest"] == ([], set())
    assert after["error"] == ([], {KafkaError._AUTO_OFFSET_RESET})


@pytest.mark.fault("F64")
def test_f64_retention_past_the_position_ends_as_with_a_plain_consumer(cluster: KafkaCluster, shim: Shim, topic: str) -> None:
    cluster.create_topic(topic)
    write(cluster, topic, 600, "some")
    tiered(cluster, shim, topic)
    with Pair(cluster, shim, topic, "read_committed") as pair:
        position = pair.read_and_pause(30)
        cluster.set_topic(topic, retention_bytes="30000")

        def passed() -> bool:
            now = cluster.offsets(topic)
            return now is not None and now.log_start > position + 100

        wait_until(passed, "retention to pass the position", seconds=_PATIENCE_SECONDS)
        wait_until(lambda: cluster.segments(topic) < 10, "old segments to be deleted", seconds=_PATIENCE_SECONDS)
        settled = cluster.offsets(topic)
        assert settled is not None
        pair.log_start_moves(settled.log_start)
        rows, codes = pair.go_on()
        pair.judge()
        assert rows[0][0] >= settled.log_start
        assert codes == set()


@pytest.mark.fault("F65")
def test_f65_a_recreated_topic_is_never_read_from_the_old_ones_tier(cluster: KafkaCluster, shim: Shim, topic: str) -> None:
    cluster.create_topic(topic)
    write(cluster, topic, 600, "old")
    tiered(cluster, shim, topic)
    with Pair(cluster, shim, topic, "read_committed") as pair:
        position = pair.read_and_pause(30)
        cluster.delete_topic(topic)
        cluster.create_topic(topic)
        write(cluster, topic, 600, "new")
        assert tiered(cluster, shim, topic).latest_tiered > position
        rows, _ = pair.go_on()
        assert rows
        assert {(r[4] or b"")[:3] for r in rows} == {b"new"}


def test_a_new_topic_is_known_to_every_node_before_a_test_reads_it(cluster: KafkaCluster, topic: str) -> None:
    with ThreadPoolExecutor(1) as aside:
        cluster.signal(2, signal.SIGSTOP)
        try:
            created = aside.submit(cluster.create_topic, topic, (1,))
            with pytest.raises(TimeoutError):
                created.result(3)
        finally:
            cluster.signal(2, signal.SIGCONT)
        created.result()
    assert {kafka_wire.leader(HOST, broker.port, topic, 0) for broker in cluster.nodes.values()} == {1}


def test_a_healed_cluster_has_an_answer_of_every_node(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    known, late = kafka_wire.brokers, [{2, 3}]

    def brokers(host: str, port: int) -> set[int]:
        return late.pop() if late and port == cluster.nodes[2].port else known(host, port)

    monkeypatch.setattr(kafka_wire, "brokers", brokers)
    cluster.heal()
    assert not late  # node 2 was asked, and again, because it did not know node 1
    assert all(known(HOST, broker.port) == {1, 2, 3} for broker in cluster.nodes.values())


def test_the_driver_of_a_spark_query_waits_for_a_leader(cluster: KafkaCluster, topic: str) -> None:
    alone = model.TopicPartition(topic, 0)
    cluster.create_topic(topic, replicas=(1,))
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "kafka.default.api.timeout.ms": "120000"}
    options = parse_options({**servers, "subscribe": topic, "fetchOffset.numRetries": "0"})
    asked = AdminCluster(options, SystemClock())
    assert asked.ends([alone]) == {alone: 0}  # now it knows the leader
    cluster.stop(1)
    wait_until(lambda: cluster.leader(topic) == -1, f"{topic} to have no leader", seconds=_PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as aside:
        answer = aside.submit(asked.ends, [alone])
        with pytest.raises(TimeoutError):
            answer.result(3)
        cluster.start(1)
        assert answer.result() == {alone: 0}


@pytest.mark.fault("F79")
def test_f79_tier_is_read_while_copying_is_disabled_and_not_after_its_end(
    cluster: KafkaCluster, shim: Shim, topic: str
) -> None:
    cluster.create_topic(topic)
    write(cluster, topic, 600, "tiered")
    before = tiered(cluster, shim, topic)
    with Pair(cluster, shim, topic, LEVELS[0]) as through, Pair(cluster, shim, topic, LEVELS[0]) as within:
        cluster.set_topic(topic, remote_log_copy_disable="true", local_retention_bytes="-2", local_retention_ms="-2")
        write(cluster, topic, 300, "local")
        position = within.read_and_pause(30)
        through.read_and_pause(30)
        rows, codes = through.go_on()
        assert codes == set()
        assert {(r[4] or b"").split()[0] for r in rows} >= {b"tiered", b"local"}
        assert through.direct_records > before.latest_tiered // 3, "the tier is still read"
        still = cluster.offsets(topic)
        assert still is not None
        assert still.latest_tiered == before.latest_tiered, "the fault is that nothing is copied"
        cluster.set_topic(topic, remote_storage_enable="false", remote_log_delete_on_disable="true")

        def deleted() -> bool:
            now = cluster.offsets(topic)
            return now is not None and now.log_start > position and cluster.segments(topic) == 0

        wait_until(deleted, "the tier to be deleted", seconds=_PATIENCE_SECONDS)
        local = cluster.offsets(topic)
        assert local is not None
        for pair in (through, within):
            pair.log_start_moves(local.log_start)
        rows, codes = within.go_on()
        assert codes == set()
        assert rows[0][0] >= local.log_start
    for pair in (through, within):
        pair.judge()


@pytest.mark.fault("F62")
@pytest.mark.timeout(900)  # three brokers are killed and started again; on a loaded machine this takes minutes
def test_chaos_of_brokers_shim_and_store_breaks_no_invariant(cluster: KafkaCluster, tmp_path: Path) -> None:
    """``make chaos`` for a short time; the full campaign takes three minutes."""
    with closing(Chaos(cluster, tmp_path, seed=_CHAOS_SEED)) as chaos:
        chaos.run(_CHAOS_SECONDS, first=_CHAOS_FAULTS)
        read_by_members = chaos.from_store()
        found = chaos.judge()
    chaos.report(_CHAOS_SECONDS, found)
    assert found == []
    assert set(_CHAOS_FAULTS) <= set(chaos.fired)
    assert read_by_members > 0
    assert all(chaos.history.of(kind) for kind in (Produced, Outage, Moved)), chaos.fired
