"""Tables with typed keys and values, read by each format's own library; fastavro and json wrote the values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import attrs
import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from kafka_remote_client.errors import ConfigurationError, UnreadableRecordError
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.scanning.export.test_spark_tasks import Session
from tests.support.valued_tier import TOPIC, write_records

Ways = tuple[Callable[..., Any], Callable[[], pa.Table]]
COUNT = 120
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {
            "name": "buyer",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Buyer",
                    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}],
                },
            ],
        },
    ],
}


def order(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "at": BEGIN + timedelta(hours=n),
        "price": Decimal(n) / 100,
        "tags": [f"t{one}" for one in range(n % 3)],
        "counts": {"a": n, "b": -n} if n % 2 else {},
        "buyer": {"id": n, "name": f"ä{n}"} if n % 5 else None,
    }


def avro(value: dict[str, Any]) -> bytes:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(SCHEMA), value)
    return data.getvalue()


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> TableScan:
    """Avro values and text keys; every seventh value is null."""
    records = [(b"k%d" % n, None if n % 7 == 6 else avro(order(n))) for n in range(COUNT)]
    table = scan(write_records(tmp_path_factory.mktemp("avro"), records), TOPIC, threads=2)
    return attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=1000))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    yield found
    found.close()


@pytest.fixture(params=["parquet", "iceberg", "delta"])
def tables(request: pytest.FixtureRequest, catalog: Catalog, tmp_path: Path) -> Ways:
    """Functions that write a table of a format, and read it with the format's own library."""
    folder = tmp_path / "table"
    if request.param == "parquet":
        return lambda table, **typed: table.to_parquet(folder, **typed), lambda: ds.dataset(folder, format="parquet").to_table()
    if request.param == "delta":
        return lambda table, **typed: table.to_delta(folder, **typed), lambda: pa.table(DeltaTable(folder).to_pyarrow_table())
    return (
        lambda table, **typed: table.to_iceberg(catalog, "kafka.orders", **typed),
        lambda: catalog.load_table("kafka.orders").scan().to_arrow(),
    )


def rows(found: pa.Table) -> list[dict[str, Any]]:
    """Rows by offset; maps as dictionaries."""
    listed = found.sort_by("offset").to_pylist()
    for row in listed:
        if row["value"] is not None:
            row["value"]["counts"] = dict(row["value"]["counts"])
    return listed


@pytest.mark.parametrize("spark", [False, True])
def test_readers_get_the_written_values(orders: TableScan, tables: Any, spark: bool) -> None:
    write, read = tables
    typed = {"value_format": "avro", "value_schema": json.dumps(SCHEMA), "key_format": "string"}
    result = write(orders, **typed, spark=Session() if spark else None)
    found = read()
    assert result.splits > 1
    assert [(row["key"], row["value"]) for row in rows(found)] == [
        (f"k{n}", None if n % 7 == 6 else order(n)) for n in range(COUNT)
    ]
    assert pa.types.is_timestamp(found.schema.field("value").type.field("at").type)
    assert write(orders, **typed).files == result.files
    assert len(read()) == COUNT
    with pytest.raises(ConfigurationError):
        write(orders)


def test_iceberg_filters_by_typed_values_and_prunes(orders: TableScan, catalog: Catalog, tmp_path: Path) -> None:
    late = f"'{(BEGIN + timedelta(hours=100)).isoformat()}'"
    orders.to_iceberg(catalog, "kafka.orders", value_format="avro", value_schema=json.dumps(SCHEMA))
    found = catalog.load_table("kafka.orders").scan(row_filter=f"value.at >= {late}").to_arrow()["value"].to_pylist()
    assert sorted(value["n"] for value in found) == [n for n in range(100, COUNT) if n % 7 != 6]
    data = [BytesIO() for _ in range(COUNT)]
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    for n, one in enumerate(data):
        fastavro.schemaless_writer(one, kind, BEGIN + timedelta(hours=n))
    table = scan(write_records(tmp_path / "times", [(None, one.getvalue()) for one in data]), TOPIC)
    table = attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=500))
    result = table.to_iceberg(catalog, "kafka.times", value_format="avro", value_schema=json.dumps(kind))
    filtered = catalog.load_table("kafka.times").scan(row_filter=f"value >= {late}")
    assert 0 < len(list(filtered.plan_files())) < len(result.files)
    assert sorted(filtered.to_arrow()["offset"].to_pylist()) == list(range(100, COUNT))


def test_error_columns_are_columns_of_the_table(tables: Any, tmp_path: Path) -> None:
    records = [(b"k", b"{" if n == 40 else b'{"n": %d}' % n) for n in range(60)]
    table = scan(write_records(tmp_path / "tier", records), TOPIC, columns=["offset", "value"])
    write, read = tables
    write(table, value_format="json", value_schema=pa.schema([("n", pa.int64())]), on_error="column")
    found = read().sort_by("offset")
    assert found["value"].to_pylist() == [None if n == 40 else {"n": n} for n in range(60)]
    assert [row["offset"] for row in found.to_pylist() if row["value_error"]] == [40]
    assert found["value_bytes"].to_pylist()[40] == b"{"


def test_a_timestamp_the_table_cannot_hold_does_not_parse(tables: Any, tmp_path: Path, request: Any) -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    data = BytesIO()
    fastavro.schemaless_writer(data, {"type": "long"}, 1 << 61)
    records = [(b"k", data.getvalue() if n == 33 else b"\x02") for n in range(40)]
    table = scan(write_records(tmp_path / "tier", records), TOPIC)
    write, read = tables
    typed = {"value_format": "avro", "value_schema": json.dumps(schema)}
    if "parquet" in request.node.name:
        write(table, **typed)
        assert read().sort_by("offset")["value"].cast(pa.int64()).to_pylist()[33] == 1 << 61
        return
    with pytest.raises(UnreadableRecordError, match="orders-7 at offset 33 does not parse: Casting from timestamp"):
        write(table, **typed)


def test_unsupported_types_are_refused_before_reading(orders: TableScan, catalog: Catalog, tmp_path: Path) -> None:
    nanos = json.dumps({"type": "long", "logicalType": "timestamp-nanos"})
    with pytest.raises(ConfigurationError, match="a table of format iceberg cannot have values of type timestamp"):
        orders.to_iceberg(catalog, "kafka.orders", value_format="avro", value_schema=nanos)
    with pytest.raises(ConfigurationError, match="a table of format delta cannot have values of type timestamp"):
        orders.to_delta(tmp_path / "delta", value_format="avro", value_schema=nanos)
    with pytest.raises(ConfigurationError, match="JSON cannot have"):
        orders.to_parquet(tmp_path / "json", value_format="json", value_schema=pa.map_(pa.string(), pa.int64()))
    with pytest.raises(ConfigurationError, match="value_format needs the column value"):
        orders.select("offset").to_delta(tmp_path / "delta", value_format="string")
    assert not catalog.table_exists("kafka.orders")
    assert not (tmp_path / "delta").exists()
