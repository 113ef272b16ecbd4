"""The Arrow types of Avro schemas, and the schemas that are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.values.avro_types import avro_type


def record(kind: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "f", "type": kind}]}


@pytest.mark.parametrize(
    ("schema", "arrow"),
    [
        ("string", pa.string()),
        ({"type": "string"}, pa.string()),
        ({"type": {"type": "long"}}, pa.int64()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("ns", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, pa.decimal256(40, 0)),
        ({"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary(3)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "array", "items": "int"}, pa.list_(pa.int32())),
        ({"type": "map", "values": ["null", "double"]}, pa.map_(pa.string(), pa.float64())),
        (["int", "null"], pa.int32()),
        (["int"], pa.int32()),
        (record({"type": "record", "name": "I", "fields": []}), pa.struct([("f", pa.struct([]))])),
    ],
)
def test_each_avro_type_has_its_arrow_type(schema: Any, arrow: pa.DataType) -> None:
    assert avro_type(schema).arrow == arrow


def test_a_name_is_declared_once_and_referred_to_by_its_full_name() -> None:
    inner = {"type": "enum", "name": "E", "symbols": ["A"]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "E"}, {"name": "c", "type": ["null", "x.y.E"]}]
    made = avro_type({"type": "record", "name": "R", "namespace": "x.y", "fields": fields})
    assert [field["type"] for field in made.schema["fields"]] == [{**inner, "name": "x.y.E"}, "x.y.E", ["null", "x.y.E"]]


def test_a_reference_is_declared_where_it_is_first_used() -> None:
    made = avro_type(record("a.B"), [record("int", "a.A"), record("A", "a.B")])
    assert made.arrow == pa.struct([("f", pa.struct([("f", pa.struct([("f", pa.int32())]))]))])
    assert made.schema["fields"][0]["type"]["fields"][0]["type"]["name"] == "a.A"


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (["null", "int", "string"], "union"),
        ("null union", "unknown"),
        (record(["null", "R"]), "contains itself"),
        ({"type": "array", "items": "null"}, "no bytes"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, "no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "no bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 77}, "precision 77"),
        ({}, "unknown Avro type"),
        (5, "unknown Avro type"),
    ],
)
def test_types_that_arrow_cannot_represent_are_refused(schema: Any, says: str) -> None:
    with pytest.raises((UnsupportedFormatError, ValueError), match=says):
        avro_type(schema)
