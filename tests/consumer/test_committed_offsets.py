"""Which offsets may be committed: the offsets that the inner consumer gets to store and to commit."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.consumer.call_arguments import is_stored
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from tests.support.locations import ManualClock

KEY = ("t", 0)
NOTHING = OFFSET_INVALID


def at(offset: int, epoch: int = -1, partition: int = 0) -> TopicPartition:
    return TopicPartition("t", partition, offset, leader_epoch=epoch)


def places(partitions: list[TopicPartition]) -> list[tuple[int, int]]:
    return [(tp.partition, tp.offset) for tp in partitions]


def unexpected(*_: object) -> None:
    raise AssertionError("no call of these offsets")


class Inner:
    """An inner consumer with one committed offset; it records the offsets that it gets."""

    def __init__(self, committed: TopicPartition) -> None:
        self.is_committed = committed
        self.calls: list[tuple[str, list[tuple[int, int]]]] = []
        self.refuses: int | None = None
        self.patience: list[float] = []
        self.answer: Callable[[list[TopicPartition]], list[Any]] | None = None
        """What a synchronous commit returns; by default the given offsets."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.patience.append(timeout)
        self._heed()
        return [self.is_committed for _ in partitions]

    def commit(self, *args: Any, **kwargs: Any) -> list[TopicPartition] | None:
        self._heed()
        given = kwargs.get("offsets") or []
        self.calls.append(("commit", places(given)))
        if kwargs.get("asynchronous", True):
            return None
        return given if self.answer is None else self.answer(given)

    def takes(self, given: list[TopicPartition]) -> list[TopicPartition]:
        """A commit of which the coordinator has heard when it returns."""
        (self.is_committed,) = given
        return given

    def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        self._heed()
        self.calls.append(("store", places(kwargs.get("offsets") or [])))

    def _heed(self) -> None:
        if self.refuses is not None:
            raise KafkaException(KafkaError(self.refuses))


class Rig:
    def __init__(self, *, committed: TopicPartition | None = None, stores: bool = True, commits: bool = True) -> None:
        self.inner = Inner(at(50) if committed is None else committed)
        self.flows = SubscriptionState()
        self.clock = ManualClock()
        self.offsets = CommittedOffsets(
            InnerConsumer.of(lambda name: getattr(self.inner, name, unexpected)),
            self.flows,
            self.clock,
            stores=stores,
            commits=commits,
        )

    def begin(self, offset: int = OFFSET_STORED) -> PartitionFlow:
        """Assigns the partition and clears the recorded calls."""
        self.offsets.begin_again([at(offset)])
        if is_stored(at(offset)):
            self.offsets.starts([at(offset)], 1.0)
        flow = PartitionFlow(*KEY, offset)
        self.flows.add(flow)
        self.offsets.adopt(flow)
        return flow

    def hand_out(self, *offsets: int) -> list[tuple[str, list[tuple[int, int]]]]:
        for offset in offsets:
            self.offsets.store_last(Message("t", 0, offset, leader_epoch=0))
        return self.calls()

    def calls(self) -> list[tuple[str, list[tuple[int, int]]]]:
        calls, self.inner.calls = self.inner.calls, []
        return calls

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return self.offsets.commit(args, kwargs)


def stored(offset: int, partition: int = 0) -> tuple[str, list[tuple[int, int]]]:
    return "store", [(partition, offset)]


def test_a_silent_coordinator_is_asked_again_after_a_pause() -> None:
    rig = Rig()
    rig.offsets.begin_again([at(OFFSET_STORED)])
    rig.inner.refuses = KafkaError._TIMED_OUT
    for _ in range(9):
        assert rig.offsets.starts([at(OFFSET_STORED)], 0.0) == {}
        assert rig.offsets.starts([at(OFFSET_STORED)], 0.0) == {}, "during the pause nobody is asked"
        rig.clock.now += 1.0
    assert rig.inner.patience == [0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25, 0.25, 0.25]
    rig.inner.refuses = None
    start = rig.offsets.starts([at(OFFSET_STORED)], 10.0)[KEY]
    assert start is not None
    assert start.offset == 50
    assert rig.inner.patience[-1] == 1.0


@pytest.mark.parametrize(("seconds", "patience"), [(0.25, 0.25), (60.0, 1.0)])
def test_a_silent_coordinator_is_asked_at_once_before_a_commit(seconds: float, patience: float) -> None:
    rig = Rig()
    rig.offsets.begin_again([at(OFFSET_STORED)])
    rig.inner.refuses = KafkaError._TIMED_OUT
    assert rig.offsets.starts([at(OFFSET_STORED)], 0.0) == {}
    rig.offsets.ask_at_once(seconds)
    assert rig.offsets.starts([at(OFFSET_STORED)], seconds) == {}
    assert rig.inner.patience == [0.02, patience]


def test_a_coordinator_that_refuses_to_tell_is_no_start() -> None:
    rig = Rig()
    rig.offsets.begin_again([at(OFFSET_STORED)])
    rig.inner.refuses = KafkaError.GROUP_AUTHORIZATION_FAILED
    assert rig.offsets.starts([at(OFFSET_STORED)], 1.0) == {KEY: None}


