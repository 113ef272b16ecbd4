from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import BrokerResponseError, LocationError
from kafka_remote_client.location.cluster_metadata import Address, ClusterMetadata, Key, PartitionLeader
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.metadata import (
    NO_LEADER,
    MetadataBroker,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)
from tests.support.locations import ManualClock

ONE: Address = ("one", 9092)
TWO: Address = ("two", 9092)
BOOTSTRAP: Address = ("bootstrap", 9092)
TOPIC_ID = UUID(int=7)


def response(*leaders: int, epoch: int = 0, **changes: object) -> MetadataResponse:
    partitions = tuple(MetadataPartition(index, leader, leader_epoch=epoch) for index, leader in enumerate(leaders))
    topic = MetadataTopic("t", partitions, topic_id=TOPIC_ID)
    values: dict[str, object] = {"brokers": (MetadataBroker(1, *ONE), MetadataBroker(2, *TWO)), "topics": (topic,)}
    return MetadataResponse(**(values | changes))


class Brokers:
    """Answers by a function of the address and records the addresses."""

    def __init__(self, answer: Callable[[Address], MetadataResponse]) -> None:
        self.answer = answer
        self.asked: list[Address] = []
        self.topics: list[tuple[str, ...]] = []

    def __call__(self, address: Address, topics: Sequence[str], deadline: Deadline) -> MetadataResponse:
        assert set(topics) <= {"t", "u", "v"}
        self.asked.append(address)
        self.topics.append(tuple(topics))
        return self.answer(address)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def cluster(brokers: Brokers, clock: ManualClock, *bootstrap: Address) -> ClusterMetadata:
    return ClusterMetadata(bootstrap or (BOOTSTRAP,), brokers, clock)


def test_a_leader_is_requested_once(clock: ManualClock) -> None:
    brokers = Brokers(lambda _: response(1, 2, epoch=5))
    metadata = cluster(brokers, clock)
    leader = metadata.leader("t", 1, Deadline(clock, 1))
    assert (leader.topic_id, leader.leader_epoch, leader.address) == (TOPIC_ID, 5, TWO)
    assert metadata.leader("t", 0, Deadline(clock, 1)).address == ONE
    assert metadata.leader("t", 1, Deadline(clock, 1)) is leader
    assert brokers.asked == [BOOTSTRAP]


def test_expired_metadata_is_requested_from_the_brokers_it_named(clock: ManualClock) -> None:
    brokers = Brokers(lambda _: response(1))
    metadata = cluster(brokers, clock)
    metadata.leader("t", 0, Deadline(clock, 1))
    clock.now += 301
    metadata.leader("t", 0, Deadline(clock, 1))
    assert brokers.asked == [BOOTSTRAP, ONE]


def test_a_leader_that_lost_its_role_is_requested_again(clock: ManualClock) -> None:
    answers = [response(1), response(2, epoch=1)]
    brokers = Brokers(lambda _: answers.pop(0))
    metadata = cluster(brokers, clock)
    old = metadata.leader("t", 0, Deadline(clock, 1))
    new = metadata.leader("t", 0, Deadline(clock, 1), stale=old)
    assert (new.address, new.leader_epoch) == (TWO, 1)
    # A second thread that the old leader refused finds the leader that the first thread learned.
    assert metadata.leader("t", 0, Deadline(clock, 1), stale=old) is new
    assert len(brokers.asked) == 2


def test_brokers_are_tried_until_one_answers(clock: ManualClock) -> None:
    def answer(address: Address) -> MetadataResponse:
        if address != TWO:
            raise LocationError(f"{address[0]} is down")
        return response(1)

    brokers = Brokers(answer)
    assert cluster(brokers, clock, BOOTSTRAP, ONE, TWO).leader("t", 0, Deadline(clock, 1)).address == ONE
    assert brokers.asked == [BOOTSTRAP, ONE, TWO]


