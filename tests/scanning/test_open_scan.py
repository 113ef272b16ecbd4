"""An opened scan equals Kafka's own consumer: both isolation levels, random predicates, bounded requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pytest_mock import MockerFixture, MockType

from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.scanning import arrow_filter
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.predicate import Operator, column, header
from kafka_remote_client.scanning.scan import Scan
from tests.scanning.conftest import RECORDS
from tests.support import random_scans
from tests.support.scanned import Row, expected_rows, rows_of, tiered_rows
from tests.support.tier import LAYOUT, Tier, batch, time_entries

LEVELS = ["read_committed", "read_uncommitted"]
GOLDEN = [
    ("txn", LEVELS[0]),
    ("codec-gzip-java", LEVELS[0]),
    ("codec-snappy-java", LEVELS[1]),
    ("epochs", LEVELS[0]),
    ("codec-lz4-rdk", LEVELS[1]),
    ("codec-zstd-java", LEVELS[0]),
    ("logappend", LEVELS[1]),
    ("codec-none-rdk", LEVELS[0]),
    ("txn", LEVELS[1]),
]
KEYS = (b"key-474", b"key-798", b"key-896", b"")


def opened(tier: TierReader, **scan: object) -> OpenScan:
    return OpenScan(Scan(**scan), tier, threads=2)


def table(found: OpenScan) -> pa.Table:
    return pa.Table.from_batches(found.stream(), found.schema)


def committed_rows(found: OpenScan, isolation: str) -> list[Row]:
    """Records of the golden consumer within the offsets of the plan."""
    ends = found.plan.ends
    return [
        row
        for partition, end in ends.items()
        for row in expected_rows(partition.topic, partition.partition, isolation)
        if row["offset"] < end
    ]


@pytest.mark.parametrize(("topic", "isolation"), GOLDEN)
def test_records_of_a_topic_equal_kafkas_consumer(golden: TierReader, topic: str, isolation: str) -> None:
    scan = opened(golden, topics=topic, isolation_level=isolation, split_bytes=100_000)
    rows = rows_of(table(scan))
    assert len(scan.plan.splits) > 1
    assert rows == committed_rows(scan, isolation)


def test_random_predicates_equal_a_filtered_full_scan() -> None:
    with random_scans.known_tiers() as tiers:
        figures = random_scans.run(tiers, count=60, number=1)
    assert figures.scans == 60
    assert figures.matching > 15
    assert figures.records > 5_000


def test_random_predicates_detect_a_wrong_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison detects a planted bug: ``<`` includes its bound."""
    monkeypatch.setitem(arrow_filter._COMPARE, Operator.LESS, pc.less_equal)

    def several_runs(tiers: Sequence[random_scans.KnownTier]) -> None:
        """One run alone can miss the bug for long."""
        for number in range(2, 8):
            random_scans.run(tiers, count=100, number=number)

    with random_scans.known_tiers() as tiers, pytest.raises(AssertionError):
        several_runs(tiers)


def test_a_split_is_read_as_blocks_and_as_record_batches(golden: TierReader) -> None:
    scan = opened(golden, topics="epochs", columns=["offset"], predicate=header("a").exists(), split_bytes=100_000)
    split = scan.plan.splits[1]
    batches = list(scan.record_batches(split))
    blocks = list(scan.blocks(split))
    with_header = [offset for block in blocks for offset, *_, headers in block.rows() if "a" in dict(headers)]
    assert [offset for one in batches for offset in one.column("offset").to_pylist()] == with_header
    assert {one.schema for one in batches} == {scan.schema}
    assert scan.schema.names == ["offset"]


@pytest.mark.parametrize("bounds", [{}, {"start_offset": 700, "end_offset": 2_300}, {"since": 2_000}, {"split_bytes": 1}])
def test_planned_requests_and_bytes_equal_the_counted_ones(rising: TierReader, bounds: dict[str, int]) -> None:
    scan = opened(rising, topics="orders", **bounds)
    for _ in scan.stream():
        pass
    counted = scan.metrics()
    assert scan.plan.gets == counted["remote-fetch-request-total"]
    assert scan.plan.read_bytes == pytest.approx(counted["remote-fetch-bytes-total"], rel=0.02)


