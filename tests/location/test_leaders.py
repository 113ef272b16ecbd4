"""The leaders' part that all broker-based sources share: find the leader, ask it, and retry after new metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import BrokerResponseError, LocationError
from kafka_remote_client.location import leaders as leaders_module
from kafka_remote_client.location.cluster_metadata import PartitionLeader
from kafka_remote_client.location.leaders import PartitionLeaders, fetch_version
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.protocol import metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.peer import PeerSession
from tests.support.fake_broker import TOPIC_ID, FakeBroker
from tests.support.locations import ManualClock
from tests.support.scripted_peer import ScriptedPeer


def deadline() -> Deadline:
    return Deadline(SystemClock(), 60)


@pytest.fixture
def broker() -> FakeBroker:
    """A broker that does not support the dialect."""
    broker = FakeBroker()
    broker.versions = ApiVersionsResponse(
        api_keys=tuple(key for key in broker.versions.api_keys if key.api_key != ApiKey.DIRECT_REMOTE_FETCH)
    )
    return broker


@pytest.fixture
def leaders(broker: FakeBroker) -> Iterator[PartitionLeaders]:
    with ScriptedPeer(broker.script()) as peer:
        broker.leader = (peer.host, peer.port)
        leaders = PartitionLeaders(peer.address, client_id="me", clock=SystemClock(), connect_timeout=30)
        yield leaders
        leaders.close()


def test_a_request_gets_the_leader_and_a_session_with_it(broker: FakeBroker, leaders: PartitionLeaders) -> None:
    def question(leader: PartitionLeader, session: PeerSession) -> tuple[PartitionLeader, int | None]:
        return leader, fetch_version(leader, session)

    assert leaders.ask("t", 1, deadline(), question) == (PartitionLeader(TOPIC_ID, 4, broker.leader), 18)


@pytest.mark.parametrize(("newest", "topic_id", "version"), [(18, TOPIC_ID, 18), (18, UUID(int=0), 12), (11, TOPIC_ID, None)])
def test_fetch_names_topics_by_id_if_both_sides_can(
    broker: FakeBroker, leaders: PartitionLeaders, newest: int, topic_id: UUID, version: int | None
) -> None:
    broker.versions = attrs.evolve(
        broker.versions, api_keys=(ApiVersion(ApiKey.FETCH, 4, newest), *broker.versions.api_keys[1:])
    )
    broker.topic_id = topic_id
    assert leaders.ask("t", 0, deadline(), fetch_version) == version


def test_a_broker_that_is_no_longer_leader_is_replaced(broker: FakeBroker, leaders: PartitionLeaders) -> None:
    asked: list[PartitionLeader] = []

    def question(leader: PartitionLeader, _session: PeerSession) -> str:
        asked.append(leader)
        if len(asked) == 1:
            broker.leader_epoch = 5
            raise broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Fetch")
        return "asked"

    assert leaders.ask("t", 0, deadline(), question) == "asked"
    assert [leader.leader_epoch for leader in asked] == [4, 5]


def test_an_error_that_metadata_cannot_fix_is_raised_at_once(broker: FakeBroker, leaders: PartitionLeaders) -> None:
    def question(_leader: PartitionLeader, _session: PeerSession) -> None:
        raise broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Fetch")

    with pytest.raises(BrokerResponseError):
        leaders.ask("t", 0, deadline(), question)
    assert len(broker.metadata_requests) == 1


def test_offsets_are_requested_from_a_plain_broker(leaders: PartitionLeaders) -> None:
    assert leaders.offsets("t", 2, deadline()) == PartitionOffsets(10, 60, 80, 90)
    assert leaders.offsets_of([("t", 0)], deadline()) == {("t", 0): PartitionOffsets(10, 60, 80, 90)}


def test_no_request_is_sent_after_close(leaders: PartitionLeaders) -> None:
    leaders.close()
    leaders.close()
    with pytest.raises(LocationError):
        leaders.offsets("t", 0, deadline())


def test_a_new_connection_that_is_cut_is_not_retried_as_idle(broker: FakeBroker) -> None:
    metadata_asked: list[int] = []

    def question(_leader: PartitionLeader, session: PeerSession) -> None:
        metadata_asked.append(len(broker.metadata_requests))
        session.connection.close()
        raise LocationError("cut")

    with ScriptedPeer(broker.script()) as bootstrap, ScriptedPeer(broker.script()) as peer:
        broker.leader = (peer.host, peer.port)
        leaders = PartitionLeaders(bootstrap.address, client_id="me", clock=SystemClock(), connect_timeout=30)
        with pytest.raises(LocationError, match="cut"):
            leaders.ask("t", 0, deadline(), question)
        leaders.close()
    assert metadata_asked.count(1) == 1, "then fresh metadata come first"


ONE, TWO = ("one", 9092), ("two", 9092)
KNOWN = PartitionOffsets(10, 60, 80, 90)


class SlowBrokers:
    """Replaces :class:`PartitionLeaders`' peers: answers after 0.9 s of the clock, except the brokers that never answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.silent: set[tuple[str, int]] = set()
        self.left: list[float] = []
        self.metadata_requests = 0
        self.asked: list[frozenset[tuple[str, int]]] = []
        monkeypatch.setattr(PartitionLeaders, "_ask_peer", self._ask_peer)
        monkeypatch.setattr(leaders_module, "partition_offsets", self._partition_offsets)
        self.leaders = PartitionLeaders("one:9092", client_id="me", clock=self.clock)

    def _ask_peer(self, address: tuple[str, int], deadline: Deadline, ask: Callable[[Any], Any], _connection: str = "") -> Any:
        self.left.append(round(deadline.remaining(), 3))
        if address in self.silent:
            self.clock.now += 1.0
            raise LocationError(f"{address[0]} gave no answer")
        return ask(self)

    # -- as a session ------------------------------------------------------------------------------------------------------

    def best_version(self, *_: object) -> int:
        return 12

    def call(self, _: object, version: int, body: bytes, deadline: Deadline) -> bytes:
        self.metadata_requests += 1
        request = metadata.decode_request(body, version)
        partitions = (metadata.MetadataPartition(0, 1), metadata.MetadataPartition(1, 2))
        topics = tuple(
            metadata.MetadataTopic(asked.name, partitions, topic_id=TOPIC_ID) for asked in request.topics or () if asked.name
        )
        self.clock.now += 0.9
        assert not deadline.expired()
        brokers = (metadata.MetadataBroker(1, *ONE), metadata.MetadataBroker(2, *TWO))
        return metadata.encode_response(metadata.MetadataResponse(brokers, topics), version)

    def _partition_offsets(self, _: object, led: Mapping[tuple[str, int], object], deadline: Deadline) -> dict[Any, Any]:
        self.asked.append(frozenset(led))
        return dict.fromkeys(led, KNOWN)


TOPICS = [f"topic-{number}" for number in range(600)]


def test_metadata_of_many_topics_is_one_request_with_its_own_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = SlowBrokers(monkeypatch)
    answers = brokers.leaders.offsets_of([(topic, 0) for topic in TOPICS], Deadline(brokers.clock, 1.0))
    assert answers == {(topic, 0): KNOWN for topic in TOPICS}
    assert brokers.metadata_requests == 1
    assert brokers.left == [1.0, 1.0]  # although the first step took 0.9 s


def test_a_leader_that_never_answers_affects_its_partitions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = SlowBrokers(monkeypatch)
    brokers.silent = {TWO}
    wanted = [(topic, number) for topic in TOPICS[:3] for number in (0, 1)]
    answers = brokers.leaders.offsets_of(wanted, Deadline(brokers.clock, 1.0))
    assert {key for key, answer in answers.items() if answer == KNOWN} == {key for key in wanted if key[1] == 0}
    assert all(isinstance(answers[key], LocationError) for key in wanted if key[1] == 1)
    assert brokers.asked == [frozenset(key for key in wanted if key[1] == 0)]