def test_a_broker_that_hangs_is_asked_after_all_others(clock: ManualClock) -> None:
    def answer(address: Address) -> MetadataResponse:
        if address == ONE:
            clock.now += 1  # all of the deadline
            raise LocationError("timed out")
        return response(2)

    brokers = Brokers(answer)
    metadata = cluster(brokers, clock, ONE, TWO)
    with pytest.raises(LocationError, match="timed out"):
        metadata.leader("t", 0, Deadline(clock, 1))
    leader = metadata.leader("t", 0, Deadline(clock, 1))
    for _ in range(2):  # also if a leader contradicts the broker that answers
        assert leader.address == TWO
        leader = metadata.leader("t", 0, Deadline(clock, 1), stale=leader)
    assert brokers.asked == [ONE, TWO, TWO, TWO]


def test_a_broker_that_a_leader_contradicts_is_not_asked_again(clock: ManualClock) -> None:
    brokers = Brokers(lambda address: response(2, epoch=1) if address == TWO else response(1))
    metadata = cluster(brokers, clock, ONE)
    old = metadata.leader("t", 0, Deadline(clock, 1))
    assert metadata.leader("t", 0, Deadline(clock, 1), stale=old).address == TWO
    assert brokers.asked == [ONE, TWO]


def test_if_all_brokers_fail_the_last_error_is_raised(clock: ManualClock) -> None:
    def answer(address: Address) -> MetadataResponse:
        raise LocationError(f"{address[0]} is down")

    with pytest.raises(LocationError, match="two is down"):
        cluster(Brokers(answer), clock, ONE, TWO).leader("t", 0, Deadline(clock, 1))


def test_no_broker_gets_a_request_after_the_deadline(clock: ManualClock) -> None:
    brokers = Brokers(lambda _: response(1))
    with pytest.raises(LocationError, match="no broker"):
        cluster(brokers, clock).leader("t", 0, Deadline(clock, 0))
    assert brokers.asked == []


