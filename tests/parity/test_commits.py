"""Stored, committed and requested offsets: which call commits them, when, with which leader epoch, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, TopicPartition

from tests.parity.recording import Recording, is_end
from tests.parity.stage import Run, Stage, play
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker


def at(run: Run, offset: int = OFFSET_INVALID, topic: str = "mixed", partition: int = 0) -> TopicPartition:
    return TopicPartition(run.topics[topic]["name"], partition, offset)


@pytest.mark.parametrize("place", ["tier", "local", "border"])
@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_close_commits_the_same_offsets(broker_stage: Stage, commits: bool, stores: bool, place: str) -> None:
    def scenario(run: Run) -> None:
        local = run.topics["mixed"]["local"]
        consumer = run.open(enable_auto_commit=commits, enable_auto_offset_store=stores, auto_commit_interval_ms=600_000)
        consumer.assign([at(run, {"tier": 10, "local": local, "border": local - 3}[place])])
        messages = consumer.read(7)
        if not stores:
            consumer.store_offsets(message=messages[3])
        consumer.close()
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=place != "local")


@pytest.mark.parametrize("topic", ["mixed", "transactional"])
def test_all_forms_of_commit_give_the_same_offsets(broker_stage: Stage, topic: str) -> None:
    def scenario(run: Run) -> None:
        facts = run.topics[topic]
        consumer = run.open()
        consumer.refuses("commit", asynchronous=False)
        consumer.assign([at(run, facts["start"], topic)])
        consumer.refuses("commit", asynchronous=False)
        messages = consumer.read(9)
        consumer.commit(asynchronous=False)
        consumer.committed([at(run, topic=topic)], timeout=30)
        consumer.refuses("commit", asynchronous=False)
        consumer.commit(message=messages[2], asynchronous=False)
        consumer.committed([at(run, topic=topic)], timeout=30)
        explicit = TopicPartition(facts["name"], 0, facts["start"] + 5, metadata="mine", leader_epoch=0)
        consumer.commit(offsets=[explicit], asynchronous=False)
        consumer.committed([at(run, topic=topic)], 30)
        consumer.refuses("commit", message=messages[0], offsets=[explicit])
        consumer.commit(offsets=[at(run, 20, "three", 2)], asynchronous=False)  # not assigned
        consumer.committed([at(run, topic="three", partition=2), at(run, topic="three", partition=1)], timeout=30)
        consumer.attempts("commit", offsets=[], asynchronous=False)
        for wrong in ({"message": 5}, {"offsets": 5}, {"offsets": [1]}, {"message": explicit}):
            consumer.refuses("commit", **wrong)
        consumer.attempts("commit", messages[4], asynchronous=False)
        consumer.close()
        run.committed(at(run, topic=topic), at(run, topic="three", partition=2))

    play(broker_stage, scenario, reads_the_tier=True)


def test_asynchronous_commits_call_back(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        def told() -> int:
            return sum(event[0] == "on_commit" for event in run.events)

        consumer = run.open("on_commit")
        consumer.assign([at(run, 10)])
        messages = consumer.read(4)
        consumer.pause([at(run)])
        consumer.commit()
        consumer.read_until(lambda: told() == 1)
        consumer.commit(message=messages[1])
        consumer.read_until(lambda: told() == 2)
        consumer.commit(offsets=[at(run, 30)], asynchronous=True)
        consumer.read_until(lambda: told() == 3)
        consumer.commit(offsets=[at(run, 31)], **{"async": True})
        consumer.close()
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=True)


def test_an_end_cannot_be_committed(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.assign([at(run, run.topics["mixed"]["local"] - 2)])
        (end,) = filter(is_end, consumer.read_to_ends())
        consumer.refuses("commit", message=end, asynchronous=False)
        consumer.commit(asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=True)


def test_a_rewind_is_committed_only_if_its_offset_is_given(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.assign([at(run, 100)])
        consumer.read(5)
        consumer.commit(asynchronous=False)
        consumer.seek(at(run, 20))
        messages = consumer.read(3)
        consumer.attempts("commit", asynchronous=False)
        run.committed(at(run))
        consumer.commit(message=messages[-1], asynchronous=False)
        run.committed(at(run))
        consumer.read(2)
        consumer.commit(asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=True)


@pytest.mark.parametrize("where", ["tier", "local"])
def test_store_offsets_stores_the_applications_offsets(broker_stage: Stage, where: str) -> None:
    def scenario(run: Run) -> None:
        first = 10 if where == "tier" else run.topics["mixed"]["local"]
        consumer = run.open(enable_auto_offset_store=False)
        consumer.refuses("store_offsets")
        consumer.refuses("store_offsets", offsets=[at(run, 5)])
        consumer.assign([at(run, first)])
        messages = consumer.read(5)
        consumer.refuses("commit", asynchronous=False)
        consumer.store_offsets(message=messages[1])
        consumer.commit(asynchronous=False)
        run.committed(at(run))
        consumer.store_offsets(offsets=[at(run, first + 4)])
        consumer.commit(asynchronous=False)
        run.committed(at(run))
        consumer.store_offsets(messages[-1])
        consumer.commit(asynchronous=False)
        run.committed(at(run))
        consumer.store_offsets(offsets=[at(run, 10_000)])
        consumer.commit(asynchronous=False)
        run.committed(at(run))
        consumer.refuses("store_offsets", offsets=[at(run, 5, "three")])
        consumer.refuses("store_offsets", offsets=[TopicPartition("no-such-topic", 0, 5)])
        consumer.store_offsets(offsets=[at(run, 10_001), at(run, 5, "three")])
        consumer.attempts("store_offsets", offsets=[])
        consumer.refuses("store_offsets", message=messages[0], offsets=[at(run, 3)])
        for wrong in ({"message": 5}, {"offsets": 5}, {"offsets": [1]}):
            consumer.refuses("store_offsets", **wrong)
        consumer.commit(asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=where == "tier")


def test_store_offsets_is_refused_while_storing_is_automatic(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.refuses("store_offsets", offsets=[at(run, 5)])
        consumer.assign([at(run, 10)])
        messages = consumer.read(3)
        consumer.refuses("store_offsets", message=messages[0])
        consumer.refuses("store_offsets", offsets=[at(run, 5)])
        consumer.attempts("store_offsets", offsets=[])
        consumer.attempts("store_offsets")
        consumer.attempts("store_offsets", message=5)
        consumer.attempts("store_offsets", message=messages[0], offsets=[at(run, 3)])

    play(broker_stage, scenario, reads_the_tier=True)


@pytest.mark.parametrize("place", ["tier", "local", "end", "gone"])
def test_a_consumer_continues_at_the_groups_commit(broker_stage: Stage, place: str) -> None:
    def scenario(run: Run) -> None:
        topic = "transactional" if place == "gone" else "mixed"
        facts = run.topics[topic]
        committed = {"tier": 50, "local": facts["local"] + 1, "end": facts["end"], "gone": 5}[place]
        first = run.open()
        first.commit(offsets=[TopicPartition(facts["name"], 0, committed, leader_epoch=0)], asynchronous=False)
        first.close()
        for offset in (OFFSET_INVALID, OFFSET_STORED):
            second = run.open()
            second.assign([at(run, offset, topic)])
            second.read(1)
            second.position([at(run, topic=topic)])
            second.close()

    play(broker_stage, scenario, reads_the_tier=None if place == "gone" else place == "tier")


def test_committed_offsets_of_unknown_partitions_are_equal(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.committed([at(run)], timeout=30)
        consumer.attempts("committed", [TopicPartition("no-such-topic", 0), at(run, partition=77)], timeout=30)
        consumer.attempts("committed", [], timeout=30)
        for wrong in (None, "mixed", [1]):
            consumer.refuses("committed", wrong)

    play(broker_stage, scenario, reads_the_tier=False)


def test_offsets_stored_after_a_seek_and_a_pause_are_equal(broker_stage: Stage) -> None:
    """Delivered records count, even if their partition was moved since; records read ahead do not."""

    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.assign([at(run, 10)])
        consumer.read(5)
        consumer.seek(at(run, 300))
        consumer.attempts("commit", asynchronous=False)
        run.committed(at(run))
        consumer.read(2)
        consumer.pause([at(run)])
        consumer.attempts("commit", asynchronous=False)
        run.committed(at(run))
        consumer.resume([at(run)])
        consumer.read(1)
        consumer.unassign()
        consumer.attempts("commit", asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=True)


def begins_at_its_commit(run: Run, offset: int, **settings: Any) -> Recording:
    """Returns a consumer that has read one record from the group's commit."""
    first = run.open()
    first.commit(offsets=[at(run, offset)], asynchronous=False)
    first.close()
    consumer = run.open(auto_commit_interval_ms=600_000, **settings)
    consumer.assign([at(run)])
    consumer.read(1)
    return consumer


