"""Ratios of tables.py, and its way without the product."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.table_writing import _typed, bare, export
from tests.benchmarks.tables import ROWS, missed
from tests.benchmarks.topics import ORDER_SCHEMA, _documents, avro_values
from tests.support.golden import golden_local


def test_missed_targets_are_named() -> None:
    ways = {"kafka-tuned": (8.0, 20.0), "export": (2.0, 5.0), "bare": (1.6, 4.0)}
    medians = {way: {"seconds": seconds, "cpu_seconds": cpu} for way, (seconds, cpu) in ways.items()}
    ratios, short = missed(ROWS[0], medians)
    assert ratios == {"cpu: kafka-tuned / export": 4.0, "seconds: bare / export": 0.8, "seconds: kafka-tuned / export": 4.0}
    assert short == []
    medians["bare"]["seconds"] = 1.5
    medians["kafka-tuned"]["cpu_seconds"] = 19.0
    assert missed(ROWS[0], medians)[1] == ["cpu: kafka-tuned / export", "seconds: bare / export"]


@pytest.mark.parametrize("way", [bare, export])
def test_both_ways_write_the_same_rows(tmp_path: Path, way: object) -> None:
    task = {"store": (golden_local() / "remote").as_uri(), "topic": "epochs", "threads": 2, "latency_ms": 0, "values": {}}
    assert callable(way)
    rows = way({**task, "target": str(tmp_path / "table")})
    assert rows == sum(pq.read_metadata(file).num_rows for file in (tmp_path / "table").rglob("*.parquet")) > 0


def test_documents_are_json_of_one_length() -> None:
    documents = _documents(300, 1000)
    assert {len(document) for document in documents} == {300}
    assert json.loads(documents[7])["id"] == 7


def test_avro_values_have_one_length_and_the_documents_fields() -> None:
    values = avro_values(200, 1000)
    assert {len(value) for value in values} == {200}
    orders = [fastavro.schemaless_reader(BytesIO(value[5:]), ORDER_SCHEMA, None) for value in values]
    assert [list(order) for order in orders[:1]] == [list(json.loads(_documents(300, 1)[0]))]
    column = pa.chunked_array([pa.array(values, pa.binary())])
    assert _typed(column, {"avro": ORDER_SCHEMA}).to_pylist() == orders
