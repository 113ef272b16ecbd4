"""Subscriptions: callbacks, their arguments and order, the calls that they may make, and the state afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from tests.parity.recording import Recording
from tests.parity.stage import Run, Stage, play

pytestmark = pytest.mark.broker

PROTOCOLS = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
ALL = pytest.mark.parametrize("protocol", PROTOCOLS)


def at(run: Run, offset: int = OFFSET_INVALID, partition: int = 0) -> TopicPartition:
    return TopicPartition(run.topics["three"]["name"], partition, offset)


def every(run: Run) -> list[TopicPartition]:
    return [at(run, partition=number) for number in range(3)]


def placed(tps: list[TopicPartition]) -> list[Any]:
    return sorted((tp.topic, tp.partition, tp.offset, tp.leader_epoch) for tp in tps)


def happened(run: Run, callback: str, times: int = 1) -> bool:
    return sum(event[0] == callback for event in run.events) >= times


@ALL
@pytest.mark.parametrize("stores", [True, False])
def test_a_group_of_one_reads_from_the_beginning(broker_stage: Stage, protocol: str, stores: bool) -> None:
    def scenario(run: Run) -> None:
        def revoked(consumer: Recording, partitions: list[TopicPartition]) -> None:
            run.note("positions", placed(consumer.inner.position(partitions)))

        consumer = run.open(enable_auto_commit=True, enable_auto_offset_store=stores, **PROTOCOLS[protocol])
        consumer.subscribe([run.topics["three"]["name"]], on_revoke=revoked)
        consumer.read_to_ends(3)
        run.note("assigned", placed(consumer.inner.assignment()))
        consumer.position(every(run))
        if not stores:
            consumer.store_offsets(offsets=[at(run, 17, 1)])
        consumer.close()
        run.committed(*every(run))

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)


@ALL
def test_a_new_subscription_continues_at_the_groups_commit(broker_stage: Stage, protocol: str) -> None:
    def scenario(run: Run) -> None:
        first = run.open(**PROTOCOLS[protocol])
        places = [at(run, 20 + 50 * number, number) for number in range(3)]
        first.commit(offsets=places, asynchronous=False)
        first.close()
        second = run.open(**PROTOCOLS[protocol])
        second.subscribe(["^parity-thr.*"])
        second.read_to_ends(3)
        second.commit(asynchronous=False)
        second.unsubscribe()
        second.read_until(lambda: happened(run, "on_revoke"))
        second.assignment()
        second.position(every(run))
        second.hears_nothing(1)
        second.refuses("seek", at(run, 5))
        second.subscribe([run.topics["three"]["name"]])
        second.read_to_ends(3)
        second.close()
        run.committed(*every(run))

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)


@ALL
def test_callbacks_may_make_the_same_calls(broker_stage: Stage, protocol: str) -> None:
    """Request offsets, assign with given offsets, pause; a seek is refused before and after the assignment."""

    def scenario(run: Run) -> None:
        def assigned(consumer: Recording, partitions: list[TopicPartition]) -> None:
            partitions = sorted(partitions, key=lambda tp: tp.partition)
            run.note("committed", placed(consumer.inner.committed(partitions, timeout=30)))
            consumer.get_watermark_offsets(partitions[0], timeout=30)
            consumer.refuses("seek", at(run, 5))
            right, wrong = ("assign", "incremental_assign") if protocol == "range" else ("incremental_assign", "assign")
            places = [at(run, 10 + tp.partition, tp.partition) for tp in partitions]
            consumer.refuses(wrong, places)
            consumer._called(right, places)
            consumer.attempts("seek", at(run, 5))
            consumer.pause([at(run, partition=1), at(run, partition=2)])

        consumer = run.open(**PROTOCOLS[protocol])
        consumer.subscribe([run.topics["three"]["name"]], on_assign=assigned)
        consumer.read_to_ends(1)
        run.note("assigned", placed(consumer.inner.assignment()))
        consumer.position(every(run))
        consumer.resume([at(run, partition=2)])
        consumer.read_to_ends(1)
        consumer.position(every(run))

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)


@ALL
def test_an_exception_of_a_callback_is_raised_by_its_serving_call(broker_stage: Stage, protocol: str) -> None:
    def scenario(run: Run) -> None:
        def assigned(*_: object) -> None:
            raise KeyError("on_assign")

        def revoked(*_: object) -> None:
            raise KeyError("on_revoke")

        consumer = run.open(**PROTOCOLS[protocol])
        consumer.subscribe([run.topics["three"]["name"]], on_assign=assigned, on_revoke=revoked)
        try:
            consumer.read_until(lambda: False)
        except KeyError as error:
            run.note(str(error))
        run.note("assigned", placed(consumer.inner.assignment()))
        consumer.attempts("close")  # confluent_kafka sometimes loses the record that such a call was about to return

    play(broker_stage, scenario, reads_the_tier=None)


@ALL
def test_calls_in_the_wrong_state_are_refused_alike(broker_stage: Stage, protocol: str) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(**PROTOCOLS[protocol])
        consumer.subscribe([run.topics["three"]["name"]])
        consumer.read_to_ends(3)
        if protocol == "range":
            consumer.refuses("incremental_assign", [at(run, 5)])
            consumer.refuses("incremental_unassign", [at(run)])
        else:
            consumer.refuses("assign", [at(run, 5)])
            consumer.refuses("incremental_assign", [at(run, 5)])
        run.note("assigned", placed(consumer.inner.assignment()))

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)


def test_an_unknown_topic_is_reported_once_and_others_are_read(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.subscribe(["no-such-topic", run.topics["three"]["name"]])
        consumer.read_to_ends(3)
        run.note("assigned", placed(consumer.inner.assignment()))
        run.events.sort(key=lambda event: event[0] == "error")  # with the next metadata

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)


def test_a_static_member_has_the_same_group_metadata(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(group_instance_id="one")
        consumer.subscribe([run.topics["three"]["name"]])
        consumer.read_to_ends(3)
        metadata = consumer.inner.consumer_group_metadata()
        run.note(type(metadata).__name__, metadata[:5], bool(consumer.inner.memberid()))
        consumer.close()
        again = run.open(group_instance_id="one")
        again.subscribe([run.topics["three"]["name"]])
        again.read_to_ends(3)

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)