def test_what_is_not_past_the_start_is_withheld() -> None:
    rig = Rig()
    rig.begin()
    assert rig.hand_out(49, 50, 51, 10) == [stored(NOTHING), stored(51), stored(52), stored(NOTHING)]


def test_nothing_is_withheld_where_nothing_was_committed() -> None:
    rig = Rig(committed=at(OFFSET_INVALID))
    rig.begin()
    assert rig.hand_out(3) == [stored(4)]


def test_nothing_is_withheld_of_a_partition_that_begins_at_a_number() -> None:
    rig = Rig()
    rig.begin(20)
    assert rig.hand_out(3) == [stored(4)]


def test_start_is_remembered_when_a_partition_is_assigned_by_number() -> None:
    rig = Rig(commits=False)
    rig.begin()
    rig.begin(20)
    assert rig.hand_out(30) == [stored(NOTHING)]


@pytest.mark.parametrize(
    ("floor", "place", "withheld"),
    [
        (at(50, 3), at(40, 4), False),
        (at(50, 3), at(40, 3), True),
        (at(50, 3), at(40, 2), True),
        (at(50, 3), at(40), True),
        (at(50), at(40, 4), True),
        (at(50, 3), at(50, 3), True),
        (at(50, 3), at(51, 3), False),
    ],
)
def test_leader_epochs_go_first_where_both_places_have_one(
    floor: TopicPartition, place: TopicPartition, withheld: bool
) -> None:
    rig = Rig(committed=floor, stores=False)
    rig.begin()
    rig.offsets.store_offsets((), {"offsets": [place]})
    assert rig.calls() == [stored(NOTHING if withheld else place.offset)]


@pytest.mark.parametrize("waits", [True, False])
def test_after_a_commit_by_name_what_was_withheld_is_stored(waits: bool) -> None:
    rig = Rig()
    rig.begin()
    rig.hand_out(10)
    rig.commit(offsets=[at(12)], asynchronous=not waits)
    assert rig.calls() == [("commit", [(0, 12)]), stored(11)]
    assert rig.hand_out(11) == [stored(12)]


def test_commit_of_a_message_counts_as_a_commit_by_name() -> None:
    rig = Rig()
    rig.begin()
    rig.hand_out(10)
    rig.commit(message=Message("t", 1, 12))
    assert rig.calls() == [("commit", [])]
    rig.commit(Message("t", 0, 12))
    assert rig.calls() == [("commit", []), stored(11)]


def test_an_asynchronous_commit_of_stored_offsets_lifts_nothing() -> None:
    rig = Rig()
    rig.begin()
    rig.hand_out(10)
    rig.commit()
    rig.calls()
    assert rig.hand_out(11) == [stored(NOTHING)]


def test_commit_by_name_after_unassign_clears_what_is_remembered() -> None:
    rig = Rig()
    flow = rig.begin()
    rig.flows.remove([KEY])
    rig.offsets.forget(flow)
    rig.commit(offsets=[at(12)])
    rig.begin(5)
    rig.calls()
    assert rig.hand_out(5) == [stored(6)]


@pytest.mark.parametrize("commits", [True, False])
def test_what_was_withheld_comes_back_where_giving_up_commits(commits: bool) -> None:
    rig = Rig(commits=commits)
    flow = rig.begin()
    rig.hand_out(10)
    rig.offsets.give_up([flow])
    assert rig.calls() == ([stored(11)] if commits else [])
    rig.begin(20)
    assert rig.hand_out(20) == [stored(21 if commits else NOTHING)]


def test_nothing_comes_back_of_a_partition_that_was_lost_meanwhile() -> None:
    rig = Rig()
    flow = rig.begin()
    rig.hand_out(10)
    rig.inner.refuses = KafkaError._STATE
    rig.offsets.give_up([flow])
    assert rig.calls() == []


@pytest.mark.parametrize("commits", [True, False])
def test_start_below_what_the_inner_consumer_knows_is_committed_again(commits: bool) -> None:
    rig = Rig(commits=commits)
    flow = rig.begin()
    rig.hand_out(70)
    rig.offsets.forget(flow)
    rig.flows.remove([KEY])
    rig.begin()
    assert rig.calls() == ([("commit", [(0, 50)])] if commits else [])
    rig.begin()
    assert rig.calls() == [], "it knows now"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_what_the_application_committed_the_inner_consumer_knows(waits: bool, named: bool) -> None:
    rig = Rig(commits=False)
    flow = rig.begin()
    rig.hand_out(70)
    rig.commit(**({"offsets": [at(71)]} if named else {}), asynchronous=not waits)
    rig.offsets.forget(flow)
    rig.calls()
    rig.begin()
    assert rig.calls() == ([("commit", [(0, 50)])] if named or not waits else [])


