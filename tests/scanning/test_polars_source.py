"""A Polars scan gives the same rows as Polars over all records, and reads fewer of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from kafka_remote_client.scanning import polars_source
from kafka_remote_client.scanning.polars_source import predicate_of
from kafka_remote_client.scanning.predicate import And, Or, Predicate, column
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OFFSET, KEY = pl.col("offset"), pl.col("key")


@pytest.fixture(scope="module")
def table(golden_url: str) -> TableScan:
    return scan(golden_url, "epochs", partitions=[1])


@pytest.fixture(scope="module")
def everything(table: TableScan) -> pl.DataFrame:
    return pl.DataFrame(table)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (OFFSET >= 5, column("offset") >= 5),
        (OFFSET.is_between(5, 9), And((column("offset") >= 5, column("offset") <= 9))),
        (pl.lit(5) < OFFSET, column("offset") > 5),
        (pl.lit(5) == OFFSET, column("offset") == 5),
        (pl.lit(5, pl.Int64) != OFFSET, column("offset") != 5),
        (KEY == b"a", column("key") == b"a"),
        (pl.col("topic") == "orders", column("topic") == "orders"),
        (pl.col("timestamp") < NOON, column("timestamp") < NOON),
        (pl.col("timestamp") < pl.lit(NOON, pl.Datetime("ms", "UTC")), column("timestamp") < NOON),
        ((OFFSET > 5) & (KEY.bin.size() > 2), column("offset") > 5),
        ((OFFSET > 5) | (OFFSET < 2), Or((column("offset") > 5, column("offset") < 2))),
        ((OFFSET > 5) | (KEY.bin.size() > 2), None),
        ((OFFSET + 1) > 5, None),
        (OFFSET > 5.5, None),
        (OFFSET + 5, None),
        (KEY == "text", column("key") == "text"),
        (pl.col("timestamp") < datetime(2026, 1, 1), None),
        (pl.col("timestamp") > 5, None),  # of Polars' microseconds
        (pl.lit(5, pl.Int64) < pl.col("timestamp"), None),
        (pl.col("timestamp").is_between(0, 5), None),
        (pl.col("topic") == 5, None),
        (pl.col("other") == 5, None),
    ],
    ids=str,
)
def test_supported_expressions_are_pushed_down(expression: pl.Expr, expected: Predicate | None) -> None:
    assert predicate_of(expression) == expected


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame,
        lambda frame: frame.select("key", "offset"),
        lambda frame: frame.filter(OFFSET.is_between(100, 120)).select("value"),
        lambda frame: frame.filter((OFFSET < 500) & (KEY.bin.size() > 6)).select("offset"),
        lambda frame: frame.filter(KEY.is_null()).head(5),
        lambda frame: frame.head(7).select("offset"),
        lambda frame: frame.select(pl.len()),
        lambda frame: frame.filter(OFFSET < 0),
        lambda frame: frame.filter(pl.col("timestamp") > 1_000_000_000_000_000).select("offset"),
        lambda frame: frame.group_by("partition").agg(pl.col("timestamp").max()),
    ],
    ids=range(10),
)
def test_rows_equal_a_query_over_all_records(
    table: TableScan, everything: pl.DataFrame, query: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> None:
    assert_frame_equal(query(table.to_polars()).collect(), query(everything.lazy()).collect())


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame.filter(OFFSET >= 25),
        lambda frame: frame.filter(OFFSET + 0 >= 25),  # cannot be pushed down
        lambda frame: frame.filter(OFFSET >= 100).select("key"),
        lambda frame: frame.filter(OFFSET >= 5).head(10),
        lambda frame: frame.head(40),
    ],
    ids=range(5),
)
def test_a_filter_of_a_limited_scan_has_only_its_rows(
    table: TableScan, everything: pl.DataFrame, query: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> None:
    assert_frame_equal(query(table.head(30).to_polars()).collect(), query(everything.head(30).lazy()).collect())


def test_frames_follow_polars_columns_rows_and_batch_size(table: TableScan) -> None:
    def rows(*asked: object) -> list[tuple[object, ...]]:
        frames = polars_source._frames(table, *asked)
        return [row for frame in frames for row in frame.rows()]

    assert rows(["offset"], (OFFSET > 3) & (OFFSET + 0 < 8), None, None) == [(4,), (5,), (6,), (7,)]
    assert rows(["partition", "offset"], OFFSET > 3, 2, None) == [(1, 4), (1, 5)]
    assert rows(["offset"], OFFSET + 0 > 3, 2, 100) == [(4,), (5,)]
    assert rows(["offset"], None, 2, None) == [(0,), (1,)]
    assert len(rows(None, None, None, None)[0]) == 8


def test_columns_predicate_and_rows_reach_the_scan(table: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[TableScan] = []

    def noted(self: TableScan) -> object:
        read.append(self)
        return iter(())

    monkeypatch.setattr(TableScan, "batches", noted)
    table.to_polars().filter(OFFSET > 5).select("key").collect()
    table.to_polars().select("offset").head(3).collect()
    assert read[0].scan.predicate == (column("offset") > 5)
    assert set(read[0].scan.columns) == {"key", "offset"}
    assert (read[1].scan.columns, read[1].scan.limit) == (("offset",), 3)
    assert polars_source.lazy_frame(table).collect_schema().names() == list(table.scan.columns)
