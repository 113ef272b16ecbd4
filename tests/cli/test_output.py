"""The whole output of the verbs whose own tests look at parts of it, as text and as JSON.

``ls``, ``verify`` and ``dump`` read the golden tier; ``plan`` asks an embedded cluster.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.table import Table

from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.output import output_console
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import filled_cluster
from tests.support.golden import golden_local

pytestmark = pytest.mark.embedded

cluster = filled_cluster("orders", 300, (0, 1))

LS = """\
delrec (topic id hFBjLWNJS4a_FKSQ0udluQ)
partition  segment                 start  end  bytes  epochs  state
        0  70FIeGtBStmrVwCAUv1BdA    400  599  56190  0:400   live
        0  SgQV96AUT_CBKlmL0bwcag    600  799  52249  0:600   live
"""
LS_JSON = [
    {
        "topic": "delrec",
        "topic_id": "hFBjLWNJS4a_FKSQ0udluQ",
        "partition": 0,
        "segment_id": segment_id,
        "start_offset": start,
        "end_offset": start + 199,
        "bytes": size,
        "stored_bytes": size,
        "leader_epochs": [[0, start]],
        "state": "live",
    }
    for segment_id, start, size in [("70FIeGtBStmrVwCAUv1BdA", 400, 56190), ("SgQV96AUT_CBKlmL0bwcag", 600, 52249)]
]
VERIFY = """\
sound: 1 topics, 1 partitions, 2 segments (2 checked, 0 being copied or
deleted), 108515 bytes stored, 108515 read; 0 findings, 0 not checked
"""
VERIFY_JSON = [
    {
        "type": "summary",
        "verdict": "sound",
        "topics": 1,
        "partitions": 1,
        "segments": 2,
        "segments_checked": 2,
        "segments_busy": 0,
        "objects": 10,
        "bytes_stored": 108515,
        "bytes_estimated": 108515,
        "bytes_read": 108515,
        "unchecked": 0,
        "findings": {},
    }
]
VERIFY_DAMAGED = """\
missing-object (damage): an object of a segment is missing, and the segment is
not being copied

  what       it lacks: offset index
  partition  delrec-0
  segment    70FIeGtBStmrVwCAUv1BdA
  start      400
  bytes      56220

kind            severity  findings  bytes
missing-object  damage           1  56220

findings: 1 topics, 1 partitions, 2 segments (1 checked, 0 being copied or
deleted), 108507 bytes stored, 52287 read; 1 findings, 0 not checked
"""
MAP = """\
partition  kind    start  end  bytes  what
        0  remote    400  599  56190  70FIeGtBStmrVwCAUv1BdA
        0  remote    600  799  52249  SgQV96AUT_CBKlmL0bwcag
delrec: partitions 1; remote 2 (108,515 bytes stored); <$0.0001 a month,
<$0.0001 to read what is remote once
"""
MAP_JSON = [
    {
        "topic": "delrec",
        "partition": 0,
        "kind": "remote",
        "start_offset": start,
        "end_offset": start + 199,
        "segment_id": segment_id,
        "bytes": size,
        "stored_bytes": stored,
        "month_dollars": pytest.approx(stored * 0.023 / 1e9),
        "read_dollars": pytest.approx(0.0004 / 1000),
        "note": None,
    }
    for segment_id, start, size, stored in [
        ("70FIeGtBStmrVwCAUv1BdA", 400, 56190, 56228),
        ("SgQV96AUT_CBKlmL0bwcag", 600, 52249, 52287),
    ]
]
COST = """\
delrec                  direct    broker
GETs                         2         2
bytes from the store   108,439   108,439
bytes to the reader    108,439   108,439
requests              <$0.0001  <$0.0001
retrieval              $0.0000   $0.0000
transfer               $0.0000   $0.0000
total                 <$0.0001  <$0.0001
seconds                      -         -
advice  A GET has 54,219 bytes on average: its latency and price dominate. Read
        more at a time, or through the broker.