def test_start_counts_even_when_it_cannot_be_committed_again() -> None:
    rig = Rig()
    flow = rig.begin()
    rig.hand_out(70)
    rig.offsets.forget(flow)
    rig.inner.answer = _refused
    start = rig.offsets.starts([at(OFFSET_STORED)], 1.0)[KEY]
    assert start is not None
    assert start.offset == 50


def _refused(_: list[TopicPartition]) -> list[TopicPartition]:
    raise KafkaException(KafkaError(KafkaError._STATE))


def test_the_application_stores_what_it_likes_where_it_is_not_withheld() -> None:
    rig = Rig(stores=False)
    rig.begin()
    rig.offsets.store_offsets((Message("t", 0, 60, leader_epoch=0),), {})
    rig.offsets.store_offsets((None, [at(30), at(30, partition=1)]), {})
    rig.offsets.store_offsets((), {"offsets": [at(OFFSET_INVALID)]})
    assert rig.calls() == [stored(61), ("store", [(0, NOTHING), (1, 30)]), stored(NOTHING)]


def test_storing_is_refused_while_it_is_automatic() -> None:
    with pytest.raises(KafkaException, match="StoreOffsets failed: Local: Invalid argument or configuration"):
        Rig().offsets.store_offsets((), {"offsets": [at(3)]})


@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"message": 5}, {"offsets": 5}, {"message": Message("t", 0, 5), "offsets": [at(3)]}])
def test_arguments_that_are_none_are_the_inner_consumers_affair(arguments: dict[str, Any], stores: bool) -> None:
    rig = Rig(stores=stores)
    rig.inner.refuses = KafkaError._STATE
    with pytest.raises(KafkaException) as raised:
        rig.offsets.store_offsets((), arguments)
    assert raised.value.args[0].code() == KafkaError._STATE


@pytest.mark.parametrize("stores", [True, False])
def test_an_error_among_messages_is_refused_by_the_inner_consumer(stores: bool) -> None:
    rig = Rig(stores=stores)
    rig.inner.refuses = KafkaError._STATE
    with pytest.raises(KafkaException) as raised:
        rig.offsets.store_offsets((Message("t", 0, 5, error=KafkaError(KafkaError._PARTITION_EOF)),), {})
    assert raised.value.args[0].code() == KafkaError._STATE


def test_a_message_without_an_offset_is_refused_by_the_inner_consumer() -> None:
    rig = Rig(stores=False)
    rig.inner.refuses = KafkaError._STATE
    with pytest.raises(KafkaException) as raised:
        rig.offsets.store_offsets((Message("t", 0),), {})
    assert raised.value.args[0].code() == KafkaError._STATE
    with pytest.raises(KafkaException, match="StoreOffsets failed: Local: Invalid argument or configuration"):
        Rig().offsets.store_offsets((Message("t", 0),), {})


def test_a_record_of_a_partition_that_is_no_longer_assigned_is_not_stored() -> None:
    assert Rig().hand_out(3) == []


def test_an_earlier_assignment_leaves_no_floor() -> None:
    rig = Rig()
    assert rig.begin().floor == 50
    rig.inner.is_committed = at(OFFSET_INVALID)
    assert rig.begin().floor == OFFSET_INVALID


def test_giving_up_a_partition_keeps_what_librdkafka_knows_to_be_committed() -> None:
    rig = Rig()
    flow = rig.begin()
    rig.commit(offsets=[at(80)], asynchronous=False)
    rig.hand_out(54)
    rig.offsets.forget(flow)
    rig.flows.remove([KEY])
    rig.inner.is_committed = at(70)  # by another member
    rig.calls()
    rig.begin()
    assert rig.calls() == [("commit", [(0, 70)])]


def test_stored_offset_is_committed_before_the_lookup_of_a_retake() -> None:
    rig = Rig()
    rig.begin()
    rig.hand_out(70)
    rig.offsets.begin_again([at(OFFSET_STORED)], in_group=True)
    rig.offsets.starts([at(OFFSET_STORED)], 1.0)
    assert rig.calls() == [], "a member of a group commits at a rebalance"
    rig.offsets.begin_again([at(OFFSET_STORED)])
    rig.inner.refuses = KafkaError._TIMED_OUT
    assert rig.offsets.starts([at(OFFSET_STORED)], 1.0) == {}
    rig.inner.refuses = None
    rig.inner.answer = rig.inner.takes
    rig.clock.now += 1.0
    start = rig.offsets.starts([at(OFFSET_STORED)], 1.0)[KEY]
    assert rig.calls() == [("commit", [(0, 71)])]
    assert start is not None
    assert start.offset == 71, "no record is delivered twice"


def test_partition_whose_commit_failed_is_not_taken_for_committed() -> None:
    rig = Rig()
    rig.begin()
    assert rig.hand_out(44) == [stored(NOTHING)]
    refused = SimpleNamespace(topic="t", partition=0, offset=45, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    nothing = SimpleNamespace(topic="t", partition=0, offset=OFFSET_INVALID, error=None)
    rig.inner.answer = lambda _: [refused, nothing]
    rig.commit(asynchronous=False)
    assert rig.calls() == [("commit", [])], "the offset that is stored stays withheld"
