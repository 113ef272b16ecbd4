"""The list of written files as JSON and back."""

from __future__ import annotations

import json

from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit


def test_a_split_survives_a_json_round_trip() -> None:
    one = WrittenFile("_staging/a", "a.parquet", 3, 100, 5, 9, 1000, 2000, {"day": "2026-01-31"}, "Zm9vdGVy")
    other = WrittenFile("_staging/b", "b.parquet", 4, 200)
    split = WrittenSplit("orders-0-5-20", (one, other))
    assert split.rows == 7
    text = json.dumps(split.to_json())
    assert WrittenSplit.of_json(json.loads(text)) == split
    assert "null" not in text


def test_a_split_without_records_has_no_files() -> None:
    assert WrittenSplit.of_json(WrittenSplit("orders-0-5-20").to_json()) == WrittenSplit("orders-0-5-20")
