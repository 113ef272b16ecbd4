"""GETs and bytes in a ``plan``, compared with the counters of tasks that read the same splits, for each shape of log.

The tier is a directory, and locations come from a listing: a task's whole path, without a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.clock import Clock
from kafka_remote_client.spark.options.source_options import SourceOptions, parse_options
from kafka_remote_client.spark.planning import job_planner, segment_probes
from kafka_remote_client.spark.planning.batch_plan import learn_segments, plan_batch
from kafka_remote_client.spark.planning.filters import narrowing_of
from kafka_remote_client.spark.planning.job_plan import JobPlan
from kafka_remote_client.spark.planning.job_planner import plan
from kafka_remote_client.spark.planning.segment_probes import DEFAULT_BUDGET
from kafka_remote_client.spark.reading.split_reader import SplitReader
from kafka_remote_client.spark.reading.task_engine import TaskEngines
from tests.support.shaped_tier import PARTITION, Shape, ShapedTier, write_tier
from tests.support.spark_cluster import FakeCluster

TOLERANCE = 0.02
KIB, MIB = 1 << 10, 1 << 20
RANGES = {"64KiB": 64 * KIB, "256KiB": 256 * KIB, "8MiB": 8 * MIB}
LAYOUTS = {"raw": Shape(), "chunked": Shape(chunk_size=300_000)}
Tiers = Callable[[Shape], ShapedTier]


@attrs.frozen
class GreaterThanOrEqual:
    """Stands for PySpark's filter of that name."""

    attribute: tuple[str, ...]
    value: object


@attrs.frozen
class In:
    """Stands for PySpark's filter of that name."""

    attribute: tuple[str, ...]
    value: tuple[object, ...]


class TierCluster(FakeCluster):
    """A cluster whose log is the tier."""

    def __init__(self, tier: ShapedTier) -> None:
        super().__init__()
        self.log_starts = {PARTITION: 0}
        self.log_ends = {PARTITION: tier.end}


def planned(tier: ShapedTier, options: Mapping[str, str], filters: Sequence[Any] = ()) -> JobPlan:
    def cluster(_options: SourceOptions, _clock: Clock) -> TierCluster:
        return TierCluster(tier)

    return plan(options, make_cluster=cluster, **({"filters": filters} if filters else {}))


def counted(tier: ShapedTier, options: Mapping[str, str], filters: Sequence[Any] = ()) -> tuple[int, Mapping[str, Any]]:
    """Reads every split as tasks do. Returns the number of splits and their counters."""
    parsed = parse_options(dict(options))
    narrowing, _ = narrowing_of(filters)
    splits = plan_batch(parsed, TierCluster(tier), lambda ranges: learn_segments(parsed, ranges), narrowing)
    engines = TaskEngines()
    reader = SplitReader(parsed, engines=engines)
    try:
        for split in splits:
            for _ in reader.read(split):
                pass
    finally:
        engines.close()
    return len(splits), reader.counters


def assert_true(tier: ShapedTier, options: Mapping[str, str], filters: Sequence[Any] = ()) -> JobPlan:
    options = {**tier.options, **options}
    before = planned(tier, options, filters)
    splits, counters = counted(tier, options, filters)
    after = before.counted(counters)
    told = {
        "splits": (before.figures.splits, splits),
        "gets": (before.figures.gets, after.gets),
        "bytes": (before.figures.read_bytes, after.read_bytes),
    }
    assert counters["remote-fetch-fallbacks-total"] == {}
    assert before.figures.splits == splits
    assert before.requests_exact
    assert all(abs(said - was) <= TOLERANCE * was for said, was in told.values()), told
    return before


@pytest.fixture(scope="module")
def tier_of(tmp_path_factory: pytest.TempPathFactory) -> Tiers:
    """Returns the tier of a shape, which tests only read. Each is written once."""
    return cache(lambda shape: write_tier(tmp_path_factory.mktemp("tier"), shape))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("range_bytes", RANGES)
@pytest.mark.parametrize("min_partitions", [1, 3, 16])
def test_a_whole_log_is_planned_as_counted(min_partitions: int, range_bytes: str, layout: str, tier_of: Tiers) -> None:
    options = {"minPartitions": str(min_partitions), "fetch.remote.range.bytes": str(RANGES[range_bytes])}
    assert_true(tier_of(LAYOUTS[layout]), options)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("range_bytes", RANGES)
