"""Keys and values of an export as typed columns."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_remote_client.errors import ConfigurationError, UnreadableRecordError
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.scanning.export.typed_columns import TypedColumns
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.artifacts import ROOT
from tests.support.scanned import expected_rows

SCHEMA = pa.schema([("n", pa.int64())])
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'


def batch(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    columns = [pa.array([b"k%d" % n for n in range(count)]), pa.array(values, pa.binary()), pa.array(range(count), pa.int64())]
    return pa.record_batch(columns, schema=schema_of(("key", "value", "offset")))


def decoded(typed: TypedColumns, *batches: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches(list(typed.of((one for one in batches), batches[0].schema.names, print)))


def test_records_are_unchanged_without_a_format() -> None:
    typed = TypedColumns()
    assert decoded(typed, batch(b"x", None)) == pa.Table.from_batches([batch(b"x", None)])
    assert (typed.decoded, typed.options) == ((), {})
    typed.check(["offset"])


@pytest.mark.parametrize(
    ("arguments", "values", "expected"),
    [
        ({"value_format": "json", "value_schema": SCHEMA}, [b'{"n": 5}', None], [{"n": 5}, None]),
        ({"value_format": "avro", "value_schema": AVRO}, [b"\x0a", b"\x02"], [{"n": 5}, {"n": 1}]),
        ({"value_format": "string"}, [b"x", None], ["x", None]),
    ],
)
def test_values_get_the_type_of_the_schema(arguments: dict[str, Any], values: list[bytes | None], expected: list[Any]) -> None:
    typed = pickle.loads(pickle.dumps(TypedColumns(**arguments, key_format="string")))
    table = decoded(typed, batch(*values), batch(*values))
    assert table["value"].to_pylist() == expected * 2
    assert table["key"].to_pylist() == ["k0", "k1"] * 2
    assert table["offset"].to_pylist() == [0, 1] * 2
    assert typed.decoded == ("value", "key")


def test_large_batches_are_decoded_in_parts() -> None:
    values = [b'{"n": %d, "more": "%s"}' % (number, b"x" * 1000) for number in range(3000)]
    table = decoded(TypedColumns(value_format="json", value_schema=SCHEMA), batch(*values))
    assert table["value"].num_chunks > 1
    assert table["value"].to_pylist() == [{"n": number} for number in range(3000)]
    assert table["offset"].to_pylist() == list(range(3000))


def test_an_unparsable_value_raises_or_keeps_its_bytes_and_error() -> None:
    typed: dict[str, Any] = {"value_format": "json", "value_schema": SCHEMA}
    with pytest.raises(UnreadableRecordError) as raised:
        decoded(TypedColumns(**typed), batch(b"{}"), batch(b'{"n": 1}', b"{"))
    assert raised.value.offset == 1
    table = decoded(TypedColumns(**typed, on_error="column"), batch(b'{"n": 1}', b"{"), batch(b'{"n": 2}'))
    assert table["value"].to_pylist() == [{"n": 1}, None, {"n": 2}]
    assert table["value_bytes"].to_pylist() == [None, b"{", None]
    assert [reason is None for reason in table["value_error"].to_pylist()] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value_format": "json"}, "value_format 'json' of an export needs value_schema"),
        ({"key_format": "avro"}, "key_format 'avro' of an export needs key_schema"),
        ({"value_format": "xml"}, "value_format 'xml' is not one of"),
        ({"value_format": "string", "on_error": "letters.json"}, "on_error of an export must be raise, column or dead_letters"),
    ],
)
def test_invalid_format_options_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        TypedColumns(**arguments)


def test_a_column_that_is_not_selected_cannot_be_decoded() -> None:
    with pytest.raises(ConfigurationError, match="value_format needs the column value"):
        TypedColumns(value_format="string").schema(["key"])


def test_the_schema_has_the_columns_of_the_table() -> None:
    typed = TypedColumns(value_format="json", value_schema=SCHEMA, on_error="column")
    found = typed.schema(["offset", "value"])
    assert found.names == ["offset", "value", "value_error", "value_bytes"]
    assert found.field("value").type == pa.struct([("n", pa.int64())])
    assert TypedColumns().schema(["key", "offset"]) == schema_of(["key", "offset"])


@pytest.mark.parametrize("data", [b"{}", b'{"n": null}'])
def test_a_value_without_a_required_field_does_not_parse(data: bytes, tmp_path: Path) -> None:
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    typed: dict[str, Any] = {"value_format": "json", "value_schema": strict}
    with pytest.raises(UnreadableRecordError, match="required field"):
        decoded(TypedColumns(**typed), batch(data))
    pq.write_table(decoded(TypedColumns(**typed, on_error="column"), batch(data, b'{"n": 1}')), tmp_path / "file")
    assert pq.read_table(tmp_path / "file")["value"].to_pylist() == [None, {"n": 1}]


def test_files_have_typed_columns_and_the_job_remembers_them(orders: TableScan, tmp_path: Path) -> None:
    table = scan(orders.address.store_url, "logappend", columns=["offset", "key"], threads=2)
    result = table.to_parquet(tmp_path, key_format="string")
    found = pq.read_table(tmp_path).sort_by("offset")
    rows = expected_rows("logappend", 0, "read_committed")[: result.rows]
    assert found["key"].to_pylist() == [None if row["key"] is None else row["key"].decode() for row in rows]
    assert found.schema.field("key").type == pa.string()
    with pytest.raises(ConfigurationError, match="key_format was string"):
        table.to_parquet(tmp_path)
    with pytest.raises(ConfigurationError, match="value_format needs the column value"):
        table.to_parquet(tmp_path / "other", value_format="string")


def test_an_export_with_unparsable_values_publishes_nothing(orders: TableScan, tmp_path: Path) -> None:
    table = scan(orders.address.store_url, "epochs", threads=2)
    with pytest.raises(UnreadableRecordError) as raised:
        table.to_parquet(tmp_path, value_format="json", value_schema=SCHEMA)
    assert (raised.value.topic, raised.value.offset is not None) == ("epochs", True)
    assert list(tmp_path.glob("*.parquet")) == []


def test_typed_columns_are_made_without_pandas() -> None:
    """``pyarrow.array`` and ``pyarrow.scalar`` import it, which takes longer than a small export."""
    code = "import sys, pyarrow as pa; from kafka_remote_client.records import read_batches\n"
    code += "from kafka_remote_client.scanning.export.typed_columns import TypedColumns\n"
    code += "from tests.support.batches import Rec, batch\n"
    code += "typed = TypedColumns(value_format='json', value_schema=pa.schema([('n', pa.int64())]))\n"
    code += "records = read_batches(batch(0, [Rec(0, None, b'{\"n\": 7}')])).to_arrow('t', 0)\n"
    code += "found = list(typed.of((one for one in [records]), ('value',), print))\n"
    code += "print(found[0].to_pylist(), 'pandas' in sys.modules)"
    told = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert told == "[{'value': {'n': 7}}] False\n"
