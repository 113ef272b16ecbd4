from __future__ import annotations

from uuid import UUID

import attrs

from kafka_remote_client.cli.cost import ReadPlan, SegmentSize, path_costs
from kafka_remote_client.cli.ls import SegmentLine
from kafka_remote_client.cli.offsets import OffsetsLine
from kafka_remote_client.cli.prices import ReaderPlace, load_prices
from kafka_remote_client.cli.topic_map import PartitionFacts, PartKind, TopicMap, TopicPart, partition_parts
from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.verify.copies import CopyState
from kafka_remote_client.verify.finding import FindingKind, Problem

STORAGE = load_prices(None).of_class("standard")


def line(segment_id: str, start: int, end: int | None, state: str = "live") -> SegmentLine:
    return SegmentLine("orders", "id", 0, segment_id, start, end, 1000, 900, None, state)


def bounds(start: int, local: int | None, end: int) -> OffsetsLine:
    return OffsetsLine("orders", 0, start, local, None, end)


def shown(facts: PartitionFacts) -> list[tuple[str, int | None, int | None]]:
    return [(part.kind.value, part.start_offset, part.end_offset) for part in partition_parts(facts, STORAGE)]


SEGMENTS = [line("a", 0, 9), line("b", 10, 19), line("c", 30, 39)]
FACTS = PartitionFacts("orders", 0, SEGMENTS)


def test_hole_between_segments_is_a_gap() -> None:
    assert shown(FACTS) == [("remote", 0, 9), ("remote", 10, 19), ("gap", 20, 29), ("remote", 30, 39)]


def test_local_part_covers_holes_and_overlaps_the_tier() -> None:
    assert shown(attrs.evolve(FACTS, bounds=bounds(0, 15, 60))) == [
        ("log-start", 0, None),
        ("remote", 0, 9),
        ("remote", 10, 19),
        ("local", 15, 59),
        ("remote", 30, 39),
    ]


def test_log_between_the_tiers_is_a_gap() -> None:
    assert shown(attrs.evolve(FACTS, bounds=bounds(0, 50, 60)))[-2:] == [("gap", 40, 49), ("local", 50, 59)]


def test_log_without_a_local_part_ends_in_a_gap() -> None:
    assert shown(attrs.evolve(FACTS, bounds=bounds(0, 60, 60)))[-1] == ("gap", 40, 59)


def test_gap_at_the_log_start_is_shown() -> None:
    facts = PartitionFacts("orders", 0, [line("b", 10, 19)], bounds=bounds(5, None, 20))
    assert shown(facts) == [("log-start", 5, None), ("gap", 5, 9), ("remote", 10, 19)]


def test_segment_before_the_log_start_says_so() -> None:
    first, *_ = partition_parts(attrs.evolve(FACTS, bounds=bounds(12, None, 40)), STORAGE)
    assert (first.kind.value, first.note, first.what) == ("remote", "before the log start", "a: before the log start")


def test_partition_without_segments_is_local_only() -> None:
    assert shown(PartitionFacts("orders", 1, bounds=bounds(0, 0, 3))) == [("log-start", 0, None), ("local", 0, 2)]
    assert shown(PartitionFacts("orders", 1, bounds=bounds(0, 0, 0))) == [("log-start", 0, None)]
    assert shown(PartitionFacts("orders", 1)) == []


def test_unused_and_incomplete_segments_hold_nothing() -> None:
    lines = [line("a", 0, 9), line("b", 0, 9, "shadowed"), line("c", 10, None, "incomplete: log of the segment")]
    parts = partition_parts(PartitionFacts("orders", 0, lines), STORAGE)
    assert [(part.kind.value, part.note) for part in parts] == [
        ("remote", None),
        ("duplicate", "a reader gets its offsets from another segment"),
        ("incomplete", "log of the segment"),
    ]