"""
COST_JSON = [
    *(
        {
            "topic": "delrec",
            "path": path,
            "gets": 2,
            "store_bytes": 108439,
            "sent_bytes": 108439,
            "requests_dollars": pytest.approx(2 * 0.0004 / 1000),
            "retrieval_dollars": 0.0,
            "transfer_dollars": 0.0,
            "seconds": None,
            "dollars": pytest.approx(2 * 0.0004 / 1000),
        }
        for path in ("direct", "broker")
    ),
    {
        "topic": "delrec",
        "advice": [
            "A GET has 54,219 bytes on average: its latency and price dominate. Read more at a time, or through the broker."
        ],
    },
]
LOCATE = """\
offset       delrec-0 at 450
tier         remote
segment      70FIeGtBStmrVwCAUv1BdA
its offsets  400 to 599
bytes        0 to 25198 of 56190
next offset  500
aborted      none
local copy   no
"""
LOCATE_JSON = [
    {
        "topic": "delrec",
        "partition": 0,
        "offset": 450,
        "tier": "remote",
        "reason": None,
        "explanation": None,
        "local": False,
        "segment_id": "70FIeGtBStmrVwCAUv1BdA",
        "segment_start_offset": 400,
        "segment_end_offset": 599,
        "segment_bytes": 56190,
        "start_position": 0,
        "end_position": 25198,
        "next_offset": 500,
        "aborted_transactions": [],
    }
]
OF_GOLDEN = {
    "ls": (["ls", "delrec"], LS, LS_JSON),
    "verify": (["verify", "delrec"], VERIFY, VERIFY_JSON),
    "map": (["map", "delrec"], MAP, MAP_JSON),
    "cost": (["cost", "delrec"], COST, COST_JSON),
    "locate": (["locate", "delrec", "0", "450"], LOCATE, LOCATE_JSON),
}
DUMP_FIELDS = {
    "topic": "delrec",
    "partition": 0,
    "offset": 401,
    "timestamp": 1700000000401,
    "timestamp_type": "CreateTime",
    "leader_epoch": 0,
    "key": "a2V5LTYzNg==",
    "headers": [],
}
PLAN = """\
               planned
splits               2
segments             8
segment bytes   27,000
gets                 8
read bytes      27,000
records            600
dollars         0.0000
seconds           ~0.0

Partitions: 2. About 6,794 bytes come through the broker.
~ is an estimate: 2 cores of 100 MB/s each, 20 ms a GET, 64 at once for each task.
Prices: $0.0004 for 1,000 GETs, $0 for a GB.
"""


def output(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """The standard output without blanks at the ends of lines."""
    with pytest.raises(SystemExit) as ended:
        run(list(arguments))
    told = capsys.readouterr()
    assert ended.value.code == status, told.err
    return "".join(f"{line.rstrip()}\n" for line in told.out.splitlines())


def of_golden(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return output(capsys, *arguments, "--store", (golden_local() / "remote").as_uri())


@pytest.mark.parametrize("verb", OF_GOLDEN)
def test_output_of_a_golden_tier_is_text_and_json(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    arguments, text, lines = OF_GOLDEN[verb]
    assert of_golden(capsys, *arguments) == text
    assert [json.loads(line) for line in of_golden(capsys, *arguments, "--output", "json").splitlines()] == lines


def test_findings_are_facts_below_their_kind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(golden_local() / "remote", tmp_path / "remote")
    (index,) = (tmp_path / "remote").rglob("delrec-0*/*70FIeGtBStmrVwCAUv1BdA.index")
    index.unlink()
    told = output(capsys, "verify", "delrec", "--store", (tmp_path / "remote").as_uri(), status=1)
    assert told == VERIFY_DAMAGED


@pytest.mark.parametrize("verb", [["ls"], ["verify"], ["map", "codec-zstd-java"], ["map", "epochs"], ["cost", "txn"]])
def test_no_table_of_the_golden_tier_is_wider_than_80_columns(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    told = of_golden(capsys, *verb).splitlines()
    assert told
    assert [line for line in told if len(line) > 80] == []


def test_dumped_record_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = of_golden(capsys, "dump", "delrec", "--start", "401", "--end", "402").splitlines()
    record = json.loads(line)
    assert len(record.pop("value")) == 232
    assert record == DUMP_FIELDS


def test_plan_is_text_and_json(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "orders", "--bootstrap-servers", cluster.bootstrap_servers, "--cores", "2"]
    for name, value in {
        "allowed.hosts": cluster.origin_url.partition("//")[2],
        "allow.http": "true",
        "allow.private.addresses": "true",
    }.items():
        asked += ["--option", f"remote.storage.fetcher.{name}={value}"]
    assert output(capsys, *asked) == PLAN
    told = json.loads(output(capsys, *asked, "--output", "json"))
    assert told["figures"] == {
        "splits": 2,
        "segments": 8,
        "segment_bytes": 27000,
        "gets": 8,
        "read_bytes": 27000,
        "records": 600,
        "dollars": pytest.approx(3.2e-06),
        "seconds": 0.04,
    }
    assert set(told) == {
        "figures",
        "segments_exact",
        "requests_exact",
        "local_bytes",
        "partitions",
        "assumptions",
        "prices",
    }


def test_a_narrow_terminal_cuts_no_number(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    table = Table("start", "end", box=None)
    table.add_row("9223372036854775806", "9223372036854775807")
    output_console().print(table)
    assert capsys.readouterr().out.splitlines()[1].split() == ["9223372036854775806", "9223372036854775807"]
