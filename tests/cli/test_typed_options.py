"""Typed columns from the command line: schemas in files, and a Schema Registry."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from deltalake import DeltaTable

from kafka_remote_client.cli.main import run
from tests.support.schema_registry import SchemaRegistry
from tests.support.valued_tier import TOPIC, write_records


def exported(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as stopped:
        run(["export", *arguments])
    told = capsys.readouterr()
    assert stopped.value.code == status, told.err
    return told.out, told.err


def test_values_are_typed_by_the_schema_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = write_records(tmp_path / "tier", [(b"k%d" % n, b'{"n": %d}' % n if n != 7 else b"{") for n in range(20)])
    schema = tmp_path / "order.avsc"
    schema.write_text('{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}')
    typed = ["--value-format", "json", "--value-schema", str(schema), "--key-format", "string"]
    arguments = [TOPIC, "--store", store, "--format", "delta", "--target", str(tmp_path / "table"), *typed]
    _, err = exported(capsys, *arguments, status=1)
    assert "the value of orders-7 at offset 7 does not parse" in err
    _, err = exported(capsys, *arguments, "--on-error", "column", status=2)
    assert "has columns that differ from the scan's" in err
    arguments[5:7] = ["--target", str(tmp_path / "other")]
    exported(capsys, *arguments, "--on-error", "column")
    arguments[6] = str(tmp_path / "third")
    out, _ = exported(capsys, *arguments, "--on-error", "dead_letters")
    assert out.endswith("1 records do not parse; they are in _dead_letters/export\n")
    found = pa.table(DeltaTable(tmp_path / "other").to_pyarrow_table()).sort_by("offset")
    assert found["value"].to_pylist() == [{"n": n} if n != 7 else None for n in range(20)]
    assert found["key"].to_pylist() == [f"k{n}" for n in range(20)]
    assert found["value_bytes"].to_pylist()[7] == b"{"


def test_values_are_typed_by_a_schema_registry(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with SchemaRegistry() as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            number = client.register_schema(f"{TOPIC}-value", Schema('"long"', "AVRO"))
        store = write_records(tmp_path / "tier", [(None, struct.pack(">bi", 0, number) + bytes([2 * n])) for n in range(20)])
        settings = ["--schema-registry", f"schema.registry.url={registry.url}"]
        arguments = [TOPIC, "--store", store, "--target", str(tmp_path / "table"), "--value-format", "avro", *settings]
        exported(capsys, *arguments)
        found = ds.dataset(tmp_path / "table", format="parquet").to_table().sort_by("offset")
        assert found["value"].to_pylist() == list(range(20))
        _, err = exported(capsys, *arguments, "--schema-registry", "basic.auth.user.info=u:canary", status=2)
        assert "basic.auth.user.info is a secret" in err
        assert "canary" not in err
    _, err = exported(capsys, *arguments, "--job", "later", "--schema-registry", "max.retries=0", status=2)
    assert "max.retries" in err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--value-schema", "s.avsc"], "--value-schema needs --value-format json or avro"),
        (["--key-format", "string", "--key-schema", "s.avsc"], "--key-schema needs --key-format json or avro"),
        (["--value-format", "avro", "--value-schema", "s.avsc"], "s.avsc cannot be read: No such file"),
        (["--value-format", "avro", "--value-schema", "wrong.avsc"], "wrong.avsc is not a valid Avro schema"),
        (["--value-format", "avro"], "value_format 'avro' of an export needs value_schema"),
    ],
)
def test_a_schema_that_is_none_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.avsc").write_text('{"type": "record"}')
    _, err = exported(capsys, TOPIC, "--store", "file:///nowhere", "--target", "table", *options, status=2)
    assert told in err
