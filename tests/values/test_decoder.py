"""Tables with decoded keys and values, and the three policies for values that do not parse."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import Action, ConfigurationError, UnreadableRecordError, UnsupportedFormatError
from kafka_remote_client.values import ValueDecoder
from tests.support.arrow_reading import record_table
from tests.support.schema_registry import SchemaRegistry

SCHEMA = pa.schema([("n", pa.int64())])
RECORDS = record_table([(b"a", b'{"n":1}'), (b"\xff", b'{"n":2}'), (None, b"no"), (b"d", None)])


def test_keys_and_values_get_types_and_other_columns_stay() -> None:
    records = RECORDS.slice(0, 1)
    found = ValueDecoder(value_format="json", value_schema=SCHEMA, key_format="string").decode(records)
    assert found.column_names == records.column_names
    assert found.schema.field("value").type == pa.struct([("n", pa.int64())])
    assert found.drop_columns(["key", "value"]).equals(records.drop_columns(["key", "value"]))
    assert (found["key"].to_pylist(), found["value"].to_pylist()) == (["a"], [{"n": 1}])
    assert ValueDecoder().decode(records).equals(records)


def text_of(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


@given(st.lists(st.one_of(st.none(), st.binary(max_size=4), st.text(max_size=4).map(str.encode)), max_size=20))
def test_bytes_become_the_text_that_python_decodes(values: list[bytes | None]) -> None:
    table = pa.table({"value": pa.array(values, pa.binary())})
    found = ValueDecoder(value_format="string", on_error="column").decode(table)
    assert found.schema.field("value").type == pa.string()
    assert found["value"].to_pylist() == list(map(text_of, values))
    failed = [value is not None and text_of(value) is None for value in values]
    assert [error is not None for error in found["value_error"].to_pylist()] == failed


def test_chunks_batches_and_empty_tables_are_decoded() -> None:
    decoder = ValueDecoder(value_format="json", value_schema=pa.struct([("n", pa.int64())]))
    chunked = pa.concat_tables([RECORDS.slice(0, 1), RECORDS.slice(1, 1), RECORDS.slice(3)])
    assert decoder.decode(chunked)["value"].to_pylist() == [{"n": 1}, {"n": 2}, None]
    assert decoder.decode(RECORDS.slice(0, 2).to_batches()[0])["value"].to_pylist() == [{"n": 1}, {"n": 2}]
    empty = decoder.decode(RECORDS.schema.empty_table())
    assert (len(empty), empty.schema.field("value").type) == (0, pa.struct([("n", pa.int64())]))


def test_the_first_record_that_does_not_parse_is_raised_with_its_place() -> None:
    with pytest.raises(UnreadableRecordError, match="the key of orders-3 at offset 11 does not parse") as raised:
        ValueDecoder(value_format="json", value_schema=SCHEMA, key_format="string").decode(RECORDS)
    error = raised.value
    assert (error.topic, error.partition, error.offset, error.action) == ("orders", 3, 11, Action.STOP)
    with pytest.raises(UnreadableRecordError, match="record 1 of the table"):
        ValueDecoder(value_format="string").decode(pa.table({"value": [b"a", b"\xff"]}))


def test_error_columns_keep_the_bytes_of_values_that_do_not_parse() -> None:
    decoder = ValueDecoder(value_format="json", value_schema=SCHEMA, key_format="string", on_error="column")
    found = decoder.decode(RECORDS)
    assert found["value"].to_pylist() == [{"n": 1}, {"n": 2}, None, None]
    assert found["value_bytes"].to_pylist() == [None, None, b"no", None]
    assert [one is not None for one in found["value_error"].to_pylist()] == [False, False, True, False]
    assert found["key"].to_pylist() == ["a", None, None, "d"]
    assert found["key_bytes"].to_pylist() == [None, b"\xff", None, None]
    assert decoder.decode(RECORDS.slice(0, 1)).schema == found.schema


def test_dead_letters_are_removed_from_the_table(tmp_path: Path) -> None:
    file = tmp_path / "dead.jsonl"
    decoder = ValueDecoder(value_format="json", value_schema=SCHEMA, key_format="string", on_error=file)
    assert decoder.decode(RECORDS)["offset"].to_pylist() == [10, 13]
    assert [json.loads(line)["offset"] for line in file.read_text().splitlines()] == [11, 12]
    assert len(decoder.decode(RECORDS.slice(0, 1))) == 1
    assert len(file.read_text().splitlines()) == 2


def test_a_function_gets_the_records_that_do_not_parse() -> None:
    given: list[pa.Table] = []
    decoder = ValueDecoder(value_format="json", value_schema=SCHEMA, key_format="string", on_error=given.append)
    assert decoder.decode(RECORDS)["offset"].to_pylist() == [10, 13]
    (found,) = given
    assert found.drop_columns(["key_error", "value_error"]).equals(RECORDS.slice(1, 2).combine_chunks())
    assert [reason is None for reason in found["key_error"].to_pylist()] == [False, True]
    assert [reason is None for reason in found["value_error"].to_pylist()] == [True, False]
    decoder.decode(RECORDS.slice(0, 1))
    assert len(given) == 1


def test_avro_is_read_by_its_schema_or_the_registrys() -> None:
    with SchemaRegistry() as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            number = client.register_schema("orders-value", Schema('"long"', "AVRO"))
        records = record_table([(b"\x06", struct.pack(">bi", 0, number) + b"\x08")])
        decoder = ValueDecoder(value_format="avro", registry=registry.url, key_format="avro", key_schema='"int"')
        found = decoder.decode(records)
        typed = ValueDecoder(value_format="avro", registry=registry.url, value_schema=pa.float64())
        assert typed.decode(records)["value"].to_pylist() == [4.0]
    assert (found["key"].to_pylist(), found["value"].to_pylist()) == ([3], [4])
    assert registry.url not in repr(decoder)


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())], ids=str)
@pytest.mark.parametrize("chunks", [1, 2])
def test_every_kind_of_binary_column_gives_the_same_values(kind: pa.DataType, chunks: int) -> None:
    avro, json_values = [b"\x02", None, b"\x04", b"\x06"], [b'{"n":1}', b"{", None, b'{"n":2}']
    table = pa.table({"key": pa.array(avro, pa.binary()), "value": pa.array(json_values, pa.binary())})
    decoder = ValueDecoder(key_format="avro", key_schema='"long"', value_format="json", value_schema=SCHEMA, on_error="column")
    others = pa.table(
        {name: pa.chunked_array([table[name].combine_chunks().cast(kind)] * chunks) for name in table.column_names}
    )
    found = decoder.decode(others)
    assert found["key"].to_pylist() == [1, None, 2, 3] * chunks
    assert found["value"].to_pylist() == [{"n": 1}, None, None, {"n": 2}] * chunks
    assert found["value_bytes"].to_pylist() == [None, b"{", None, None] * chunks
    assert found.schema.field("value_bytes").type == pa.binary()


def test_a_column_is_kept_in_the_type_that_is_asked_for() -> None:
    schema = '{"type": "long", "logicalType": "timestamp-millis"}'
    decoder = ValueDecoder(
        value_format="avro",
        value_schema=schema,
        key_format="json",
        on_error="column",
        column_type=lambda _: pa.timestamp("us", "UTC"),
    )
    found = decoder.decode(record_table([(b"1", b"\x02"), (b"2", b"\xfe" + b"\xff" * 8 + b"\x01")]))
    assert found["value"].cast(pa.int64()).to_pylist() == [1000, None]
    assert "out of bounds" in found["value_error"].to_pylist()[1]
    assert found["key"].to_pylist() == [1, 2]  # of an inferred type


def test_inconsistent_options_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'xml' is not one of json, avro, string"):
        ValueDecoder(value_format="xml")
    with pytest.raises(ConfigurationError, match="value_format 'protobuf' is not supported; leave it out to keep the bytes"):
        ValueDecoder(value_format="protobuf")
    with pytest.raises(ConfigurationError, match="key_schema or a registry"):
        ValueDecoder(key_format="avro")
    with pytest.raises(ConfigurationError, match="key_format 'avro' needs a registry"):
        ValueDecoder(key_format="avro", key_schema=pa.int64())
    with pytest.raises(UnsupportedFormatError):
        ValueDecoder(value_format="avro", value_schema="{")
    with pytest.raises(KeyError):
        ValueDecoder(value_format="string").decode(pa.table({"key": [b"a"]}))


def test_a_type_that_json_cannot_have_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"value_schema has a type that JSON cannot have: .*map<string, int64>"):
        ValueDecoder(value_format="json", value_schema=pa.schema([("a", pa.map_(pa.string(), pa.int64()))]))


@pytest.mark.parametrize("kind", [None, "string"])
@pytest.mark.parametrize("column", ["key", "value"])
def test_a_schema_without_a_format_that_has_one_is_refused(column: str, kind: str | None) -> None:
    given: dict[str, object] = {f"{column}_format": kind, f"{column}_schema": SCHEMA}
    with pytest.raises(ConfigurationError, match=f"{column}_schema needs {column}_format json or avro"):
        ValueDecoder(**given)