def test_expired_metadata_is_used_while_no_broker_answers(clock: ManualClock) -> None:
    def down(_: Address) -> MetadataResponse:
        raise LocationError("down")

    brokers = Brokers(lambda _: response(1))
    metadata = cluster(brokers, clock)
    leader = metadata.leader("t", 0, Deadline(clock, 1))
    brokers.answer = down
    clock.now += 301
    assert metadata.leader("t", 0, Deadline(clock, 1)) is leader
    with pytest.raises(LocationError, match="down"):
        metadata.leader("t", 0, Deadline(clock, 1), stale=leader)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (response(topics=()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (response(topics=(MetadataTopic("other"),)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (response(topics=(MetadataTopic("t", error_code=29),)), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (response(topics=(MetadataTopic("t", error_code=3),)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (response(1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (response(1, NO_LEADER), ErrorCode.LEADER_NOT_AVAILABLE),
        (response(1, 99), ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_a_partition_without_leader_is_a_broker_error(answer: MetadataResponse, code: int, clock: ManualClock) -> None:
    brokers = Brokers(lambda _: answer)
    metadata = cluster(brokers, clock)
    for times in (1, 2):
        with pytest.raises(BrokerResponseError) as failure:
            metadata.leader("t", 1, Deadline(clock, 1))
        assert failure.value.code == code
        assert len(brokers.asked) == times


def test_threads_that_miss_the_same_topic_share_one_request() -> None:
    clock = SystemClock()
    asked, release = threading.Event(), threading.Event()

    def answer(_: Address) -> MetadataResponse:
        asked.set()
        assert release.wait(30)
        return response(1)

    brokers = Brokers(answer)
    metadata = ClusterMetadata((BOOTSTRAP,), brokers, clock)
    found: list[Address] = []
    threads = [
        threading.Thread(target=lambda: found.append(metadata.leader("t", 0, Deadline(clock, 60)).address)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert asked.wait(30)
    with pytest.raises(LocationError, match="timed out getting the metadata of 1 topics"):
        metadata.leader("t", 0, Deadline(clock, 0.01))
    release.set()
    for thread in threads:
        thread.join(30)
    assert found == [ONE] * 4
    assert brokers.asked == [BOOTSTRAP]


def topics(*names: str, **errors: int) -> MetadataResponse:
    """Each topic with one partition led by broker 1, or with an error."""
    known = [MetadataTopic(name, (MetadataPartition(0, 1),), topic_id=TOPIC_ID) for name in names]
    return response(topics=(*known, *(MetadataTopic(name, error_code=code) for name, code in errors.items())))


def codes(found: Mapping[Key, PartitionLeader | LocationError]) -> dict[str, object]:
    """Returns the leader's address or the error's code by topic."""
    return {
        topic: leader.address if isinstance(leader, PartitionLeader) else getattr(leader, "code", str(leader))
        for (topic, _), leader in found.items()
    }


def test_all_missing_topics_are_one_request(clock: ManualClock) -> None:
    brokers = Brokers(lambda _: topics("t", "u", "v"))
    metadata = cluster(brokers, clock)
    metadata.leader("u", 0, Deadline(clock, 1))
    found = metadata.leaders([("t", 0), ("u", 0), ("v", 0), ("v", 1)], Deadline(clock, 1))
    assert brokers.topics == [("u",), ("t", "v")]
    assert codes(found) == {"t": ONE, "u": ONE, "v": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_error_of_one_topic_affects_that_topic_only(clock: ManualClock) -> None:
    brokers = Brokers(lambda _: topics("t", u=29))
    found = cluster(brokers, clock).leaders([("t", 0), ("u", 0), ("v", 0)], Deadline(clock, 1))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(found) == {"t": ONE, "u": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "v": unknown}
    assert len(brokers.asked) == 1


def test_known_topics_are_answered_while_brokers_are_down(clock: ManualClock) -> None:
    def down(_: Address) -> MetadataResponse:
        raise LocationError("down")

    brokers = Brokers(lambda _: topics("t", "u"))
    metadata = cluster(brokers, clock)
    old = metadata.leaders([("t", 0), ("u", 0)], Deadline(clock, 1))
    brokers.answer = down
    contradicted = {key: leader for key, leader in old.items() if key[0] == "u" and isinstance(leader, PartitionLeader)}
    found = metadata.leaders([("t", 0), ("u", 0), ("v", 0)], Deadline(clock, 1), contradicted)
    assert codes(found) == {"t": ONE, "u": "down", "v": "down"}
    clock.now += 301
    assert codes(metadata.leaders([("t", 0), ("u", 0)], Deadline(clock, 1))) == {"t": ONE, "u": ONE}


def test_topics_returns_current_metadata(clock: ManualClock) -> None:
    brokers = Brokers(lambda _: response(1, 2))
    found = cluster(brokers, clock)
    for _ in range(2):
        assert [one.partition_index for one in found.topics(["t"], Deadline(clock, 1))["t"].partitions] == [0, 1]
    assert brokers.topics == [("t",), ("t",)]


def test_all_topics_are_those_that_the_broker_lists(clock: ManualClock) -> None:
    topics = (MetadataTopic("t"), MetadataTopic("u", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), MetadataTopic(None))
    asked: list[object] = []

    def ask(_: Address, names: Sequence[str] | None, __: Deadline) -> MetadataResponse:
        asked.append(names)
        return response(topics=topics)

    found = ClusterMetadata((BOOTSTRAP,), ask, clock)
    assert list(found.topics(None, Deadline(clock, 1))) == ["t"]
    assert asked == [None]
    for name, code in (("u", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("v", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        with pytest.raises(BrokerResponseError) as raised:
            found.topics(["t", name], Deadline(clock, 1))
        assert raised.value.code == code


def test_topics_raises_if_the_broker_fails(clock: ManualClock) -> None:
    with pytest.raises(BrokerResponseError, match="CLUSTER_AUTHORIZATION_FAILED"):
        cluster(Brokers(lambda _: response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), clock).topics(
            ["t"], Deadline(clock, 1)
        )

    def unreachable(_: Address) -> MetadataResponse:
        raise LocationError("unreachable")

    with pytest.raises(LocationError, match="unreachable"):
        cluster(Brokers(unreachable), clock).topics(["t"], Deadline(clock, 1))
