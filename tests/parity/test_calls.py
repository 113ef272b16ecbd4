"""Results, refusals and exceptions of calls, on the embedded cluster: contracts that need no real broker."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Message, TopicPartition

from tests.parity.stage import Run, Stage, play

pytestmark = pytest.mark.embedded


def at(run: Run, offset: int = OFFSET_INVALID, partition: int = 0) -> TopicPartition:
    return TopicPartition(run.topics["mixed"]["name"], partition, offset)


def test_consume_keeps_its_contract(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(enable_partition_eof=False)
        consumer.consume(0)
        consumer.consume(0, 5)
        consumer.assign([at(run, 10)])
        consumer.consume(3, 60)
        consumer.consume(num_messages=2, timeout=60)
        consumer.consume(0)
        consumer.consume()
        consumer.consume(1)
        run.note("all of what is there", len(consumer.inner.consume(1000, 5)))
        consumer.consume(5, 0)
        consumer.consume(5, 0.05)
        for number in (-1, 1_000_001):
            consumer.refuses("consume", number, 0.1)
        for wrong in ({"num_messages": "5"}, {"timeout": "5"}, {"number": 5}):
            consumer.refuses("consume", **wrong)
        consumer.position([at(run)])

    play(embedded_stage, scenario, reads_the_tier=True)


def test_poll_keeps_its_contract(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(enable_partition_eof=False)
        consumer.poll(0)
        consumer.refuses("poll", "5")
        consumer.refuses("poll", wait=5)
        consumer.assign([at(run, 10)])
        consumer.poll()
        consumer.poll(-1)
        consumer.poll(timeout=60)
        consumer.poll(60.0)
        consumer.seek(at(run, run.topics["mixed"]["end"]))
        consumer.poll(0.2)
        consumer.poll(0)

    play(embedded_stage, scenario, reads_the_tier=True)


CALLS: dict[str, tuple[Any, ...]] = {
    "assign": ([],),
    "assignment": (),
    "cluster_id": (),
    "commit": (),
    "committed": ([],),
    "consume": (1, 0),
    "consumer_group_metadata": (),
    "get_watermark_offsets": (TopicPartition("parity", 0),),
    "incremental_assign": ([],),
    "incremental_unassign": ([],),
    "list_topics": (),
    "memberid": (),
    "offsets_for_times": ([],),
    "pause": ([],),
    "poll": (0,),
    "position": ([],),
    "resume": ([],),
    "seek": (TopicPartition("parity", 0, 5),),
    "set_sasl_credentials": ("me", "word"),
    "store_offsets": (None, [TopicPartition("parity", 0, 5)]),
    "subscribe": (["parity"],),
    "unassign": (),
    "unsubscribe": (),
}


@pytest.mark.parametrize("read", [True, False])
def test_a_closed_consumer_refuses_all_calls(embedded_stage: Stage, read: bool) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        if read:
            consumer.assign([at(run, 10)])
            consumer.read(3)
        consumer.close()
        consumer.close()
        for call, arguments in CALLS.items():
            consumer.attempts(call, *arguments)
        for call in ("assign", "pause", "seek", "position", "commit", "store_offsets", "get_watermark_offsets", "consume"):
            consumer.attempts(call, 5)
        consumer.attempts("consume", -1)
        consumer.attempts("__enter__")
        consumer.close()

    play(embedded_stage, scenario, reads_the_tier=read)


def test_leaving_the_context_closes_the_consumer(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        with consumer.inner as same:
            run.note(same is consumer.inner)
            consumer.assign([at(run, 10)])
            consumer.read(1)
        consumer.refuses("poll", 0)
        other = run.open()
        try:
            with other.inner:
                raise KeyError("mine")
        except KeyError as error:
            run.note(str(error))
        other.refuses("assignment")

    play(embedded_stage, scenario, reads_the_tier=True)


def test_invalid_configurations_are_refused(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        run.refuses_to_open()
        for wrong in ({"no_such_property": 5}, {"isolation_level": "read_all"}, {"on_commit": 5}):
            run.refuses_to_open(**{"group_id": run.group, **wrong})
        for value in ("nowhere", 5):
            run.refuses_to_open(group_id=run.group, auto_offset_reset=value)
        for name in ("enable_auto_commit", "enable_auto_offset_store", "enable_partition_eof", "queued_min_messages"):
            run.refuses_to_open(**{"group_id": run.group, name: "perhaps"})
        run.refuses_to_open(group_id=run.group, session_timeout_ms=1, max_poll_interval_ms=0)
        run.refuses_to_open(5)
        run.refuses_to_open({"group.id": run.group}, 5)

    play(embedded_stage, scenario, reads_the_tier=False)


def test_settings_as_strings_and_as_values_are_equal(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        for true, false in ((True, False), ("true", "false"), ("t", "f"), (1, 0), ("1", "0"), ("TRUE", "False")):
            consumer = run.open(enable_partition_eof=true, enable_auto_commit=false, enable_auto_offset_store=false)
            consumer.assign([at(run, 10)])
            messages = consumer.read(2)
            consumer.attempts("store_offsets", message=messages[0])
            consumer.commit(asynchronous=False)
            consumer.close()

    play(embedded_stage, scenario, reads_the_tier=True)


def test_invalid_topics_and_assignments_are_refused(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        for call in ("subscribe", "assign", "incremental_assign", "incremental_unassign"):
            for wrong in (None, 5, "parity", [5], [None], (at(run),)):
                consumer.attempts(call, wrong)
            consumer.refuses(call)
        for name in ("on_assign", "on_revoke", "on_lost"):
            consumer.inner.unsubscribe()
            try:
                consumer.inner.subscribe(["parity"], **{name: 5})
            except TypeError as error:
                run.note(type(error).__name__, str(error))
        consumer.assignment()
        consumer.unsubscribe()
        consumer.unassign()
        consumer.assign([at(run, 10)])
        consumer.read(2)
        consumer.refuses("assign", None)
        consumer.assignment()
        consumer.read(2)

    play(embedded_stage, scenario, reads_the_tier=True)


def test_messages_are_of_confluent_kafkas_class(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(enable_auto_offset_store=False)
        consumer.assign([at(run, 0)])
        for message in consumer.read(30):
            copied = pickle.loads(pickle.dumps(message))
            run.note(type(message) is Message, bool(message), copied.value() == message.value(), str(type(message)))
            run.note(message.error(), message.latency(), message.timestamp(), message.headers(), len(message))
            try:
                hash(message)
            except TypeError as error:
                run.note(str(error))
            consumer.store_offsets(message=message)
        consumer.commit(message=message, asynchronous=False)
        built = Message(topic=run.topics["mixed"]["name"], partition=0, offset=41)
        consumer.commit(message=built, asynchronous=False)
        consumer.store_offsets(message=built)
        consumer.committed([at(run)], timeout=30)

    play(embedded_stage, scenario, reads_the_tier=True)


def test_the_remaining_methods_are_equal(embedded_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.memberid()
        run.note(type(consumer.inner.consumer_group_metadata()).__name__)
        consumer.cluster_id(timeout=30)
        topics = consumer.inner.list_topics(run.topics["mixed"]["name"], timeout=30).topics
        run.note([(name, sorted(topic.partitions)) for name, topic in topics.items()])
        consumer.refuses("set_sasl_credentials", None, None)
        consumer.set_sasl_credentials("me", "word")
        consumer.refuses("no_such_method")

    play(embedded_stage, scenario, reads_the_tier=False)
