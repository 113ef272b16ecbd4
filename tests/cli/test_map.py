"""``map`` as a user runs it, on an embedded cluster and on a golden tier."""

from __future__ import annotations

import errno
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import filled_cluster
from tests.support.golden import golden_local

pytestmark = pytest.mark.embedded

cluster = filled_cluster("orders", 300, (0, 1))

MAP = """\
partition  kind       start  end  bytes  what
        0  log-start      0    -      -  -
        0  remote         0   59   3208  SSSSSSSSSSSSSSSSSSSSSS
        0  remote        60  119   3366  SSSSSSSSSSSSSSSSSSSSSS
        0  remote       120  179   3437  SSSSSSSSSSSSSSSSSSSSSS
        0  remote       180  239   3489  SSSSSSSSSSSSSSSSSSSSSS
        0  local        240  299      -  -
        1  log-start      0    -      -  -
        1  remote         0   59   3208  SSSSSSSSSSSSSSSSSSSSSS
        1  remote        60  119   3366  SSSSSSSSSSSSSSSSSSSSSS
        1  remote       120  179   3437  SSSSSSSSSSSSSSSSSSSSSS
        1  remote       180  239   3489  SSSSSSSSSSSSSSSSSSSSSS
        1  local        240  299      -  -
        2  log-start      0    -      -  -
        3  log-start      0    -      -  -
orders: partitions 4; remote 8 (27,240 bytes stored), local 2; <$0.0001 a month,
<$0.0001 to read what is remote once
"""
SEGMENT_ID = re.compile(r"[\w-]{22}")


def without_ids(text: str) -> str:
    """The text with each segment id replaced, because they are random, and without blanks at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in SEGMENT_ID.sub("S" * 22, text).splitlines())


def test_map_with_brokers_is_a_table(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["map", "orders", "--store", cluster.directory.as_uri(), "--bootstrap-servers", cluster.bootstrap_servers]
    assert without_ids(printed(capsys, *asked)) == MAP


def test_map_of_a_store_alone_has_no_local_part(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "map", "orders", "--store", cluster.directory.as_uri(), "--output", "json")
    parts = [json.loads(line) for line in text.splitlines()]
    assert {part["kind"] for part in parts} == {"remote"}
    assert set(parts[0]) == {
        "topic",
        "partition",
        "kind",
        "start_offset",
        "end_offset",
        "segment_id",
        "bytes",
        "stored_bytes",
        "month_dollars",
        "read_dollars",
        "note",
    }


def test_page_replaces_a_file_and_leaves_no_other(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "orders.html"
    page.write_text("before")
    printed(capsys, "map", "orders", "--store", cluster.directory.as_uri(), "--html", str(page))
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [page]


def test_page_goes_into_a_pipe_and_leaves_it_a_pipe(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reading:
        page = reading.submit(pipe.read_text, encoding="utf-8")
        printed(capsys, "map", "orders", "--store", cluster.directory.as_uri(), "--html", str(pipe))
        assert pipe.is_fifo()
        assert page.result(60).startswith("<!DOCTYPE html>")


def test_page_that_cannot_be_written_is_an_error(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["map", "orders", "--store", cluster.directory.as_uri(), "--html", str(tmp_path / "none" / "orders.html")])
    assert ended.value.code == 2
    assert "none/orders.html cannot be written: No such file or directory" in capsys.readouterr().err


def test_a_read_only_file_system_is_told_in_one_line(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(SystemExit) as ended:
        run(["map", "orders", "--store", cluster.directory.as_uri(), "--html", str(tmp_path / "orders.html")])
    assert ended.value.code == 2
    assert "orders.html cannot be written: Read-only file system" in capsys.readouterr().err


@pytest.mark.parametrize("page", ["", "/", "."])
def test_page_needs_the_name_of_a_file(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], page: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["map", "orders", "--store", cluster.directory.as_uri(), "--html", page])
    assert ended.value.code == 2
    assert f"--html: {page or '.'} is not the name of a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["delrce"], "found no segments of delrce; the store has LocalTieredStorage segments"),
        (["delrec", "--storage-class", "cold"], "unknown storage class 'cold'; known classes: deep-archive, glacier"),
        (["delrec", "--topic-id", "x"], "--topic-id: a Kafka Uuid has 22 characters, not 1"),
        (["delrec", "--layout", "avien"], "unknown layout 'avien'"),
        (["delrec", "--prices", "/none.toml"], "--prices: /none.toml cannot be read: No such file or directory"),
    ],
)
def test_wrong_use_of_map_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    told, status = failed(capsys, "map", *arguments, "--store", (golden_local() / "remote").as_uri())
    assert text in told
    assert status == 2