@pytest.mark.parametrize(("first", "last"), [(0.2, 0.45), (0.5, 0.501), (0.31, 1.0)])
def test_offsets_inside_segments_are_planned_as_counted(
    first: float, last: float, range_bytes: str, layout: str, tier_of: Tiers
) -> None:
    tier = tier_of(LAYOUTS[layout])
    bounds = {"startingOffsets": first, "endingOffsets": last}
    asked = {
        name: f'{{"{PARTITION.topic}":{{"{PARTITION.partition}":{int(tier.end * part)}}}}}' for name, part in bounds.items()
    }
    assert_true(tier, {**asked, "fetch.remote.range.bytes": str(RANGES[range_bytes])})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("range_bytes", RANGES)
@pytest.mark.parametrize("kind", ["first", "some"])
def test_pushed_filters_are_planned_as_counted(kind: str, range_bytes: str, layout: str, tier_of: Tiers) -> None:
    tier = tier_of(LAYOUTS[layout])
    pushed = {
        "first": GreaterThanOrEqual(("offset",), tier.end // 2),
        "some": In(("offset",), (10, tier.bounds[2] + 10)),
    }
    options = {"remote.pushFilters": "true", "fetch.remote.range.bytes": str(RANGES[range_bytes])}
    told = assert_true(tier, options, [pushed[kind]])
    assert told.figures.segments == 2


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("range_bytes", RANGES)
@pytest.mark.parametrize("min_partitions", [1, 16])
def test_aborted_transactions_are_planned_as_counted(
    min_partitions: int, range_bytes: str, isolation: str, tier_of: Tiers
) -> None:
    tier = tier_of(Shape(aborted_every=3))
    options = {
        "minPartitions": str(min_partitions),
        "fetch.remote.range.bytes": str(RANGES[range_bytes]),
        "kafka.isolation.level": isolation,
    }
    assert_true(tier, options)


@pytest.mark.parametrize("batch_records", [1, 200])
@pytest.mark.parametrize("range_bytes", RANGES)
def test_small_and_large_batches_are_planned_as_counted(range_bytes: str, batch_records: int, tier_of: Tiers) -> None:
    tier = tier_of(Shape(segments=2, segment_bytes=MIB, batch_records=batch_records))
    assert_true(tier, {"minPartitions": "5", "fetch.remote.range.bytes": str(RANGES[range_bytes])})


def test_a_job_of_more_splits_than_requests_is_estimated(tier_of: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver requests a quarter of the splits."""
    monkeypatch.setattr(job_planner, "DEFAULT_BUDGET", 24)
    tier = tier_of(LAYOUTS["raw"])
    options = {**tier.options, "minPartitions": "96", "fetch.remote.range.bytes": str(64 * KIB)}
    before = planned(tier, options)
    _, counters = counted(tier, options)
    after = before.counted(counters)
    print(before.figures, after)
    assert not before.requests_exact
    assert before.figures.gets == pytest.approx(after.gets, rel=0.1)
    assert before.figures.read_bytes == pytest.approx(after.read_bytes, rel=TOLERANCE)


def test_after_a_time_out_ranges_are_smaller_than_planned(tier_of: Tiers) -> None:
    """The one case in which tasks request other ranges: a store that does not deliver the planned ones in time."""
    tier = tier_of(LAYOUTS["raw"])
    parsed = parse_options({**tier.options, "fetch.remote.range.bytes": str(8 * MIB)})
    engines = TaskEngines()
    with engines.lend(parsed) as engine:
        assert engine is not None
        engine._scheduler.budget.sizer.timed_out()
    (split,) = plan_batch(parsed, TierCluster(tier), lambda ranges: learn_segments(parsed, ranges, engines=engines))
    reader = SplitReader(parsed, engines=engines)
    assert sum(len(rows) for rows in reader.read(split)) == tier.end
    engines.close()
    gets: Any = reader.counters["remote-fetch-request-total"]
    assert gets > planned(tier, tier.options).figures.gets == 3


def test_a_plan_of_listed_segments_is_exact_without_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more segments than the requests that a plan may send."""
    tier = write_tier(tmp_path, Shape(segments=DEFAULT_BUDGET + 30, segment_bytes=1, batch_records=1, record_bytes=10))
    monkeypatch.delattr(segment_probes, "locate_one")
    assert planned(tier, tier.options).segments_exact
    parsed = parse_options({**tier.options, "remote.splitBytes": "1"})
    learn = partial(learn_segments, parsed, reads=False)
    splits = plan_batch(parsed, TierCluster(tier), learn)
    assert [split.start for split in splits] == list(tier.bounds[:-1])
    assert splits[-1].end == tier.end
