"""Avro columns: both decoders give the values of fastavro's own reader, for any records and any bytes."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.values import avro_format
from kafka_remote_client.values.avro_format import avro_parser
from kafka_remote_client.values.isolating import Parsed, parse_each


def _logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


_DAYS = st.dates(date(1900, 1, 1), date(2200, 1, 1))
_TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "int"]}]}
_INT, _LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": ("int", _INT),
    "long": ("long", _LONG),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "flag": ("boolean", st.booleans()),
    "text": ("string", st.text(max_size=6)),
    "maybe": (["null", "string"], st.none() | st.text(max_size=6)),
    "perhaps": (["long", "null"], st.none() | _LONG),
    "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    "list": ({"type": "array", "items": ["null", "int"]}, st.lists(st.none() | _INT, max_size=3)),
    "map": ({"type": "map", "values": "int"}, st.dictionaries(st.text(max_size=3), _INT, max_size=2).map(dict)),
    "point": (_POINT, st.fixed_dictionaries({"x": _INT, "y": st.none() | _INT})),
    "other": ("Point", st.fixed_dictionaries({"x": _INT, "y": st.none() | _INT})),
    "day": (_logical("int", "date"), _DAYS),
    "clock": (_logical("int", "time-millis"), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "tick": (_logical("long", "time-micros"), st.times()),
    "at": (_logical("long", "timestamp-micros"), _TIMES.map(lambda t: t.replace(tzinfo=UTC))),
    "local": (_logical("long", "local-timestamp-micros"), _TIMES),
}
BY_VALUE: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bytes": ("bytes", st.binary(max_size=6)),
    "fixed": ({"type": "fixed", "name": "Four", "size": 4}, st.binary(min_size=4, max_size=4)),
    "price": (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    ),
}


def schema_of(fields: dict[str, tuple[Any, Any]]) -> str:
    told = [{"name": name, "type": kind} for name, (kind, _) in fields.items()]
    return json.dumps({"type": "record", "name": "shop.Order", "fields": told})


def encoded(schema: str, value: Any) -> bytes:
    data = BytesIO()
    fastavro.schemaless_writer(data, json.loads(schema), value)
    return data.getvalue()


def parsed(schema: str, values: list[bytes | None], *, compiled: bool) -> Parsed:
    return parse_each(pa.array(values, pa.binary()), avro_parser(schema, compiled=compiled))


def plain(value: Any) -> Any:
    """Converts Arrow's values to the written ones: maps to dictionaries."""
    if isinstance(value, dict):
        return {name: dict(one) if name == "map" and one is not None else plain(one) for name, one in value.items()}
    return value


SCHEMA, BY_VALUE_SCHEMA = schema_of(FIELDS), schema_of({**FIELDS, **BY_VALUE})
RECORDS = st.fixed_dictionaries({name: one for name, (_, one) in FIELDS.items()})
BY_VALUE_RECORDS = st.fixed_dictionaries({name: one for name, (_, one) in {**FIELDS, **BY_VALUE}.items()})


@given(st.lists(RECORDS | st.none(), max_size=4))
def test_both_decoders_give_the_written_values(records: list[dict[str, Any] | None]) -> None:
    values = [None if one is None else encoded(SCHEMA, one) for one in records]
    found = [parsed(SCHEMA, values, compiled=compiled) for compiled in (True, False)]
    assert found[0].values.equals(found[1].values)
    assert [plain(one) for one in found[0].values.to_pylist()] == records
    assert not found[0].errors


@given(st.lists(BY_VALUE_RECORDS, max_size=4))
def test_python_reads_types_that_the_compiled_decoder_lacks(records: list[dict[str, Any]]) -> None:
    found = parsed(BY_VALUE_SCHEMA, [encoded(BY_VALUE_SCHEMA, one) for one in records], compiled=True)
    assert [plain(one) for one in found.values.to_pylist()] == records


