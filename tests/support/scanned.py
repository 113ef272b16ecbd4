"""The expected results of a scan: rows of the golden consumer, and predicates with an oracle that evaluates them row by row.

The oracle shares no code with the product: it is Python over the records of Kafka's own consumer.
"""

from __future__ import annotations

import base64
import hashlib
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import attrs
import pyarrow as pa
from hypothesis import strategies as st

from kafka_remote_client.scanning.predicate import Predicate, column, header
from tests.support.golden import golden_aiven, golden_local, read_jsonl, read_text

__all__ = ["EPOCH", "Condition", "Row", "conditions", "expected_rows", "rows_in_order", "rows_of", "tiered_rows"]

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
_TOPICS = ("epochs", "orders", "txn")
_HEADER_VALUES = st.sampled_from([b"v", b"1", b""])
_BATCH = re.compile(
    r"^baseOffset: (?P<offset>\d+) .* producerId: (?P<producer>-?\d+) .* isTransactional: (?P<transactional>\w+) "
    r"isControl: (?P<control>\w+) ",
    re.MULTILINE,
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


@cache
def tiered_rows(topic: str, partition: int, isolation: str) -> tuple[Row, ...]:
    """What a scan of the golden tier alone has: the rows up to the last offset that Kafka's ListOffsets says is tiered.

    Under read_committed it ends before the first transaction without a marker up to there, by Kafka's DumpLogSegments.
    """
    lines = read_jsonl(golden_local() / "offsets.jsonl")
    (end,) = (line["latest_tiered"]["offset"] + 1 for line in lines if (line["topic"], line["partition"]) == (topic, partition))
    if isolation == "read_committed":
        end = min([end, *_undecided(topic, partition, end)])
    return tuple(row for row in expected_rows(topic, partition, isolation) if row["offset"] < end)


def _undecided(topic: str, partition: int, end: int) -> list[int]:
    """The first offset of each transaction that has no marker below ``end``."""
    dump = golden_local() / "dump-log-segments" / f"{topic}-{partition}.txt.gz"
    begun: dict[str, int] = {}
    for batch in _BATCH.finditer(read_text(dump) if dump.exists() else ""):
        if int(batch["offset"]) >= end or batch["transactional"] == "false":
            continue
        if batch["control"] == "true":
            begun.pop(batch["producer"], None)
        else:
            begun.setdefault(batch["producer"], int(batch["offset"]))
    return list(begun.values())


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
    return sorted(rows_in_order(records), key=lambda row: (row.get("topic", ""), row.get("partition", 0), row.get("offset", 0)))


def rows_in_order(records: pa.Table | pa.RecordBatch) -> list[Row]:
    """The same in the order of the records."""
    found = []
    for row in records.to_pylist():
        if row.get("value") is not None and len(row["value"]) > 1024:
            row["value"] = hashlib.sha256(row["value"]).hexdigest()
        if "timestamp" in row:
            row["timestamp"] = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        if "headers" in row:
            row["headers"] = [(one["key"], one["value"]) for one in row["headers"]]
        found.append(row)
    return found


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
        _comparisons("topic", st.sampled_from(_TOPICS)),
        _comparisons("key", st.sampled_from(keys)),
        st.lists(st.integers(*offsets), max_size=4).map(lambda values: _is_in("offset", values)),
        st.lists(st.integers(*times), max_size=4).map(lambda values: _is_in("timestamp", values)),
        st.lists(st.sampled_from(keys), max_size=3).map(lambda values: _is_in("key", values)),
        st.sampled_from(["key", "value", "offset"]).map(_is_null),
        st.sampled_from(["a", "dup", "trace-id", "none"]).map(_exists),
        st.tuples(st.sampled_from(["a", "dup"]), _HEADER_VALUES).map(lambda pair: _has(*pair)),
        st.tuples(st.sampled_from(["a", "dup"]), st.lists(_HEADER_VALUES, max_size=3)).map(lambda pair: _has_one_of(*pair)),
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


def _has_one_of(name: str, values: list[bytes]) -> Condition:
    return Condition(
        header(name).is_in(values), lambda row: any(one == name and value in values for one, value in row["headers"])
    )


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
