"""``kafka-remote export``: a table by one command, its result as text and as JSON."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as CommittedPartition
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from kafka_remote_client.cli.main import run
from tests.support.embedded_topics import fill_topic, small_cluster
from tests.support.golden import golden_local
from tests.support.scanned import expected_rows, rows_of

DRY_RUN = {
    "text": "1 splits of 1 partitions: about 108,439 bytes in 2 GETs, 2 of 2 segments\n",
    "json": '{"splits":1,"partitions":1,"segments":2,"known_segments":2,"gets":2,"read_bytes":108439,"broker_bytes":0}\n',
}


def exported(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as stopped:
        run(["export", "--store", (golden_local() / "remote").as_uri(), *arguments])
    told = capsys.readouterr()
    assert stopped.value.code == status, told.err
    return told.out, told.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_dry_run_shows_the_plan_and_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    target = tmp_path / "table"
    told, remarks = exported(capsys, "delrec", "--target", str(target), "--dry-run", "--output", form)
    assert told == DRY_RUN[form]
    assert remarks == ""
    assert not target.exists()


def test_topics_become_files_and_the_end_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["logappend", "--target", str(tmp_path / "table"), "--end", "500", "--partition-by", "topic"]
    out, err = exported(capsys, *arguments, "--output", "json")
    told = json.loads(out)
    files = list((tmp_path / "table").rglob("*.parquet"))
    assert told == {
        "job": "export",
        "target": str(tmp_path / "table"),
        "records": 500,
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "unreadable_records": 0,
        "splits": told["splits"],
        "resumed_splits": 0,
        "starting_offsets": {"logappend": {"0": 500}},
        "group": None,
    }
    rows = [row for row in expected_rows("logappend", 0, "read_committed") if row["offset"] < 500]
    found = ds.dataset(tmp_path / "table", format="parquet", partitioning="hive").to_table()
    assert rows_of(found.select(list(rows[0]))) == rows
    assert f"{told['splits']} of {told['splits']} splits written, 500 records by this run" in err
    again, _ = exported(capsys, *arguments)
    assert again == (
        f"job export: 500 records in {len(files)} files, {told['bytes']} bytes\n"
        'starting offsets of the next read: {"logappend":{"0":500}}\n'
    )


def test_a_terminal_shows_a_bar_instead_of_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(slave, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        out, err = exported(capsys, "logappend", "--target", str(tmp_path / "table"), "--end", "500")
        screen.flush()
        shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "export" in shown
    assert "splits written" not in shown
    assert (err, "\x1b" in out) == ("", False)


def test_invalid_arguments_are_reported_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["logappend", "--target", str(tmp_path / "table")]
    exported(capsys, *arguments, "--column", "key")
    _, err = exported(capsys, *arguments, status=2)
    assert "kafka-remote: export job export was started with other options (columns was key" in err
    _, err = exported(capsys, *arguments, "--partition-by", "minute", status=2)
    assert "partition_by must be topic, day or hour" in err
    _, err = exported(capsys, *arguments, "--commit-group", "readers", status=2)
    assert "--commit-group" in err
    for option in (["--live"], ["--on-fallback", "broker"]):
        _, err = exported(capsys, *arguments, *option, status=2)
        assert option[0] in err
        assert "needs --consumer bootstrap.servers=HOST:PORT" in err
    _, err = exported(capsys, *arguments, "--consumer", "sasl.password=canary", status=2)
    assert "sasl.password is a secret" in err
    assert "canary" not in err


def test_unknown_topic_names_the_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for more in ([], ["--dry-run"]):
        _, err = exported(capsys, "typo", "--target", str(tmp_path / "table"), *more, status=2)
        assert "kafka-remote: found no segments of topic typo; the store has" in err
        assert "(--layout local-tiered-storage)" in err
        assert "remote.storage" not in err


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_empty_target_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _, err = exported(capsys, "logappend", "--target", "", "--format", form, status=2)
    assert "kafka-remote: the target is empty; give a folder, . for this one, or a URL" in err
    assert list(tmp_path.iterdir()) == []


def test_tables_of_other_formats_are_written_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["logappend", "--end", "500", "--output", "json"]
    exported(capsys, *arguments, "--format", "delta", "--target", str(tmp_path / "delta"))
    assert len(DeltaTable(tmp_path / "delta").to_pyarrow_table()) == 500
    for name, catalog in (("LAKE", ["--catalog", "lake"]), ("DEFAULT", [])):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name}__TYPE", "sql")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name}__URI", f"sqlite:///{tmp_path / name}.db")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name}__WAREHOUSE", (tmp_path / name).as_uri())
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        out, _ = exported(capsys, *arguments, "--format", "iceberg", *catalog, "--target", "kafka.logappend")
        assert json.loads(out)["records"] == 500
        found = load_catalog(name.lower())
        assert found.load_table("kafka.logappend").scan().count() == 500
        found.close()
    _, err = exported(capsys, *arguments, "--catalog", "lake", "--target", "a.b", status=2)
    assert "--catalog" in err


def test_a_target_that_cannot_be_written_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    _, err = exported(capsys, "logappend", "--target", str(tmp_path / "file" / "table"), status=1)
    assert "kafka-remote: export: cannot" in err


def test_without_arrow_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("scan_topics", "table_scan"):
        monkeypatch.delitem(sys.modules, f"kafka_remote_client.scanning.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    _, err = exported(capsys, "logappend", "--target", str(tmp_path), status=2)
    assert "kafka-remote export needs pyarrow: pip install 'kafka-remote-client[arrow]'" in err


@pytest.mark.embedded
def test_a_group_continues_where_the_export_ends(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with small_cluster(tmp_path / "tier") as cluster:
        fill_topic(cluster, "logappend", 100, (0,))
        server = f"bootstrap.servers={cluster.bootstrap_servers}"
        arguments = ["logappend", "--target", str(tmp_path / "table"), "--commit-group", "readers", "--consumer", server]
        out, _ = exported(capsys, *arguments, "--end", "70")
        assert out.endswith("committed for group readers\n")
        member = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"})
        try:
            assert [one.offset for one in member.committed([CommittedPartition("logappend", 0)], 10)] == [70]
            exported(capsys, *arguments, "--end", "70")  # again, with the same effect
            member.commit(offsets=[CommittedPartition("logappend", 0, 80)], asynchronous=False)
            _, err = exported(capsys, *arguments, "--end", "70", status=1)
            assert "logappend-0 at 80, where the export ends at 70" in err
            assert [one.offset for one in member.committed([CommittedPartition("logappend", 0)], 10)] == [80]
        finally:
            member.close()


@pytest.mark.embedded
def test_live_records_are_exported_if_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with small_cluster(tmp_path / "tier") as cluster:
        fill_topic(cluster, "orders", 100, (0,))
        server = f"metadata.broker.list={cluster.bootstrap_servers}"
        from_both = ["--live", "--on-fallback", "broker", "--consumer", server]
        store, target = (tmp_path / "tier").as_uri(), str(tmp_path / "table")
        with pytest.raises(SystemExit) as stopped:
            run(["export", "orders", "--store", store, "--target", target, *from_both, "--output", "json"])
        told = json.loads(capsys.readouterr().out)
    assert stopped.value.code == 0
    assert (told["records"], told["starting_offsets"]) == (100, {"orders": {"0": 100, "1": 0, "2": 0, "3": 0}})
