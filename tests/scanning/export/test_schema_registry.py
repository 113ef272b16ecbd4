"""Values with schema ids: Confluent's serialiser writes them, a Schema Registry serves the schemas over HTTP."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from kafka_remote_client.errors import ConfigurationError, ExportError, UnreadableRecordError
from kafka_remote_client.scanning.export import schema_registry
from kafka_remote_client.scanning.export.schema_registry import ExportRegistry, registry_of
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.scanning.export.test_spark_tasks import Session
from tests.support.counted_files import counted_files
from tests.support.schema_registry import SchemaRegistry
from tests.support.valued_tier import TOPIC, write_records

FIRST = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]})
SECOND = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "n", "type": "long"}, {"name": "note", "type": "string", "default": ""}],
    }
)
THIRD = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "note", "type": "string"}]})
COUNT = 60
EXPECTED = [{"n": n, "note": None if n < 40 else f"x{n}"} for n in range(COUNT)]


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    schema_registry._client.cache_clear()
    with SchemaRegistry() as made:
        yield made


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        yield made


def written(client: SchemaRegistryClient, schema: str, value: Any) -> bytes:
    data = AvroSerializer(client, schema)(value, SerializationContext(TOPIC, MessageField.VALUE))
    assert isinstance(data, bytes)
    return data


@pytest.fixture
def orders(client: SchemaRegistryClient, tmp_path: Path) -> TableScan:
    """40 values of the first schema, then 20 of the second one."""
    records = [(b"k", written(client, FIRST, {"n": n})) for n in range(40)]
    records += [(b"k", written(client, SECOND, {"n": n, "note": f"x{n}"})) for n in range(40, COUNT)]
    table = scan(write_records(tmp_path / "tier", records), TOPIC, threads=1)
    return attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=500))


def values(found: pa.Table) -> list[Any]:
    return found.sort_by("offset")["value"].to_pylist()


def parquet(folder: Path) -> list[Any]:
    return values(ds.dataset(folder, format="parquet").to_table())


@pytest.mark.parametrize("spark", [False, True])
def test_a_column_has_the_newest_schema_of_the_topic(
    orders: TableScan, registry: SchemaRegistry, tmp_path: Path, spark: bool
) -> None:
    session = Session() if spark else None
    result = orders.to_parquet(tmp_path / "table", value_format="avro", registry=registry.url, spark=session)
    assert result.splits > 1
    assert parquet(tmp_path / "table") == EXPECTED
    assert registry.requests.count("GET /subjects/orders-value/versions/latest") == 1
    assert registry.requests.count("GET /schemas/ids/1") == 1  # one client for all splits


def test_a_later_job_of_a_process_gets_the_newest_schema(
    orders: TableScan, registry: SchemaRegistry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    orders.to_parquet(tmp_path / "before", value_format="avro", registry=registry.url)
    newest = client.register_schema(f"{TOPIC}-value", Schema(THIRD, "AVRO"))
    orders.to_parquet(tmp_path / "after", value_format="avro", registry=registry.url)
    types = [ds.dataset(tmp_path / name, format="parquet").schema.field("value").type for name in ("before", "after")]
    asked = ExportRegistry({"url": registry.url})
    assert types == [asked.type_of(2), asked.type_of(newest)]
    assert types[0] != types[1]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_tables_keep_their_schema_when_the_registry_has_a_newer_one(
    orders: TableScan, registry: SchemaRegistry, client: SchemaRegistryClient, tmp_path: Path, kind: str
) -> None:
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())

    def full(operation: str, path: str) -> None:
        if operation == "write" and "orders-7-30" in path:
            raise OSError(28, "No space left on device")

    def write(**more: Any) -> Any:
        typed = {"value_format": "avro", "registry": {"schema.registry.url": registry.url}, **more}
        if kind == "iceberg":
            return orders.to_iceberg(catalog, "kafka.orders", **typed)
        return orders.to_delta(tmp_path / "delta", **typed)

    try:
        with pytest.raises(ExportError, match="No space left on device"):
            write(filesystem=counted_files(full))
        client.register_schema(f"{TOPIC}-value", Schema(THIRD, "AVRO"))
        assert write().resumed > 0
        found = (
            catalog.load_table("kafka.orders").scan().to_arrow()
            if kind == "iceberg"
            else pa.table(DeltaTable(tmp_path / "delta").to_pyarrow_table())
        )
        assert values(found) == EXPECTED
        with pytest.raises(ConfigurationError):
            write(value_schema=3)
    finally:
        catalog.close()


def test_the_schema_can_be_given_by_id_or_text(orders: TableScan, registry: SchemaRegistry, tmp_path: Path) -> None:
    typed: dict[str, Any] = {"value_format": "avro", "registry": registry.url}
    orders.to_parquet(tmp_path / "id", **typed, value_schema=2)
    assert parquet(tmp_path / "id") == EXPECTED
    orders.to_parquet(tmp_path / "given", **typed, value_schema=THIRD)
    assert parquet(tmp_path / "given") == [{"note": one["note"]} for one in EXPECTED]
    with pytest.raises(ConfigurationError, match="value_schema was 2"):
        orders.to_parquet(tmp_path / "id", **typed, value_schema=THIRD)


def test_values_outside_the_column_type_do_not_parse(orders: TableScan, registry: SchemaRegistry, tmp_path: Path) -> None:
    typed: dict[str, Any] = {"value_format": "avro", "registry": registry.url, "value_schema": 1}  # the column n is an int
    with pytest.raises(UnreadableRecordError, match="offset 40 does not parse: schema 2 has the type"):
        orders.to_parquet(tmp_path / "raise", **typed)
    result = orders.to_parquet(tmp_path / "apart", **typed, on_error="dead_letters")
    assert parquet(tmp_path / "apart") == [{"n": n} for n in range(40)]
    assert result.unreadable == COUNT - 40


def test_keys_can_name_a_registry_schema(client: SchemaRegistryClient, registry: SchemaRegistry, tmp_path: Path) -> None:
    serialize = AvroSerializer(client, '"string"')
    keys = [serialize(f"k{n}", SerializationContext(TOPIC, MessageField.KEY)) for n in range(10)]
    table = scan(write_records(tmp_path / "tier", [(key, b"{}") for key in keys]), TOPIC)
    json_too = {"value_format": "json", "value_schema": pa.schema([("n", pa.int64())])}
    table.to_parquet(tmp_path / "table", key_format="avro", registry=registry.url, **json_too)
    found = ds.dataset(tmp_path / "table", format="parquet").to_table().sort_by("offset")
    assert found["key"].to_pylist() == [f"k{n}" for n in range(10)]
    assert found["value"].to_pylist() == [{"n": None}] * 10


def test_an_unreachable_registry_ends_the_export(orders: TableScan, registry: SchemaRegistry, tmp_path: Path) -> None:
    settings = {"url": registry.url, "max.retries": 0}
    registry.forbidden = True
    with pytest.raises(
        ExportError, match=r"cannot get the newest schema of orders-value from the Schema Registry http.*not now"
    ):
        orders.to_parquet(tmp_path / "table", value_format="avro", registry=settings)
    with pytest.raises(ExportError, match="cannot get schema 2"):
        orders.to_parquet(tmp_path / "table", value_format="avro", registry=settings, value_schema=2)
    with pytest.raises(ExportError, match="cannot get schema 1"):
        orders.to_parquet(tmp_path / "given", value_format="avro", registry=settings, value_schema=THIRD, on_error="column")
    registry.forbidden = False
    orders.to_parquet(tmp_path / "given", value_format="avro", registry=settings, value_schema=THIRD, on_error="column")
    assert len(parquet(tmp_path / "given")) == COUNT


def test_an_invalid_schema_is_refused(orders: TableScan, registry: SchemaRegistry, client: Any, tmp_path: Path) -> None:
    typed: dict[str, Any] = {"value_format": "avro", "registry": registry.url}
    with pytest.raises(ConfigurationError, match="has no schema 99"):
        orders.to_parquet(tmp_path / "table", **typed, value_schema=99)
    with pytest.raises(ConfigurationError, match="not an id or an Avro schema"):
        orders.to_parquet(tmp_path / "table", **typed, value_schema="{")
    number = client.register_schema("other", Schema('{"type": "object"}', "JSON"))
    with pytest.raises(ConfigurationError, match="is JSON, not AVRO"):
        orders.to_parquet(tmp_path / "table", **typed, value_schema=number)
    with pytest.raises(ConfigurationError, match="has no subject orders-key; give the schema or its id"):
        orders.to_parquet(tmp_path / "table", key_format="avro", registry=registry.url)
    several = attrs.evolve(orders, scan=attrs.evolve(orders.scan, topics=("orders", "more")))
    with pytest.raises(ConfigurationError, match="an export of several topics needs value_schema"):
        several.to_parquet(tmp_path / "table", **typed)
    with pytest.raises(ConfigurationError, match="a registry needs value_format or key_format avro"):
        orders.to_parquet(tmp_path / "table", value_format="string", registry=registry.url)


def test_schemas_can_reference_other_schemas(client: SchemaRegistryClient, registry: SchemaRegistry) -> None:
    inner = {"type": "record", "name": "a.Inner", "fields": [{"name": "n", "type": "int"}]}
    outer = {"type": "record", "name": "a.Outer", "fields": [{"name": "inner", "type": "a.Inner"}]}
    client.register_schema("inner", Schema(json.dumps(inner), "AVRO"))
    number = client.register_schema("outer", Schema(json.dumps(outer), "AVRO", [SchemaReference("a.Inner", "inner", 1)]))
    found = ExportRegistry({"url": registry.url}).type_of(number)
    assert found == pa.struct([("inner", pa.struct([("n", pa.int32())]))])


def test_settings_are_validated_and_redacted() -> None:
    made = registry_of({"schema.registry.url": "http://registry", "basic.auth.user.info": "u:canary"})
    assert made is not None
    assert made.settings == {"url": "http://registry", "basic.auth.user.info": "u:canary"}
    assert "canary" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
    assert registry_of(made) is made
    assert registry_of(None) is None
    with pytest.raises(ConfigurationError, match=r"needs schema\.registry\.url"):
        registry_of({})
    with pytest.raises(ConfigurationError, match="holds a password") as raised:
        registry_of("http://u:canary@registry")
    assert "canary" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="invalid settings of the Schema Registry"):
        ExportRegistry({"url": "http://registry", "no.such.setting": 1}).get_schema(1)
