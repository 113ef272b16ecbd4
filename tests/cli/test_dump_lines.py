"""``kafka-remote dump``: records by time and count, as text, and keys and values in a format."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from kafka_remote_client.cli.dump_lines import DumpOnError, LineFormat, line_format
from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.typed_options import ColumnFormat
from kafka_remote_client.errors import MissingExtraError
from tests.support.golden import golden_local, read_jsonl
from tests.support.schema_registry import SchemaRegistry
from tests.support.tier import TIP
from tests.support.valued_tier import TOPIC, write_records

_TOPIC = "logappend"


def dumped(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as stopped:
        run(["dump", *arguments])
    told = capsys.readouterr()
    assert stopped.value.code == status, told.err
    return told.out, told.err


def of_golden(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    out, _ = dumped(capsys, "--store", (golden_local() / "remote").as_uri(), *arguments)
    return [json.loads(line) for line in out.splitlines()]


def times() -> list[tuple[int, int]]:
    """Offset and time of each record of the golden topic, as a real consumer read them."""
    path = golden_local() / "expected" / f"{_TOPIC}-0.read_uncommitted.jsonl.gz"
    return [(record["offset"], record["timestamp"]) for record in read_jsonl(path)]


def test_times_choose_records(capsys: pytest.CaptureFixture[str]) -> None:
    tiered = {record["offset"] for record in of_golden(capsys, _TOPIC)}
    known = [one for one in times() if one[0] in tiered]
    distinct = sorted({time for _, time in known})
    since, until = distinct[len(distinct) // 3], distinct[2 * len(distinct) // 3]
    found = of_golden(capsys, _TOPIC, "--since", f"@{since}", "--until", f"@{until}")
    wanted = [offset for offset, time in known if since <= time < until]
    assert [record["offset"] for record in found] == wanted
    assert 0 < len(wanted) < len(known)


def test_records_out_of_the_order_of_time_are_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = write_records(tmp_path, [(None, b"%d" % n) for n in range(40)])
    everything = [json.loads(line) for line in dumped(capsys, TOPIC, "--store", store)[0].splitlines()]
    bound = everything[25]["timestamp"]
    out, _ = dumped(capsys, TOPIC, "--store", store, "--until", f"@{bound}")
    wanted = [one["offset"] for one in everything if one["timestamp"] < bound]
    assert [json.loads(line)["offset"] for line in out.splitlines()] == wanted


def test_time_after_all_records_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    store = (golden_local() / "remote").as_uri()
    out, err = dumped(capsys, _TOPIC, "--store", store, "--since", "2999-01-01")
    assert (out, err) == ("", f"kafka-remote: the tier has no records of {_TOPIC} in the interval\n")


def test_count_bounds_all_topics_together(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["delrec", _TOPIC, "--end", "410"]
    everything = of_golden(capsys, *asked)
    first = sum(record["topic"] == "delrec" for record in everything)
    for count in (first, first + 2):
        assert of_golden(capsys, *asked, "--count", str(count)) == everything[:count]


def test_text_is_one_line_for_each_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = write_records(tmp_path, [(b"k", "é\n\x1b[2J".encode()), (None, b"\xff-"), (b"", None)] + [(None, None)] * 7)
    out, _ = dumped(capsys, TOPIC, "--store", store, "--output", "text", "--count", "3")
    place = f"{TOPIC}-{TIP.partition}"
    assert out == (
        f"{place}\t0\t1970-01-01T00:00:01.000Z\tk\té\\n\\x1b[2J\n"
        f"{place}\t1\t1970-01-01T00:00:01.001Z\t-\t\\xff-\n"
        f"{place}\t2\t1970-01-01T00:00:01.002Z\t\t-\n"
    )


def test_formats_are_json_values_in_json_and_in_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = write_records(tmp_path, [(b"k%d" % n, b'{"n": %d, "b": [1.5, null]}' % n) for n in range(10)])
    arguments = [TOPIC, "--store", store, "--key-format", "string", "--value-format", "json", "--count", "1"]
    record = json.loads(dumped(capsys, *arguments)[0])
    assert (record["key"], record["value"]) == ("k0", {"n": 0, "b": [1.5, None]})
    text, _ = dumped(capsys, *arguments, "--output", "text")
    assert text.endswith('\tk0\t{"n":0,"b":[1.5,null]}\n')


def test_avro_values_are_read_by_a_file_or_the_registry(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fields = [
        {"name": "n", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "part", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    body = bytes([4, 0, 2, 0xFF, 4, 0x01, 0x2C]) + struct.pack("<d", float("nan")) + bytes([2, 2, 97, 0])
    wanted = {"n": 2, "at": "1970-01-01T00:00:00+00:00", "raw": "/w==", "price": "3.00", "part": "nan", "tags": ["a"]}
    (tmp_path / "r.avsc").write_text(schema)
    store = write_records(tmp_path / "plain", [(None, body)] * 10)
    of_file = [TOPIC, "--store", store, "--count", "1", "--value-format", "avro", "--value-schema", str(tmp_path / "r.avsc")]
    assert json.loads(dumped(capsys, *of_file)[0])["value"] == wanted
    with SchemaRegistry() as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            numbers = [client.register_schema(f"{TOPIC}-value", Schema(text, "AVRO")) for text in (schema, '"long"')]
        headed = [struct.pack(">bi", 0, number) + data for number, data in zip(numbers, (body, b"\x06"), strict=True)]
        store = write_records(tmp_path / "headed", [(None, value) for value in headed] * 5)
        settings = ["--schema-registry", f"schema.registry.url={registry.url}"]
        of_registry = [TOPIC, "--store", store, "--value-format", "avro", *settings]
        out, _ = dumped(capsys, *of_registry, "--count", "2")
        assert [json.loads(line)["value"] for line in out.splitlines()] == [wanted, 3]
        _, err = dumped(capsys, *of_registry, "--schema-registry", "max.retries=x", status=2)
        assert "invalid settings of the Schema Registry: max.retries" in err
        store = write_records(tmp_path / "unknown", [(None, struct.pack(">bi", 0, 99))] * 10)
        _, err = dumped(capsys, TOPIC, "--store", store, "--value-format", "avro", *settings, status=1)
        assert "at offset 0 does not parse: the registry has no schema 99" in err


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        (ColumnFormat.STRING, b"a\xff", "not UTF-8: byte 1"),
        (ColumnFormat.JSON, b"{", "Expecting property name enclosed in double quotes"),
        (ColumnFormat.JSON, b"NaN", "NaN is not JSON"),
        (ColumnFormat.JSON, b"[" * 200_000, "nested too deeply"),
    ],
)
def test_value_that_does_not_parse_ends_the_dump_or_is_kept(kind: ColumnFormat, data: bytes, reason: str) -> None:
    record = (TIP, (5, 1000, 0, 0, None, data, []))
    with pytest.raises(Exception, match=f"the value of {TIP.topic}-\\d+ at offset 5 does not parse: {reason}") as raised:
        made(OutputFormat.JSON, kind, DumpOnError.RAISE).line(record)
    assert type(raised.value).__name__ == "UnreadableRecordError"
    kept = json.loads(made(OutputFormat.JSON, kind, DumpOnError.COLUMN).line(record))
    assert (kept["value"], kept["key"]) == (None, None)
    assert kept["value_error"].startswith(reason)
    assert len(kept["value_bytes"]) >= len(data)
    assert f"({reason}" in made(OutputFormat.TEXT, kind, DumpOnError.COLUMN).line(record)


def made(output: OutputFormat, kind: ColumnFormat, on_error: DumpOnError) -> LineFormat:
    return line_format(output, {"key": None, "value": kind}, {"key": None, "value": None}, {}, on_error)


def test_good_values_beside_kept_errors_have_null_reasons() -> None:
    line = made(OutputFormat.JSON, ColumnFormat.STRING, DumpOnError.COLUMN).line((TIP, (5, 1000, 0, 0, None, b"a", [])))
    record = json.loads(line)
    assert (record["value"], record["value_error"], record["value_bytes"]) == ("a", None, None)


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    record = (TIP, (5, 1000, 0, 0, None, rb'"\ud800"', []))
    assert rb'"value":"\ud800"'.decode() in made(OutputFormat.JSON, ColumnFormat.JSON, DumpOnError.RAISE).line(record)
    assert made(OutputFormat.TEXT, ColumnFormat.JSON, DumpOnError.RAISE).line(record).endswith("\t\\ud800")


@pytest.mark.parametrize(("timestamp", "shown"), [(-1, "-"), (-2, "1969-12-31T23:59:59.998Z"), (2**62, f"@{2**62}")])
def test_headers_and_odd_times_are_shown(timestamp: int, shown: str) -> None:
    record = (TIP, (5, timestamp, 0, 0, b"k", None, [("trace\t", b"7"), ("none", None)]))
    assert LineFormat(OutputFormat.TEXT).line(record) == f"{TIP.topic}-{TIP.partition}\t5\t{shown}\tk\t-\ttrace\\t=7\tnone=-"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--value-schema", "s.avsc"], "--value-schema needs --value-format avro"),
        (["--key-format", "json", "--key-schema", "s.avsc"], "--key-schema needs --key-format avro"),
        (["--value-format", "avro"], "--value-format avro needs --value-schema or --schema-registry"),
        (["--value-format", "avro", "--value-schema", "s.avsc"], "s.avsc cannot be read: No such file"),
        (["--value-format", "avro", "--value-schema", "raw.avsc"], "raw.avsc cannot be read: not UTF-8"),
        (["--value-format", "avro", "--schema-registry", "max.retries=0"], "a Schema Registry needs schema.registry.url"),
    ],
)
def test_formats_that_cannot_be_used_have_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.avsc").write_bytes(b"\xff")
    out, err = dumped(capsys, TOPIC, "--store", "file:///nowhere", *options, status=2)
    assert out == ""
    assert told in err


def test_without_arrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingExtraError, match=r"--value-format avro needs pyarrow: pip install 'kafka-remote-client\[avro\]'"
    ):
        line_format(OutputFormat.JSON, {"value": ColumnFormat.AVRO}, {"value": None}, {"url": "http://a"}, DumpOnError.RAISE)