def becomes_committed(run: Run, consumer: Recording, offset: int) -> None:
    """Waits for an asynchronous or automatic commit; its result is an event."""
    wait_until(lambda: consumer.inner.committed([at(run)], 30)[0].offset == offset, f"{offset} to be committed", seconds=60)
    run.committed(at(run))


@pytest.mark.parametrize("way", ["seek", "assign", "unassign and assign"])
@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_stored_below_the_start_is_committed_at_the_end_only(broker_stage: Stage, commits: bool, way: str) -> None:
    def scenario(run: Run) -> None:
        consumer = begins_at_its_commit(run, 50, enable_auto_commit=commits)
        if way == "seek":
            consumer.seek(at(run, 10))
        else:
            if way == "unassign and assign":
                consumer.unassign()
            consumer.assign([at(run, 10)])
        consumer.read(3)
        consumer.attempts("commit", asynchronous=False)
        consumer.read(2)
        consumer.close()
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=None)


@pytest.mark.parametrize("form", ["offsets", "message", "offsets, not waited for"])
def test_offsets_below_the_start_are_committed_after_an_explicit_commit(broker_stage: Stage, form: str) -> None:
    def scenario(run: Run) -> None:
        consumer = begins_at_its_commit(run, 50)
        consumer.seek(at(run, 10))
        messages = consumer.read(3)
        consumer.refuses("commit", asynchronous=False)
        if form == "message":
            consumer.commit(message=messages[0], asynchronous=False)
        else:
            consumer.commit(offsets=[at(run, 11)], asynchronous=form != "offsets")
            becomes_committed(run, consumer, 11)
        consumer.commit(asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=None)


