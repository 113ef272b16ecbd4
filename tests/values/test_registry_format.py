"""Columns whose values begin with a schema id, with a Schema Registry that answers by HTTP."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_remote_client.values.registry_format import RegistryFormat, promotes, registry_client, widened
from tests.support.schema_registry import SchemaRegistry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        yield made


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        yield made


def record(*fields: tuple[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in fields]})


def written(client: SchemaRegistryClient, schema: str, value: Any) -> bytes:
    """Encodes a value as Confluent's serializer does."""
    serialize = AvroSerializer(client, schema)
    data = serialize(value, SerializationContext("orders", MessageField.VALUE))
    assert isinstance(data, bytes)
    return data


def test_values_of_several_schemas_share_one_column(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    first, second = record(("n", "int")), record(("t", "string"), ("n", "long"))
    values = [
        written(client, first, {"n": 1}),
        written(client, second, {"n": 2**40, "t": "a"}),
        None,
        written(client, first, {"n": 3}),
    ]
    reader = RegistryFormat(registry_client(registry.url))
    registry.requests.clear()
    for _ in range(2):
        found = reader.decode(pa.array(values, pa.binary()))
        assert not found.errors
        assert found.values.type == pa.struct([("n", pa.int64()), ("t", pa.string())])
        assert found.values.to_pylist() == [{"n": 1, "t": None}, {"n": 2**40, "t": "a"}, None, {"n": 3, "t": None}]
    assert registry.requests == ["GET /schemas/ids/1", "GET /schemas/ids/2"]


def test_a_wrong_header_and_an_unknown_schema_are_errors(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    good = written(client, record(("n", "int")), {"n": 1})
    other = client.register_schema("other", Schema('{"type": "object"}', "JSON"))
    union = client.register_schema("union", Schema('["int", "string"]', "AVRO"))
    values = [
        good,
        b"",
        b"\x00\x00\x00",
        b"\x01" + good[1:],
        struct.pack(">bi", 0, 999),
        struct.pack(">bi", 0, other),
        good[:5],
        struct.pack(">bi", 0, union) + b"\x00\x02",
    ]
    found = RegistryFormat(client).decode(pa.array(values, pa.binary()))
    assert found.values.to_pylist() == [{"n": 1}, *[None] * 7]
    said = {1: "too short", 2: "too short", 3: "begins with byte 1", 4: "no schema 999", 5: "JSON, not AVRO", 7: "union"}
    for row, text in said.items():
        assert text in found.errors[row]
    assert found.errors.keys() == set(range(1, 8))


def test_a_column_without_any_value_has_no_type(client: SchemaRegistryClient) -> None:
    found = RegistryFormat(client).decode(pa.array([None, None], pa.binary()))
    assert (found.values.to_pylist(), found.errors) == ([None, None], {})


def test_a_registry_without_an_answer_is_not_a_bad_value(registry: SchemaRegistry) -> None:
    registry.forbidden = True
    reader = RegistryFormat(registry_client({"url": registry.url, "max.retries": 0}))
    column = pa.array([struct.pack(">bi", 0, 1) + b"\x02"], pa.binary())
    with pytest.raises(SchemaRegistryError):
        reader.decode(column)
    registry.forbidden = False
    with SchemaRegistryClient({"url": registry.url}) as client:
        client.register_schema("numbers", Schema('"int"', "AVRO"))
    assert reader.decode(column).values.to_pylist() == [1]


def test_schemas_that_a_schema_references_are_requested(client: SchemaRegistryClient) -> None:
    inner = json.dumps({"type": "record", "name": "a.Inner", "fields": [{"name": "n", "type": "int"}]})
    middle = json.dumps({"type": "record", "name": "a.Middle", "fields": [{"name": "inner", "type": "a.Inner"}]})
    outer = json.dumps({"type": "record", "name": "a.Outer", "fields": [{"name": "middle", "type": "a.Middle"}]})
    client.register_schema("inner", Schema(inner, "AVRO"))
    client.register_schema("middle", Schema(middle, "AVRO", [SchemaReference("a.Inner", "inner", 1)]))
    number = client.register_schema("outer", Schema(outer, "AVRO", [SchemaReference("a.Middle", "middle", 1)]))
    data = BytesIO()
    fastavro.schemaless_writer(data, json.loads(inner), {"n": 7})
    found = RegistryFormat(client).decode(pa.array([struct.pack(">bi", 0, number) + data.getvalue()], pa.binary()))
    assert found.values.to_pylist() == [{"middle": {"inner": {"n": 7}}}]


def test_a_given_client_is_used_and_time_outs_are_set(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    assert registry_client(client) is client
    made: Any = registry_client({"url": registry.url})
    assert made._rest_client.max_retries == 2
    assert made._rest_client.timeout == 10


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_a_column_of_a_given_type_has_its_fields_alone(client: SchemaRegistryClient, kind: pa.DataType) -> None:
    column = pa.struct([("n", kind), ("u", pa.string())])
    values = [
        written(client, record(("n", "int")), {"n": 1}),
        written(client, record(("t", "string"), ("n", "long")), {"n": 2, "t": "a"}),
        written(client, record(("n", "string")), {"n": "3"}),
        None,
    ]
    found = RegistryFormat(client, column).decode(pa.array(values, pa.binary()))
    assert found.values.type == column
    assert found.values.to_pylist() == [{"n": 1, "u": None}, {"n": 2, "u": None}, None, None]
    assert set(found.errors) == {2}
    assert "schema 3 has the type struct<n: string>, which does not become the column's" in found.errors[2]
    assert RegistryFormat(client, column).decode(pa.array([None], pa.binary())).values.type == column


def test_a_value_that_does_not_fit_is_the_only_one_that_does_not_parse(client: SchemaRegistryClient) -> None:
    values = [written(client, '"long"', number) for number in (1, (1 << 53) + 1, 3)]
    found = RegistryFormat(client, pa.float64()).decode(pa.array(values, pa.binary()))
    assert found.values.to_pylist() == [1.0, None, 3.0]
    assert set(found.errors) == {1}


@pytest.mark.parametrize(
    ("given", "kind", "promoted"),
    [
        (pa.int32(), pa.float32(), True),
        (pa.int64(), pa.int32(), False),
        (pa.float64(), pa.int64(), False),
        (pa.null(), pa.string(), True),
        (pa.string(), pa.binary(), True),
        (pa.string(), pa.int64(), False),
        (pa.binary(4), pa.binary(), True),
        (pa.bool_(), pa.int32(), False),
        (pa.time32("ms"), pa.time64("us"), True),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), True),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us"), False),
        (pa.timestamp("ms", "UTC"), pa.int64(), False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True),
        (pa.list_(pa.int32()), pa.int64(), False),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), False),
        (pa.struct([("a", pa.string())]), pa.struct([("b", pa.int64())]), True),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.int64())]), False),
        (pa.struct([("a", pa.string())]), pa.string(), False),
    ],
)
def test_types_are_promoted_as_avro_does_it(given: pa.DataType, kind: pa.DataType, promoted: bool) -> None:
    assert promotes(given, kind) is promoted
    if promoted:
        assert widened(pa.nulls(2, given), kind).type == kind


