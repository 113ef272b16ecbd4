"""JSON columns, compared with Python's own parser: the bytes of one value never change the result of another."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_remote_client.values.isolating import Parsed, parse_each
from kafka_remote_client.values.json_format import MAX_DEPTH, json_parser

ORDER = pa.struct(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("price", pa.float64()),
        ("paid", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.struct([("x", pa.int64())])),
    ]
)
_INTEGERS = st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(max_size=8)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "number": _INTEGERS,
    "text": _TEXTS,
    "price": st.floats(allow_nan=False, allow_infinity=False),
    "paid": st.booleans(),
    "tags": st.lists(_TEXTS, max_size=3),
    "at": st.fixed_dictionaries({}, optional={"x": _INTEGERS}),
    "more": st.one_of(_INTEGERS, st.lists(st.integers()), st.none()),
}
DOCUMENTS = st.fixed_dictionaries({}, optional={name: st.none() | one for name, one in FIELDS.items()})


def parsed(values: list[bytes | None], kind: pa.DataType | None = ORDER) -> Parsed:
    return parse_each(pa.array(values, pa.binary()), json_parser(kind))


def seen(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document as a column of ORDER has it."""
    found = {field.name: document.get(field.name) for field in ORDER}
    if found["at"] is not None:
        found["at"] = {"x": found["at"].get("x")}
    return found


@given(st.lists(st.tuples(DOCUMENTS, st.sampled_from((None, 2)), st.booleans()), max_size=8))
def test_documents_of_a_schema_equal_pythons(documents: list[tuple[dict[str, Any], int | None, bool]]) -> None:
    values = [json.dumps(one, indent=indent, ensure_ascii=ascii_).encode() for one, indent, ascii_ in documents]
    found = parsed(list(values))
    assert not found.errors
    assert found.values.to_pylist() == [seen(one) for one, _, _ in documents]


SPLICES = (
    b'{"number":1',
    b',"text":"a"}',
    b'"',
    b"}",
    b"{",
    b"]",
    b"[",
    b",",
    b"\n",
    b"\\",
    b'{"v":',
    b"]}",
    b"1",
    b"null",
    b" ",
)


@given(st.lists(st.one_of(st.binary(max_size=6), st.lists(st.sampled_from(SPLICES), max_size=6).map(b"".join)), max_size=6))
@example([b'{"number":1', b',"text":"a"}{"number":2}'])
@example([b'1]}\n{"v":[2', b'{"number":1}'])
@example([b'{"number":1}{"number":2}', b""])
@example([b'{"number":1}],"w":[5', b'{"number":1}'])
def test_no_bytes_change_the_result_of_a_neighbour(hostile: list[bytes]) -> None:
    good = b'{"number":7,"text":"mine"}'
    values = [one for value in hostile for one in (good, value)]
    found = parsed([*values, good])
    mine = seen({"number": 7, "text": "mine"})
    assert [found.values[row].as_py() for row in range(0, len(values) + 1, 2)] == [mine] * (len(hostile) + 1)
    assert all(row % 2 for row in found.errors)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"{",
        b'{"number":1}{"number":2}',
        b'{"number":1},{"number":2}',
        b'{"number":1} x',
        b'{"number":"text"}',
        b'{"number":1.5}',
        b'{"number":1,"number":2}',
        b'{"number":1}],"w":[5',
        b'{"number":1}],"w":"\xff","x":[5',
        b'{"number":1} ]\n, "w" : {"a":1}, "x" :[{}',
        b'{"text":"\xff"}',
        b'{"text":"\\ud800"}',
        b"\x00\x00\x00\x00\x01{}",
        b"[1]",
        b"5",
    ],
)
def test_bytes_other_than_one_document_of_the_type_are_an_error(value: bytes) -> None:
    found = parsed([b'{"number":1}', value, None])
    assert found.errors.keys() == {1}
    assert found.values.to_pylist() == [seen({"number": 1}), None, None]


def test_lists_of_fields_that_are_ignored_are_read_over() -> None:
    found = parsed([b'{"a":[1],"number":1,"b":[{"c":[]},{"d":[]}]}', b'{"a":[1],"number":2,"b":["],\\"x\\":["]}'])
    assert found.values.to_pylist() == [seen({"number": 1}), seen({"number": 2})]
    assert not found.errors


def test_null_is_a_document() -> None:
    found = parsed([b"null", b"{}"])
    assert found.values.to_pylist() == [None, seen({})]
    assert not found.errors


def test_a_schema_of_one_value_reads_numbers_and_strings() -> None:
    assert parsed([b"1", b" 2 "], pa.int64()).values.to_pylist() == [1, 2]
    assert parsed([b'"a"', b"null"], pa.string()).values.to_pylist() == ["a", None]


def test_without_a_schema_the_type_comes_from_all_values_together() -> None:
    found = parsed([b'{"a":1}', b"no", b'{"b":["x"],"a":null}', None], None)
    assert found.values.type == pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    assert found.values.to_pylist() == [{"a": 1, "b": None}, None, {"a": None, "b": ["x"]}, None]
    assert found.errors.keys() == {1}
    assert parsed([], None).values.type == pa.null()
    assert parsed([b'{"a":1}],"w":[5'], None).errors.keys() == {0}


def test_without_a_schema_values_of_several_types_are_refused() -> None:
    with pytest.raises(ValueError, match="changed from number to string"):
        parsed([b'{"a":1}', b'{"a":"x"}'], None)


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
def test_without_a_schema_no_depth_overflows_the_stack(brackets: tuple[bytes, bytes]) -> None:
    begin, end = brackets
    deep, allowed = (begin * depth + b"1" + end * depth for depth in (100_000, MAX_DEPTH))
    found = parsed([deep, b"1"], None)
    assert "deeper than" in found.errors[0]
    assert parsed([allowed], None).errors == {}
    assert parsed([begin * 100_000 + b"1"], None).errors.keys() == {0}
    assert parsed([b'"' + b"[" * 500 + b'\\""'], None).values.to_pylist() == ["[" * 500 + '"']


def test_with_a_schema_unknown_fields_may_be_nested_to_any_depth() -> None:
    deep = b'{"more":' + b"[" * 100_000 + b"]" * 100_000 + b',"number":1}'
    assert parsed([deep]).values.to_pylist() == [seen({"number": 1})]
