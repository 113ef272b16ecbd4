from __future__ import annotations

from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.first_of_many import FirstOfMany

KIND = FindingKind.OFFSET_INDEX_MISMATCH


def test_no_finding_gives_no_problem() -> None:
    assert FirstOfMany().problems(KIND, 9, "entries") == []


def test_a_single_finding_is_unchanged() -> None:
    found = FirstOfMany()
    found.add("odd", 7, 8)
    assert found.problems(KIND, 9, "entries") == [Problem(KIND, "odd", 7, 8)]


def test_the_first_of_several_findings_has_their_number() -> None:
    found = FirstOfMany()
    for message in ("odd", "even", "odd again"):
        found.add(message)
    assert found.count == 3
    assert found.problems(KIND, 9, "entries") == [Problem(KIND, "3 of 9 entries; the first: odd")]
    assert found.problems(KIND, 9, "entries")[0].position is None
