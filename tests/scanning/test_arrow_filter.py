"""Filter masks of record batches follow SQL's three-valued logic."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafka_remote_client.records.arrow import SPARK_KAFKA_SCHEMA
from kafka_remote_client.scanning.arrow_filter import mask_of
from kafka_remote_client.scanning.predicate import Predicate, column, header

RECORDS = pa.RecordBatch.from_pylist(
    [
        {
            "key": b"a",
            "value": b"1",
            "topic": "t",
            "partition": 3,
            "offset": 7,
            "timestamp": 1_000,
            "timestampType": 0,
            "headers": [],
        },
        {
            "key": None,
            "value": None,
            "topic": "t",
            "partition": 3,
            "offset": 8,
            "timestamp": 2_000,
            "timestampType": 0,
            "headers": [{"key": "id", "value": b"x"}, {"key": "id", "value": None}, {"key": "n", "value": None}],
        },
        {
            "key": b"b",
            "value": b"",
            "topic": "t",
            "partition": 3,
            "offset": 9,
            "timestamp": 3_000,
            "timestampType": 1,
            "headers": [{"key": "id", "value": b"y"}],
        },
    ],
    SPARK_KAFKA_SCHEMA,
)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (column("offset") == 8, [False, True, False]),
        (column("offset") != 8, [True, False, True]),
        (column("timestamp") < 2, [True, False, False]),
        (column("timestamp") <= 2, [True, True, False]),
        (column("timestamp") > 2, [False, False, True]),
        (column("timestamp") >= "1970-01-01T00:00:00.002", [False, True, True]),
        (column("partition") < 2**40, [True, True, True]),
        (column("partition").is_in([3, 2**40]), [True, True, True]),
        (column("timestamp").is_in([1, 3]), [True, False, True]),
        (column("topic") == "t", [True, True, True]),
        (column("timestampType") == 1, [False, False, True]),
        (column("key") == b"a", [True, None, False]),
        (column("key").is_in([b"a", b"c"]), [True, None, False]),
        (column("key").is_in([]), [False, False, False]),
        (~column("key").is_in([]), [True, True, True]),
        (column("value").is_null(), [False, True, False]),
        (~(column("key") == b"a"), [False, None, True]),
        ((column("key") == b"a") | (column("offset") == 8), [True, True, False]),
        ((column("key") == b"a") & (column("offset") == 9), [False, False, False]),
        (header("id").exists(), [False, True, True]),
        (header("id") == b"x", [False, True, False]),
        (header("id").is_in([b"x", b"y"]), [False, True, True]),
        (header("n") == b"", [False, False, False]),
        (~header("id").exists(), [True, False, False]),
    ],
    ids=str,
)
@pytest.mark.parametrize("sliced", [False, True])
def test_mask_of_a_predicate(predicate: Predicate, expected: list[Any], sliced: bool) -> None:
    assert mask_of(predicate, RECORDS.slice(1) if sliced else RECORDS).to_pylist() == expected[sliced:]


def test_a_custom_predicate_class_is_refused() -> None:
    class CustomPredicate(Predicate): ...

    with pytest.raises(TypeError, match="unknown predicate"):
        mask_of(CustomPredicate(), RECORDS)
