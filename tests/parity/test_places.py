"""Seeks, pauses, positions, ends and fetch offsets, in both tiers and across their border."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED, TopicPartition

from tests.parity.recording import Recording, plain_value
from tests.parity.stage import Run, Stage, play
from tests.parity.topics import FIRST_TIMESTAMP
from tests.support.offsets_at_times import offsets_for_times

pytestmark = pytest.mark.broker


def at(run: Run, offset: int = OFFSET_INVALID, topic: str = "mixed", partition: int = 0) -> TopicPartition:
    return TopicPartition(run.topics[topic]["name"], partition, offset)


def test_seeks_between_and_within_tiers_are_equal(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        local = run.topics["mixed"]["local"]
        consumer = run.open()
        consumer.assign([at(run, 10)])
        consumer.read(3)
        for place in (100, 100, 50, local + 2, 20, local - 1, local, local + 3, 0):
            consumer.position([at(run)])
            consumer.seek(at(run, place))
            consumer.position([at(run)])
            consumer.read(4)
        consumer.position([at(run)])
        consumer.assignment()

    play(broker_stage, scenario, reads_the_tier=True)


@pytest.mark.parametrize("first", [10, "local", None])
@pytest.mark.parametrize("place", [OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, OFFSET_INVALID, 10_000])
def test_seeks_to_logical_offsets_and_out_of_range_are_equal(broker_stage: Stage, first: int | str | None, place: int) -> None:
    """``first``: where the partition was read before the seek, or None."""

    def scenario(run: Run) -> None:
        consumer = run.open()
        local = run.topics["mixed"]["local"]
        consumer.assign([at(run, local if first == "local" else first or 10)])
        if first is not None:
            consumer.read(2)
        consumer.attempts("seek", at(run, place))
        consumer.position([at(run)])
        if place == OFFSET_STORED:  # refused, and librdkafka has stopped fetching before the error
            consumer.seek(at(run, 30))
        consumer.read(1)
        consumer.position([at(run)])

    play(broker_stage, scenario, reads_the_tier=None)


@pytest.mark.parametrize("reset", ["error", "latest"])
@pytest.mark.parametrize("place", [10, "local"])
def test_a_seek_to_an_invalid_offset_follows_the_policy(broker_stage: Stage, reset: str, place: int | str) -> None:
    """``earliest`` is tested above."""

    def scenario(run: Run) -> None:
        consumer = run.open(auto_offset_reset=reset)
        consumer.assign([at(run, run.topics["mixed"]["local"] if place == "local" else place)])
        consumer.read(2)
        consumer.seek(at(run, OFFSET_INVALID))
        consumer.position([at(run)])
        consumer.read(1)
        consumer.position([at(run)])

    play(broker_stage, scenario, reads_the_tier=None)


def test_a_seek_carries_its_leader_epoch(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        facts = run.topics["transactional"]
        consumer = run.open()
        consumer.assign([TopicPartition(facts["name"], 0, OFFSET_BEGINNING)])
        (first,) = consumer.read(1)
        consumer.read(30)
        consumer.seek(TopicPartition(facts["name"], 0, first.offset() + 2, leader_epoch=first.leader_epoch()))
        consumer.read(5)
        consumer.position([TopicPartition(facts["name"], 0)])

    play(broker_stage, scenario, reads_the_tier=True)


def test_refused_seeks_change_nothing(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.refuses("seek", at(run, 5))
        consumer.assign([at(run, 10)])
        consumer.read(2)
        for wrong in (at(run, 5, partition=77), TopicPartition("no-such-topic", 0, 5), at(run, 5, partition=-1)):
            consumer.refuses("seek", wrong)
        for wrong in (None, 5, "mixed", [at(run, 5)]):
            consumer.refuses("seek", wrong)
        consumer.position([at(run)])
        consumer.read(2)

    play(broker_stage, scenario, reads_the_tier=True)


def test_the_end_is_reported_each_time_it_is_reached(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        end, local = run.topics["mixed"]["end"], run.topics["mixed"]["local"]
        consumer = run.open()
        consumer.assign([at(run, local - 5)])
        consumer.read_to_ends()
        consumer.hears_nothing(2)
        consumer.seek(at(run, end - 3))
        consumer.read_to_ends()
        consumer.seek(at(run, end))
        consumer.read_to_ends()
        consumer.seek(at(run, local - 2))
        consumer.read_to_ends()
        consumer.pause([at(run)])
        consumer.hears_nothing(1)
        consumer.resume([at(run)])
        consumer.read_to_ends()
        consumer.seek(at(run, OFFSET_END))
        consumer.read_to_ends()
        consumer.assign([at(run, local - 1)])
        consumer.read_to_ends()
        consumer.position([at(run)])

    play(broker_stage, scenario, reads_the_tier=True)


def test_no_end_is_reported_unless_configured(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(enable_partition_eof=False)
        facts = run.topics["mixed"]
        consumer.assign([at(run, facts["local"] - 5)])
        consumer.read(facts["end"] - facts["local"] + 5)
        consumer.hears_nothing(2)

    play(broker_stage, scenario, reads_the_tier=True)


@pytest.mark.parametrize("place", ["tier", "local", "before the border"])
def test_pause_and_resume_give_the_same_records(broker_stage: Stage, place: str) -> None:
    def scenario(run: Run) -> None:
        local = run.topics["mixed"]["local"]
        consumer = run.open()
        consumer.assign([at(run, {"tier": 10, "local": local, "before the border": local - 3}[place])])
        consumer.read(3)
        consumer.pause([at(run)])
        consumer.hears_nothing(2)
        consumer.position([at(run)])
        consumer.pause([at(run)])
        consumer.resume([at(run)])
        consumer.read(3)
        consumer.resume([at(run)])
        consumer.read(3)
        consumer.position([at(run)])
        consumer.pause([at(run)])
        consumer.seek(at(run, 5))
        consumer.hears_nothing(2)
        consumer.position([at(run)])
        consumer.resume([at(run)])
        consumer.read(3)

    play(broker_stage, scenario, reads_the_tier=True)


def test_pauses_of_unassigned_and_unknown_partitions_are_equal(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.assign([at(run, 10)])
        for call in ("pause", "resume"):
            consumer.__getattr__(call)([at(run, partition=55)])
            consumer.__getattr__(call)([TopicPartition("no-such-topic", 0)])
            consumer.__getattr__(call)([])
            for wrong in (None, at(run), "mixed", [1]):
                consumer.refuses(call, wrong)
        consumer.read(3)

    play(broker_stage, scenario, reads_the_tier=True)


def test_a_pause_outlives_the_assignment(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.assign([at(run, 10)])
        consumer.read(2)
        consumer.pause([at(run)])
        consumer.unassign()
        consumer.assign([at(run, 20)])
        consumer.hears_nothing(2)
        consumer.position([at(run)])
        consumer.resume([at(run)])
        consumer.read(2)

    play(broker_stage, scenario, reads_the_tier=True)


def test_positions_are_equal(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.position([at(run)])
        consumer.position([])
        consumer.assign([at(run, 10)])
        consumer.position([at(run), at(run, partition=7), TopicPartition("no-such-topic", 3, 5)])
        consumer.read(1)
        consumer.position([at(run)])
        consumer.read(99)
        consumer.position([at(run, 3)])
        consumer.pause([at(run)])
        consumer.position([at(run)])
        consumer.resume([at(run)])
        consumer.position([at(run)])
        consumer.read_to_ends()
        consumer.position([at(run)])
        consumer.seek(at(run, 40))
        consumer.position([at(run)])
        consumer.read(1)
        consumer.unassign()
        forgotten = TopicPartition(run.topics["mixed"]["name"], 0)
        consumer.comes_to_answer([plain_value(forgotten)], "position", [forgotten])
        consumer.assign([at(run, 50)])
        consumer.position([at(run)])
        for wrong in (None, "mixed", [1]):
            consumer.refuses("position", wrong)

    play(broker_stage, scenario, reads_the_tier=True)


def test_watermarks_are_equal(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        for topic in ("mixed", "transactional"):
            consumer.get_watermark_offsets(at(run, topic=topic), timeout=30)
        consumer.assign([at(run, 10)])
        consumer.get_watermark_offsets(at(run), timeout=30, cached=False)
        consumer.read(5)
        run.note("cached", consumer.inner.get_watermark_offsets(at(run), cached=True))
        consumer.read_to_ends()
        run.note("cached", consumer.inner.get_watermark_offsets(at(run), cached=True))
        consumer.get_watermark_offsets(at(run), 30)
        consumer.refuses("get_watermark_offsets", at(run, partition=77), timeout=30)
        consumer.refuses("get_watermark_offsets", TopicPartition("no-such-topic", 0), timeout=30)
        for wrong in (None, [at(run)]):
            consumer.refuses("get_watermark_offsets", wrong)

    play(broker_stage, scenario, reads_the_tier=True)


def answered(consumer: Recording, times: list[TopicPartition]) -> None:
    found = offsets_for_times(consumer.inner, times)
    consumer.events.append(("offsets_for_times", plain_value(found)))


@pytest.mark.parametrize("assigned", [True, False])
def test_offsets_for_times_in_the_tier_and_past_the_end(broker_stage: Stage, assigned: bool) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        if assigned:
            consumer.assign([at(run, 10)])
            consumer.read(5)
        facts = run.topics["mixed"]
        times = [0, FIRST_TIMESTAMP, FIRST_TIMESTAMP + 1]
        times += [FIRST_TIMESTAMP + 1000 * n for n in (50, 133, facts["local"] - 1, facts["local"], facts["end"] - 1)]
        times += [FIRST_TIMESTAMP + 1000 * facts["end"] + 1, 4_000_000_000_000]
        for time in times:
            answered(consumer, [at(run, time)])
        three = run.topics["three"]["name"]
        asked = [TopicPartition(three, n, FIRST_TIMESTAMP + 1000 * (1000 * n + 20)) for n in range(3)]
        answered(consumer, asked)
        answered(consumer, [at(run, FIRST_TIMESTAMP, topic="transactional")])
        for wrong in (None, "mixed", [1]):
            consumer.refuses("offsets_for_times", wrong)

    play(broker_stage, scenario, reads_the_tier=assigned)


def test_several_partitions_are_each_read_in_order_to_their_end(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        parts = [at(run, OFFSET_BEGINNING, "three", n) for n in range(3)]
        consumer.assign(parts)
        consumer.read_to_ends(3)
        consumer.position(parts)
        consumer.seek(at(run, 5, "three", 1))
        consumer.read_to_ends(1)
        consumer.pause([parts[0]])
        consumer.seek(at(run, 5, "three", 0))
        consumer.seek(at(run, 7, "three", 2))
        consumer.read_to_ends(1)
        consumer.resume([parts[0]])
        consumer.read_to_ends(1)
        consumer.position(parts)

    play(broker_stage, scenario, reads_the_tier=True, in_order=False)


def test_partitions_are_added_and_removed_alike(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.incremental_assign([at(run, 5, "three", 0)])
        consumer.read(3)
        consumer.refuses("incremental_assign", [at(run, 5, "three", 0)])
        consumer.incremental_assign([at(run, 120, "three", 1)])
        consumer.incremental_unassign([at(run, topic="three")])
        consumer.refuses("incremental_unassign", [at(run, topic="three")])
        consumer.read(3)
        run.note("assigned", sorted((tp.partition, tp.offset) for tp in consumer.inner.assignment()))
        consumer.position([at(run, topic="three", partition=n) for n in range(3)])
        consumer.incremental_assign([at(run, 5, "three", 0)])
        consumer.incremental_unassign([at(run, topic="three", partition=1)])
        consumer.read(3)
        consumer.unassign()
        consumer.assignment()
        consumer.hears_nothing(1)
        consumer.assign([])
        consumer.assignment()

    play(broker_stage, scenario, reads_the_tier=True)


def test_an_unknown_partition_delays_no_other(broker_stage: Stage) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open()
        consumer.assign([at(run, 5, partition=7), TopicPartition("no-such-topic", 0, 5), at(run, 10)])
        consumer.read(3)
        consumer.position([at(run, partition=7), TopicPartition("no-such-topic", 0)])

    play(broker_stage, scenario, reads_the_tier=True)


@pytest.mark.parametrize("wrong", ["assigned", "twice", "no offset"])
def test_a_refused_incremental_assignment_leaves_no_trace(broker_stage: Stage, wrong: str) -> None:
    """librdkafka checks the list in the order of topics, and ignores topics after the one that it refuses."""

    def scenario(run: Run) -> None:
        consumer = run.open(enable_auto_offset_store=False)
        consumer.assign([at(run, 10)])
        consumer.read(2)
        mixed, behind = at(run, 10), at(run, 5, "three")
        lists = {"assigned": [mixed, behind], "twice": [mixed, mixed, behind], "no offset": [at(run, -5), behind]}
        consumer.refuses("incremental_assign", lists[wrong])
        consumer.refuses("store_offsets", offsets=[behind])
        consumer.assignment()
        consumer.read(2)
        consumer.position([at(run)])

    play(broker_stage, scenario, reads_the_tier=True)


@pytest.mark.parametrize("wrong", ["twice", "no offset"])
def test_a_refused_assignment_revokes_the_old_one(broker_stage: Stage, wrong: str) -> None:
    """``rd_kafka_cgrp_assign`` clears the assignment before it checks the new one."""

    def scenario(run: Run) -> None:
        consumer = run.open(enable_auto_offset_store=False)
        consumer.assign([at(run, 10)])
        consumer.read(2)
        mixed, behind = at(run, 10), at(run, 5, "three")
        consumer.refuses("assign", {"twice": [mixed, mixed, behind], "no offset": [at(run, -5), behind]}[wrong])
        consumer.assignment()
        consumer.hears_nothing(1)
        consumer.refuses("store_offsets", offsets=[behind])
        consumer.assign([at(run, 10)])
        consumer.read(2)

    play(broker_stage, scenario, reads_the_tier=True)