def test_splits_without_a_gap_are_one_read(rising: TierReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """So reading ahead goes on across the end of a split."""
    reads: list[tuple[int, int]] = []
    read = TierReader.read

    def counted(tier: TierReader, topic: str, partition: int, start: int, end: int, **more: object) -> RemoteReader:
        reads.append((start, end))
        return read(tier, topic, partition, start, end, **more)

    monkeypatch.setattr(TierReader, "read", counted)
    scan = opened(rising, topics="orders", split_bytes=1)
    assert len(scan.plan.splits) == 3
    assert [row["offset"] for row in rows_of(table(scan))] == list(range(3000))
    assert scan.count() == 3000
    assert reads == [(0, 3000)] * 2
    reads.clear()
    above = opened(rising, topics="orders", split_bytes=1, predicate=column("offset") >= 500)
    assert above.count() == 2500
    assert reads == [(500, 3000)]


def test_records_of_a_partition_come_in_the_order_of_offsets(golden: TierReader) -> None:
    found: dict[int, list[int]] = {}
    for records in opened(golden, topics="epochs", split_bytes=50_000).stream():
        for partition, offset in zip(records["partition"].to_pylist(), records["offset"].to_pylist(), strict=True):
            found.setdefault(partition, []).append(offset)
    assert sorted(found) == [0, 1]
    assert all(offsets == sorted(set(offsets)) for offsets in found.values())


@pytest.mark.parametrize("limit", [0, 1, 10, 5_000])
def test_a_limit_is_kept_and_costs_two_requests_a_partition_at_most(rising: TierReader, limit: int) -> None:
    scan = opened(rising, topics="orders", limit=limit)
    rows = rows_of(table(scan))
    assert [row["offset"] for row in rows] == list(range(min(limit, 3000)))
    requests = scan.metrics()["remote-fetch-request-total"]
    assert requests == 0 if limit == 0 else requests <= 2 or limit > 100


def surveyed(spy: MockType) -> list[tuple[str, int]]:
    return [(tip.topic, tip.partition) for tip in (call.args[1] for call in spy.call_args_list)]


def test_a_limit_surveys_only_the_partitions_that_it_reads(golden: TierReader, mocker: MockerFixture) -> None:
    spy = mocker.spy(TierReader, "segments")
    scan = opened(golden, topics=["txn", "epochs"], limit=3)
    assert [(row["topic"], row["partition"]) for row in rows_of(table(scan))] == [("epochs", 0)] * 3
    assert surveyed(spy) == [("epochs", 0)]
    assert sorted(scan.plan.ends) == [("epochs", 0), ("epochs", 1), ("txn", 0)]
    assert sorted(surveyed(spy)) == [("epochs", 0), ("epochs", 1), ("txn", 0)]


def test_a_limit_goes_on_with_further_partitions(golden: TierReader, mocker: MockerFixture) -> None:
    spy = mocker.spy(TierReader, "segments")
    whole = rows_of(table(opened(golden, topics=["txn", "epochs"])))
    spy.reset_mock()
    scan = opened(golden, topics=["txn", "epochs"], limit=len(whole) - 1)
    rows = rows_of(table(scan))
    assert rows == sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    assert all(row in whole for row in rows)
    assert len(rows) == len(whole) - 1
    assert sorted(surveyed(spy)) == [("epochs", 0), ("epochs", 1), ("txn", 0)]


def test_a_limit_counts_records_and_not_offsets(golden: TierReader) -> None:
    scan = opened(golden, topics="txn", limit=40, start_offset=2300)
    expected = [row for row in committed_rows(scan, "read_committed") if row["offset"] >= 2300]
    assert rows_of(table(scan)) == expected[:40]


def test_a_limit_with_a_predicate_reads_on_until_it_is_reached(rising: TierReader) -> None:
    scan = opened(rising, topics="orders", limit=3, predicate=column("offset").is_in([1, 900, 2000, 2500]))
    assert [row["offset"] for row in rows_of(table(scan))] == [1, 900, 2000]


@pytest.mark.parametrize(("since", "until"), [(1_500, 2_100), (1_990, 3_600), (2_900, 3_995)])
def test_rising_times_cost_little_more_than_the_batches_that_match(rising: TierReader, since: int, until: int) -> None:
    scan = opened(rising, topics="orders", since=since, until=until, out_of_order=timedelta(0))
    assert [row["timestamp"] for row in rows_of(table(scan))] == list(range(since, until))
    sizes = [len(batch(n, RECORDS, payload=400)) for n in range(0, 3000, RECORDS) if since - 1000 - RECORDS < n < until - 1000]
    assert scan.metrics()["remote-fetch-bytes-total"] <= 1.05 * sum(sizes)


def test_segments_that_are_too_old_are_not_requested(rising: TierReader) -> None:
    scan = opened(rising, topics="orders", since=3_000)
    assert len(table(scan)) == 1000
    assert scan.plan.segments == 1
    assert scan.metrics()["remote-fetch-segment-total"] == 1


def test_a_missing_segment_is_an_error_if_its_times_can_match() -> None:
    """In the other segments, the first record at or after the time bound has offset 2000."""
    tier = Tier()
    for number, start in ((1, 0), (3, 2000)):
        segment = tier.add([batch(start + RECORDS * n, RECORDS) for n in range(200)], number=number, indexed=range(200))
        lasts = range(RECORDS - 1, 1000, RECORDS)
        tier.put(segment, ObjectKind.TIME_INDEX, time_entries(*((1000 + start + last, last) for last in lasts)))
    with TierReader(tier.store, ListingLocationSource(tier.store, LAYOUT)) as reader:
        with pytest.raises(TierUnavailableError, match="cannot read orders-7 at offset 1000") as raised:
            table(opened(reader, topics="orders", since=2_500))
        assert raised.value.offset == 1000


def test_out_of_order_timestamps_lose_no_record(golden: TierReader) -> None:
    rows = expected_rows("epochs", 1, "read_committed")
    times = [row["timestamp"] for row in rows]
    lag = max(max(times[: n + 1]) - time for n, time in enumerate(times))
    assert lag > 0
    since, until = sorted(times)[100], sorted(times)[300]
    scan = opened(golden, topics="epochs", partitions=[1], since=since, until=until, out_of_order=timedelta(milliseconds=lag))
    assert rows_of(table(scan)) == [row for row in committed_rows(scan, "read_committed") if since <= row["timestamp"] < until]


def test_a_transaction_marker_does_not_end_a_read_by_time(golden: TierReader) -> None:
    """Markers have the broker's time, years after the records that follow them."""
    rows = tiered_rows("txn", 0, "read_uncommitted")
    times = [row["timestamp"] for row in rows]
    lag = max(max(times[: n + 1]) - time for n, time in enumerate(times))
    until = sorted(times)[len(times) // 2]
    scan = opened(golden, topics="txn", until=until, out_of_order=timedelta(milliseconds=lag))
    expected = [row for row in tiered_rows("txn", 0, "read_committed") if row["timestamp"] < until]
    assert len(expected) > 500
    assert rows_of(table(scan)) == expected


@pytest.mark.parametrize(
    ("topic", "isolation"),
    [("txn", LEVELS[0]), ("txn", LEVELS[1]), ("epochs", LEVELS[0]), ("codec-zstd-rdk", LEVELS[0]), ("logappend", LEVELS[0])],
)
def test_counts_equal_the_number_of_records(golden: TierReader, topic: str, isolation: str) -> None:
    scan = opened(golden, topics=topic, isolation_level=isolation, split_bytes=100_000)
    rows = committed_rows(scan, isolation)
    assert scan.count() == len(rows)
    half = column("offset") < rows[-1]["offset"] // 2
    matching = [row for row in rows if row["offset"] < rows[-1]["offset"] // 2]
    assert opened(golden, topics=topic, isolation_level=isolation, predicate=half).count() == len(matching)
    keyless = opened(golden, topics=topic, isolation_level=isolation, predicate=column("key").is_null())
    assert keyless.count() == sum(row["key"] is None for row in rows)
    assert opened(golden, topics=topic, isolation_level=isolation, limit=30).count() == 30


@pytest.mark.parametrize("oldest", [False, True])
def test_segment_bounds_equal_those_of_their_records(golden: TierReader, oldest: bool) -> None:
    scan = opened(golden, topics="txn", start_offset=100, split_bytes=100_000)
    found = list(scan.segment_bounds(oldest=oldest))
    assert len(found) == scan.plan.segments > 1
    for one in found:
        rows = [row for row in committed_rows(scan, "read_committed") if one.start <= row["offset"] < one.end]
        times = [row["timestamp"] for row in rows]
        assert one.tally.records == len(rows)
        if rows:
            assert (one.tally.first_offset, one.tally.last_offset) == (rows[0]["offset"], rows[-1]["offset"])
            assert (one.tally.oldest, one.tally.youngest) == (min(times) if oldest else None, max(times))


def test_an_empty_result_has_the_schema(golden: TierReader) -> None:
    scan = opened(golden, topics="epochs", predicate=column("key") == b"none such")
    assert table(scan).num_rows == 0
    assert scan.plan.splits


def test_default_threads_equal_the_cores(golden: TierReader) -> None:
    assert 1 <= OpenScan(Scan(topics="epochs"), golden)._threads <= 8