def test_missing_fields_are_null_at_any_depth() -> None:
    narrow = pa.array([{"a": {"x": 1}}, None, {"a": None}])
    wide = pa.struct([("b", pa.string()), ("a", pa.struct([("y", pa.int64()), ("x", pa.float64())]))])
    assert widened(narrow, wide).to_pylist() == [{"b": None, "a": {"y": None, "x": 1.0}}, None, {"b": None, "a": None}]


def test_column_of_one_unreadable_schema_is_null(registry: SchemaRegistry) -> None:
    reader = RegistryFormat(registry_client(registry.url), pa.int64())
    found = reader.decode(pa.array([struct.pack(">bi", 0, 99) + b"1", struct.pack(">bi", 0, 99)], pa.binary()))
    assert found.values == pa.nulls(2, pa.int64())
    assert dict(found.errors) == dict.fromkeys((0, 1), "the registry has no schema 99")


def test_one_schema_names_the_value_that_does_not_parse(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    schema = record(("n", "long"))
    good, other = written(client, schema, {"n": 1}), written(client, schema, {"n": 2})
    found = RegistryFormat(registry_client(registry.url)).decode(pa.array([good, good[:5], other], pa.binary()))
    assert list(found.errors) == [1]
    assert found.values.to_pylist() == [{"n": 1}, None, {"n": 2}]