def test_duplicate_of_what_nothing_else_holds_is_remote() -> None:
    lines = [line("a", 0, 9), line("b", 0, 9, "shadowed"), line("c", 5, 14, "shadowed")]
    orphan = {"a": Problem(FindingKind.ORPHAN_UNKNOWN, "unknown")}
    parts = partition_parts(PartitionFacts("orders", 0, lines, verdicts=orphan), STORAGE)
    assert [(part.segment_id, part.kind.value) for part in parts] == [("b", "remote"), ("a", "orphan"), ("c", "remote")]


def test_segment_outside_the_lineage_stays_unused() -> None:
    lines = [line("a", 0, 9), line("b", 10, 19, "shadowed")]
    assert shown(PartitionFacts("orders", 0, lines)) == [("remote", 0, 9), ("duplicate", 10, 19)]


def test_metadata_decide_what_is_a_segment() -> None:
    verdicts = {
        "a": Problem(FindingKind.ORPHAN_UNKNOWN, "unknown"),
        "b": CopyState.BUSY,
        "c": Problem(FindingKind.HALF_COPIED, "it lacks: log"),
    }
    parts = partition_parts(attrs.evolve(FACTS, verdicts=verdicts, bounds=bounds(0, 40, 41)), STORAGE)
    assert [(part.kind.value, part.start_offset, part.note) for part in parts if part.segment_id] == [
        ("orphan", 0, "unknown"),
        ("busy", 10, None),
        ("incomplete", 30, "it lacks: log"),
    ]
    assert ("gap", 0, 39) in shown(attrs.evolve(FACTS, verdicts=verdicts, bounds=bounds(0, 40, 41)))


def test_finished_segment_without_objects_is_missing() -> None:
    identity = RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "orders", 0), UUID(int=2))
    state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    gone = RemoteLogSegmentMetadata(identity, 20, 29, 0, 0, 0, (EpochEntry(0, 20),), 500, state=state)
    found = attrs.evolve(FACTS, missing=[gone])
    (part,) = [part for part in partition_parts(found, STORAGE) if part.kind.value == "missing"]
    assert (part.start_offset, part.end_offset, part.bytes, part.stored_bytes) == (20, 29, 500, 0)
    assert ("gap", 20, 29) in shown(found)


def test_undecided_transactions_reach_to_the_tiers_end() -> None:
    assert shown(attrs.evolve(FACTS, undecided=33))[-1] == ("undecided", 33, 39)
    assert shown(attrs.evolve(FACTS, undecided=40)) == shown(FACTS)


def test_prices_are_those_of_bytes_and_requests() -> None:
    first = partition_parts(attrs.evolve(FACTS, stored={"a": 2_000_000_000}), STORAGE)[0]
    assert first.month_dollars == 2 * 0.023
    assert first.read_dollars == 0.0004 / 1000


def test_a_read_is_charged_for_stored_bytes_as_cost_does() -> None:
    dear = attrs.evolve(STORAGE, retrieval_per_gb=1e6)
    read = partition_parts(attrs.evolve(FACTS, stored={"a": 950}), dear)[0]
    table = attrs.evolve(load_prices(None), classes={"dear": dear})
    plan = ReadPlan("dear", ReaderPlace.SAME_ZONE, range_bytes=8 << 20, fetch_bytes=1 << 20)
    direct, _ = path_costs([SegmentSize(1000, 900)], plan, table)
    assert read.read_dollars == direct.dollars == 0.0004 / 1000 + 900 / 1e9 * 1e6


def test_totals_count_each_kind() -> None:
    parts = (*partition_parts(FACTS, STORAGE), TopicPart("orders", None, PartKind.FOREIGN))
    found = TopicMap("orders", parts, asked_broker=False, read_metadata=False)
    assert found.partitions == [0]
    assert found.totals() == (
        "orders: partitions 1; remote 3 (2,700 bytes stored), gap 1, foreign 1; <$0.0001 a month, "
        "<$0.0001 to read what is remote once"
    )
