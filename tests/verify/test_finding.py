import re
from pathlib import Path
from uuid import UUID

from kafka_remote_client.model import RemoteLogSegmentId, TopicIdPartition
from kafka_remote_client.verify.finding import Finding, FindingKind, Severity, Unchecked
from kafka_remote_client.verify.verifier import Summary

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "verify.md").read_text()


def test_the_page_has_every_kind_in_order_with_its_severity_and_meaning() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (damage|waste) \| (.+?) \| (.+) \|$", _PAGE, re.MULTILINE)
    assert [row[:3] for row in rows] == [(kind.label, kind.severity.value, kind.meaning) for kind in FindingKind]
    assert all(row[3] for row in rows)


def test_names_of_kinds_are_unique() -> None:
    assert len({kind.label for kind in FindingKind}) == len(FindingKind)
    assert {kind.severity for kind in FindingKind} == set(Severity)


def _fields(text: str) -> set[str]:
    return {name for row in re.findall(r"^\| (`[a-z_`, ]+) \|", text, re.MULTILINE) for name in re.findall(r"[a-z_]+", row)}


def test_the_page_has_every_field_of_the_json() -> None:
    of_findings, of_summary = _PAGE.split("## JSON")[1].split("For each part that could not be checked")
    tip = TopicIdPartition(UUID(int=1), "t", 3)
    finding = Finding(FindingKind.LOG_CUT, "cut", 7, tip, RemoteLogSegmentId(tip, UUID(int=2)), 5, "t/log", 1, 6)
    told = finding.as_json()
    assert set(told) == _fields(of_findings)
    assert told["kind"] == "log-cut"
    assert (told["topic"], told["partition"], told["start_offset"], told["bytes"]) == ("t", 3, 5, 7)
    assert told["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert told["segment_id"] == "AAAAAAAAAAAAAAAAAAAAAg"
    assert set(Summary().as_json()) - {"type"} == _fields(of_summary)
    assert set(Unchecked("a", "b").as_json()) == {"type", "what", "reason"}


def test_a_finding_without_a_segment_has_nulls() -> None:
    told = Finding(FindingKind.FOREIGN_OBJECT, "stray", 7, object_key="x").as_json()
    assert [told[name] for name in ("topic", "topic_id", "partition", "segment_id", "position")] == [None] * 5
    bare = Finding(FindingKind.FOREIGN_OBJECT, "stray", 7).as_json()
    assert {name for name, value in bare.items() if value is not None} == {"type", "kind", "severity", "bytes", "message"}


def test_the_verdict_follows_the_exit_status() -> None:
    summary = Summary()
    assert (summary.exit_status, summary.as_json()["verdict"]) == (0, "sound")
    summary.unchecked = 1
    assert (summary.exit_status, summary.as_json()["verdict"]) == (2, "incomplete")
    summary.findings[FindingKind.LOG_CUT] += 2
    summary.finding_bytes[FindingKind.LOG_CUT] += 9
    assert (summary.exit_status, summary.as_json()["verdict"]) == (1, "findings")
    assert summary.as_json()["findings"] == {"log-cut": {"count": 2, "bytes": 9}}