def test_an_application_offset_below_the_start_is_committed_at_the_end(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = begins_at_its_commit(run, 50, enable_auto_commit=True, enable_auto_offset_store=False)
        consumer.store_offsets(offsets=[at(run, 60)])
        consumer.store_offsets(offsets=[TopicPartition(run.topics["mixed"]["name"], 0, 20, metadata="mine")])
        consumer.refuses("commit", asynchronous=False)
        consumer.incremental_unassign([at(run)])
        becomes_committed(run, consumer, 20)
        consumer.assign([at(run, 20)])
        messages = consumer.read(2)
        consumer.store_offsets(message=messages[-1])
        consumer.commit(asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=None)


def test_a_partition_reset_by_another_consumer_is_committed(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = begins_at_its_commit(run, 50)
        consumer.read(20)
        consumer.commit(asynchronous=False)
        consumer.unassign()
        other = run.open()
        other.commit(offsets=[at(run, 20)], asynchronous=False)
        consumer.assign([at(run)])
        consumer.read(3)
        consumer.commit(asynchronous=False)
        run.committed(at(run))

    play(broker_stage, scenario, reads_the_tier=None)


def test_a_reassigned_partition_begins_where_it_was_revoked(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = begins_at_its_commit(run, 50, enable_auto_commit=True)
        consumer.commit(asynchronous=False)
        consumer.seek(at(run, 10))
        consumer.read(3)
        consumer.assign([at(run)])
        consumer.read(1)

    play(broker_stage, scenario, reads_the_tier=None)
