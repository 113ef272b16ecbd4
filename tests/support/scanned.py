"""The expected results of a scan: rows of the golden consumer, and predicates with an oracle that evaluates them row by row.

The oracle shares no code with the product: it is Python over the records of Kafka's own consumer.
"""

from __future__ import annotations

import base64
import hashlib
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import attrs
import pyarrow as pa
from hypothesis import strategies as st

from kafka_remote_client.scanning.predicate import Predicate, column, header
from tests.support.golden import golden_aiven, golden_local, read_jsonl

__all__ = ["EPOCH", "Condition", "Row", "conditions", "expected_rows", "rows_of"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]
_OPERATORS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)
_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


@cache
def expected_rows(topic: str, partition: int, isolation: str, mode: str | None = None) -> tuple[Row, ...]:
    """Every record that the golden consumer got, in the order of offsets; long values as their SHA-256.

    ``mode``: of the golden tiers of Aiven's plugin; ``None`` = Kafka's own layout.
    """
    root = (golden_local() if mode is None else golden_aiven(mode)) / "expected"
    path = root / f"{topic}-{partition}.{isolation}.jsonl.gz"
    if not path.exists():
        path = root / f"{topic}-{partition}.read_uncommitted.jsonl.gz"
    return tuple(_row(topic, partition, line) for line in read_jsonl(path))


def _row(topic: str, partition: int, line: Any) -> Row:
    value = _bytes(line["value"]) if "value" in line else line["value_sha256"]
    return {
        "key": _bytes(line["key"]),
        "value": value,
        "topic": topic,
        "partition": partition,
        "offset": line["offset"],
        "timestamp": line["timestamp"],
        "timestampType": _TYPES[line["timestamp_type"]],
        "headers": [(name, _bytes(value)) for name, value in line["headers"]],
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def rows_of(records: pa.Table | pa.RecordBatch) -> list[Row]:
    """The records of a scan in the same shape, by topic, partition and offset."""
    found = []
    for row in records.to_pylist():
        if row.get("value") is not None and len(row["value"]) > 1024:
            row["value"] = hashlib.sha256(row["value"]).hexdigest()
        if "timestamp" in row:
            row["timestamp"] = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        if "headers" in row:
            row["headers"] = [(one["key"], one["value"]) for one in row["headers"]]
        found.append(row)
    return sorted(found, key=lambda row: (row.get("topic", ""), row.get("partition", 0), row.get("offset", 0)))


@attrs.frozen
class Condition:
    """A predicate of the product, and its value for a row: true, false, or null."""

    predicate: Predicate
    of: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return repr(self.predicate)


def conditions(offsets: tuple[int, int], times: tuple[int, int], keys: tuple[bytes, ...]) -> st.SearchStrategy[Condition]:
    """Random predicates over rows with such offsets, timestamps (in milliseconds) and keys."""
    leaves = st.one_of(
        _comparisons("offset", st.integers(*offsets)),
        _comparisons("timestamp", st.integers(*times)),
        _comparisons("partition", st.integers(0, 2)),
        _comparisons("key", st.sampled_from(keys)),
        st.lists(st.integers(*offsets), max_size=4).map(lambda values: _is_in("offset", values)),
        st.lists(st.sampled_from(keys), max_size=3).map(lambda values: _is_in("key", values)),
        st.sampled_from(["key", "value", "offset"]).map(_is_null),
        st.sampled_from(["a", "dup", "trace-id", "none"]).map(_exists),
        st.tuples(st.sampled_from(["a", "dup"]), st.sampled_from([b"v", b"1", b""])).map(lambda pair: _has(*pair)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: _both(*pair)),
            st.tuples(inner, inner).map(lambda pair: _either(*pair)),
            inner.map(_negated),
        ),
        max_leaves=5,
    )


def _comparisons(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    return st.tuples(st.sampled_from(_OPERATORS), values).map(lambda pair: _compared(name, *pair))


def _compared(name: str, how: Callable[[Any, Any], Any], value: Any) -> Condition:
    return Condition(how(column(name), value), lambda row: None if row[name] is None else how(row[name], value))


def _is_in(name: str, values: list[Any]) -> Condition:
    return Condition(column(name).is_in(values), lambda row: None if values and row[name] is None else row[name] in values)


def _is_null(name: str) -> Condition:
    return Condition(column(name).is_null(), lambda row: row[name] is None)


def _exists(name: str) -> Condition:
    return Condition(header(name).exists(), lambda row: any(one == name for one, _ in row["headers"]))


def _has(name: str, value: bytes) -> Condition:
    return Condition(header(name) == value, lambda row: (name, value) in row["headers"])


def _both(one: Condition, other: Condition) -> Condition:
    def of(row: Row) -> bool | None:
        found = (one.of(row), other.of(row))
        return False if False in found else None if None in found else True

    return Condition(one.predicate & other.predicate, of)


def _either(one: Condition, other: Condition) -> Condition:
    def of(row: Row) -> bool | None:
        found = (one.of(row), other.of(row))
        return True if True in found else None if None in found else False

    return Condition(one.predicate | other.predicate, of)


def _negated(one: Condition) -> Condition:
    def of(row: Row) -> bool | None:
        found = one.of(row)
        return None if found is None else not found

    return Condition(~one.predicate, of)
