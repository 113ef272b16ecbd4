"""The whole output of the verbs whose own tests look at parts of it, as text and as JSON.

``ls``, ``verify`` and ``dump`` read the golden tier; ``plan`` asks an embedded cluster. Tables of ``ls`` and ``verify`` are not
folded in a pipe, so that a line is a segment or a finding.
"""

from __future__ import annotations

import json

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import filled_cluster
from tests.support.golden import golden_local

pytestmark = pytest.mark.embedded

cluster = filled_cluster("orders", 300, (0, 1))

LS = """\
topic   topic id                partition  segment                 start  end  bytes  epochs  state
delrec  hFBjLWNJS4a_FKSQ0udluQ  0          70FIeGtBStmrVwCAUv1BdA    400  599  56190  0:400   live
delrec  hFBjLWNJS4a_FKSQ0udluQ  0          SgQV96AUT_CBKlmL0bwcag    600  799  52249  0:600   live
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
sound: 1 topics, 1 partitions, 2 segments (2 checked, 0 being copied or deleted), 108515 bytes stored, 108515 read; \
0 findings, 0 not checked
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

Partitions: 2. About 6,668 bytes come through the broker.
~ is an estimate: 2 cores of 100 MB/s each, 20 ms a GET, 64 at once for each task.
Prices: $0.0004 for 1,000 GETs, $0 for a GB.
"""


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The standard output without blanks at the ends of lines."""
    with pytest.raises(SystemExit) as ended:
        run(list(arguments))
    told = capsys.readouterr()
    assert ended.value.code == 0, told.err
    return "".join(f"{line.rstrip()}\n" for line in told.out.splitlines())


def of_golden(capsys: pytest.CaptureFixture[str], verb: str, *more: str) -> str:
    return output(capsys, verb, "delrec", "--store", (golden_local() / "remote").as_uri(), *more)


@pytest.mark.parametrize(("verb", "text", "lines"), [("ls", LS, LS_JSON), ("verify", VERIFY, VERIFY_JSON)])
def test_output_of_a_golden_tier_is_text_and_json(
    capsys: pytest.CaptureFixture[str], verb: str, text: str, lines: list[dict[str, object]]
) -> None:
    assert of_golden(capsys, verb) == text
    assert [json.loads(line) for line in of_golden(capsys, verb, "--output", "json").splitlines()] == lines


def test_dumped_record_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = of_golden(capsys, "dump", "--start", "401", "--end", "402").splitlines()
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
