"""Reads from the partition leaders: bounds, records between two exact offsets, and each answer a broker may give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import (
    ConfigurationError,
    LocationError,
    PeerCertificateError,
    ProtocolError,
    SaslAuthenticationError,
    SecurityProtocolError,
)
from kafka_remote_client.fallback import BrokerReadError
from kafka_remote_client.fetch.broker_log import BrokerLog, open_broker_log
from kafka_remote_client.location.cluster_metadata import PartitionLeader
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.model import AbortedTransaction, IsolationLevel, TopicPartition
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, PartitionData
from kafka_remote_client.records.tally import TallyBlock
from tests.support.fake_broker import TOPIC_ID, FakeBroker
from tests.support.locations import ManualClock
from tests.support.scripted_peer import ScriptedPeer
from tests.support.tier import batch

PARTITION = TopicPartition("t", 1)
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class Leaders:
    """The leader of all partitions. It answers Fetch by a script: data, an error to raise, or an error code."""

    def __init__(self, *script: Any, versions: int | None = 12) -> None:
        self.script = list(script)
        self.leader = PartitionLeader(TOPIC_ID, 4, ("b", 1))
        self.asked: list[tuple[int, fetch.FetchRequest]] = []
        self.closed = False
        self._version = versions

    def ask(self, topic: str, partition: int, deadline: Deadline, question: Callable[..., Any]) -> Any:
        assert (topic, partition) == PARTITION
        return question(self.leader, self)

    def best_version(self, *_: Any) -> int | None:
        return self._version

    def call(self, _api: Any, version: int, body: bytes, _deadline: Deadline) -> bytes:
        request = fetch.decode_request(body, version)
        self.asked.append((request.topics[0].partitions[0].fetch_offset, request))
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, fetch.FetchResponse):
            return fetch.encode_response(answer, version)
        data = answer if isinstance(answer, PartitionData) else PartitionData(1, answer)
        topic = fetch.FetchTopicResponse((data,), topic="t", topic_id=TOPIC_ID)
        return fetch.encode_response(fetch.FetchResponse((topic,)), version)

    def close(self) -> None:
        self.closed = True


def data(*batches: bytes, **more: Any) -> PartitionData:
    return PartitionData(1, 0, 100, 100, 0, records=b"".join(batches), **more)


def log(leaders: Leaders, patience: float = 60.0) -> BrokerLog:
    return BrokerLog(cast("PartitionLeaders", leaders), ManualClock(), patience=patience)


def offsets(
    leaders: Leaders, start: int, end: int, level: IsolationLevel = UNCOMMITTED, topic_id: UUID = TOPIC_ID, **more: Any
) -> list[int]:
    blocks = log(leaders).blocks(PARTITION, topic_id, start, end, level, **more)
    return [row[0] for block in blocks for row in block.rows()]


def test_records_are_those_between_the_bounds() -> None:
    leaders = Leaders(data(batch(0, 5), batch(5, 5)), data(batch(10, 5), batch(15, 5)))
    assert offsets(leaders, 3, 12, size_in_bytes=1) == list(range(3, 12))
    assert [at for at, _ in leaders.asked] == [3, 10]
    request = leaders.asked[0][1]
    assert (request.max_bytes, request.max_wait_ms, request.min_bytes, request.isolation_level) == (64 << 10, 500, 1, 0)
    assert request.topics[0].partitions[0].current_leader_epoch == 4
    assert offsets(Leaders(), 5, 5) == []


def test_a_batch_cut_off_at_the_end_of_an_answer_is_requested_again() -> None:
    second = batch(5, 5)
    leaders = Leaders(data(batch(0, 5), second[:-7]), data(second))
    assert offsets(leaders, 0, 10) == list(range(10))
    assert leaders.asked[0][1].max_bytes == 8 << 20


def test_aborted_records_and_markers_are_left_out_under_read_committed() -> None:
    batches = (batch(0, 3, producer_id=7), batch(3, 3, producer_id=8), batch(6, producer_id=7, marker="abort"))
    aborted = (AbortedTransaction(7, 0),)
    assert offsets(Leaders(data(*batches, aborted_transactions=aborted)), 0, 7, COMMITTED) == [3, 4, 5]
    assert offsets(Leaders(data(*batches)), 0, 7) == list(range(6))
    assert offsets(Leaders(data(batch(0, 3, producer_id=7))), 0, 3, COMMITTED) == [0, 1, 2]


def test_offsets_removed_by_compaction_are_passed() -> None:
    assert offsets(Leaders(data(batch(4, 2), batch(20, 2))), 0, 10) == [4, 5]
    assert offsets(Leaders(data(batch(20, 2))), 0, 10) == []


def test_tallies_count_without_records() -> None:
    blocks = list(log(Leaders(data(batch(0, 5), batch(5, 5)))).blocks(PARTITION, TOPIC_ID, 2, 10, UNCOMMITTED, tally=False))
    assert all(isinstance(block, TallyBlock) for block in blocks)
    assert sum(cast("TallyBlock", block).tally.records for block in blocks) == 8


def test_transient_errors_are_retried() -> None:
    passing = [
        LocationError("cut"),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        fetch.FetchResponse((), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        data(),
    ]
    assert offsets(Leaders(*passing, data(batch(0, 5))), 0, 5) == list(range(5))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, r"Fetch of t-1 at offset 5: .*OFFSET_OUT_OF_RANGE"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, r"TOPIC_AUTHORIZATION_FAILED"),
        (ProtocolError("odd"), r"cannot read t-1 at offset 5 from the brokers: odd"),
        (SaslAuthenticationError("refused"), r"refused"),
        (PeerCertificateError("b:1 refuses this client's certificate"), r"refuses"),
        (SecurityProtocolError("b:1 expects TLS"), r"expects TLS"),
        (fetch.FetchResponse(()), r"the answer is about other partitions"),
        (data(batch(0, 2)), r"t-1: the broker sends no batch from offset 5 on"),
        (data(batch(5, 3)[:-1] + b"x"), r"the broker's records of t-1 at offset 5 are damaged: .*checksum"),
        (data(batch(5, 3)[:-1]), r"sends no batch from offset 5 on"),
    ],
)
def test_a_permanent_error_names_its_partition_and_offset(answer: Any, told: str) -> None:
    with pytest.raises(BrokerReadError, match=told) as raised:
        offsets(Leaders(answer), 5, 9)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 1, 5)


def test_good_batches_before_damage_are_delivered() -> None:
    found: list[int] = []
    blocks = log(Leaders(data(batch(0, 5), batch(5, 5)[:-1] + b"x"))).blocks(PARTITION, TOPIC_ID, 0, 10, UNCOMMITTED)
    with pytest.raises(BrokerReadError, match=r"t-1 at offset 5 are damaged"):
        found.extend(row[0] for block in blocks for row in block.rows())
    assert found == list(range(5))


def test_retries_end_when_the_patience_is_used_up() -> None:
    with pytest.raises(BrokerReadError, match=r"from the brokers: down"):
        offsets(Leaders(*[LocationError("down")] * 1000), 0, 5)
    leaders = Leaders(data())
    with pytest.raises(BrokerReadError, match=r"sends no batch from offset 0 on"):
        list(log(leaders, patience=0.0).blocks(PARTITION, TOPIC_ID, 0, 5, UNCOMMITTED))


def test_closing_the_log_ends_the_wait_at_once() -> None:
    leaders = Leaders(LocationError("closed"))
    closed = log(leaders)
    closed.close()
    with pytest.raises(BrokerReadError, match=r"closed"):
        list(closed.blocks(PARTITION, TOPIC_ID, 0, 5, UNCOMMITTED))
    assert leaders.closed


def test_a_topic_with_another_id_is_refused() -> None:
    with pytest.raises(BrokerReadError, match=r"topic t was created again; its id: .*INCONSISTENT_TOPIC_ID"):
        offsets(Leaders(), 0, 5, topic_id=UUID(int=8))
    assert offsets(Leaders(data(batch(0, 5))), 0, 5, topic_id=UUID(int=0)) == list(range(5))
    nameless = Leaders(data(batch(0, 5)))
    nameless.leader = attrs.evolve(nameless.leader, topic_id=UUID(int=0))
    assert offsets(nameless, 0, 5) == list(range(5))


def test_a_broker_that_is_too_old_is_refused() -> None:
    with pytest.raises(BrokerReadError, match=r"UNSUPPORTED_VERSION"):
        offsets(Leaders(versions=None), 0, 5)


def test_a_lineage_that_differs_from_the_leaders_is_reported() -> None:
    leaders = Leaders(data(), data(tags={DIVERGING_EPOCH_TAG: b""}), ErrorCode.OFFSET_OUT_OF_RANGE)
    found = [log(leaders).diverges(PARTITION, TOPIC_ID, 80, 3) for _ in range(3)]
    assert found == [False, True, True]
    with pytest.raises(BrokerReadError, match=r"the lineage of t-1 from the brokers: .*TOPIC_AUTHORIZATION_FAILED"):
        log(Leaders(ErrorCode.TOPIC_AUTHORIZATION_FAILED)).diverges(PARTITION, TOPIC_ID, 80, 3)
    request = leaders.asked[0][1]
    assert (request.topics[0].partitions[0].last_fetched_epoch, request.max_bytes, request.max_wait_ms) == (3, 0, 0)


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def opened(broker: FakeBroker) -> Iterator[BrokerLog]:
    with ScriptedPeer(broker.script()) as peer:
        broker.leader = (peer.host, peer.port)
        config = RemoteFetchConfig(enabled=True, connect_timeout_ms=30_000)
        found = open_broker_log({"bootstrap.servers": peer.address}, config)
        yield found
        found.close()


def test_bounds_and_topics_come_from_the_cluster(broker: FakeBroker, opened: BrokerLog) -> None:
    broker.errors = [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, ErrorCode.LEADER_NOT_AVAILABLE]
    assert opened.bounds([PARTITION], COMMITTED) == {PARTITION: (10, 90)}
    assert opened.topics(["t"])["t"].topic_id == TOPIC_ID
    assert list(opened.topics(None)) == ["t"]
    assert broker.metadata_requests[-1].topics is None


def test_an_unknown_topic_is_an_error_at_once(opened: BrokerLog) -> None:
    with pytest.raises(BrokerReadError, match=r"cannot read the metadata of topics from the brokers: .*UNKNOWN_TOPIC"):
        opened.topics(["u"])


def test_refused_bounds_are_an_error(broker: FakeBroker, opened: BrokerLog) -> None:
    broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    with pytest.raises(BrokerReadError, match=r"the bounds of logs from the brokers: .*TOPIC_AUTHORIZATION_FAILED"):
        opened.bounds([PARTITION], COMMITTED)


def test_settings_are_checked_before_connecting() -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is not set"):
        open_broker_log({}, RemoteFetchConfig(enabled=True), SystemClock())
    tls = {"metadata.broker.list": "localhost:1", "security.protocol": "ssl", "ssl.ca.location": "/none/such"}
    with pytest.raises(ConfigurationError, match=r"none/such"):
        open_broker_log(tls, RemoteFetchConfig(enabled=True))