@given(st.lists(st.binary(max_size=24), max_size=4))
def test_any_bytes_give_a_value_or_an_error_and_change_no_other(hostile: list[bytes]) -> None:
    fields = {name: FIELDS[name] for name in ("int", "text", "maybe", "list", "map", "kind", "flag")}
    schema = schema_of(fields)
    mine = {"int": 1, "text": "a", "maybe": None, "list": [None, 2], "map": {"k": 3}, "kind": "B", "flag": True}
    values = [one for value in hostile for one in (encoded(schema, mine), value)]
    compiled, by_value = (parsed(schema, list(values), compiled=one) for one in (True, False))
    for found in (compiled, by_value):
        assert all(row % 2 for row in found.errors)
        for row in range(0, len(values), 2):
            assert plain(found.values[row].as_py()) == mine
    for row in range(len(values)):
        if row not in compiled.errors and row not in by_value.errors:
            assert plain(compiled.values[row].as_py()) == plain(by_value.values[row].as_py())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "data",
    [b"", b"\x02", b"\x02\x04a", b"\x02\x01", b"\x02\x02\xff", b"\xff" * 11, b"\x80\x80\x80\x80\x80\x40\x02a"],
)
def test_damaged_bytes_are_an_error(data: bytes, compiled: bool) -> None:
    schema = schema_of({"int": FIELDS["int"], "text": FIELDS["text"]})
    found = parsed(schema, [encoded(schema, {"int": 1, "text": "a"}), data], compiled=compiled)
    assert found.errors.keys() == {1}
    assert found.values.to_pylist() == [{"int": 1, "text": "a"}, None]


def test_an_int_beyond_32_bits_is_an_error_and_not_truncated() -> None:
    data = encoded('"long"', 2**40)
    for compiled in (True, False):
        assert parsed('"int"', [data], compiled=compiled).errors.keys() == {0}


@pytest.mark.parametrize("compiled", [True, False])
def test_a_schema_need_not_be_a_record(compiled: bool) -> None:
    for schema, value in (('"string"', "a"), ('"long"', 5), ('{"type": "array", "items": "int"}', [1, 2]), ('"null"', None)):
        assert parsed(schema, [encoded(schema, value)], compiled=compiled).values.to_pylist() == [value]
    assert parsed(SCHEMA, [], compiled=compiled).values.to_pylist() == []


def test_times_outside_pythons_range_are_read() -> None:
    schema = schema_of({"day": FIELDS["day"], "at": FIELDS["at"]})
    data = encoded(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "day", "type": "int"}, {"name": "at", "type": "long"}]}),
        {"day": 2**31 - 1, "at": 2**62},
    )
    for compiled in (True, False):
        found = parsed(schema, [data], compiled=compiled).values
        assert found.field("day").cast(pa.int32()).to_pylist() == [2**31 - 1]
        assert found.field("at").cast(pa.int64()).to_pylist() == [2**62]


def test_a_panic_of_the_decoder_is_an_error_of_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """Stands for the exception of a Rust panic."""

    def give_up(*_: object) -> None:
        raise PanicException("not implemented")

    monkeypatch.setattr(avro_format.pyruhvro, "deserialize_array", give_up)
    assert "not implemented" in parsed('"int"', [b"\x02"], compiled=True).errors[0]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(avro_format.pyruhvro, "deserialize_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parsed('"int"', [b"\x02"], compiled=True)


def test_without_the_compiled_decoder_python_reads_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_format, "pyruhvro", None)
    assert parsed('"int"', [b"\x02"], compiled=True).values.to_pylist() == [1]


@pytest.mark.parametrize("schema", ["", "{", "5", '{"type": "record"}', '{"type": "enum", "name": "E"}', '"unknown"', "[]"])
def test_an_invalid_schema_is_refused(schema: str) -> None:
    with pytest.raises(UnsupportedFormatError):
        avro_parser(schema)
