"""A fault that happens once changes an answer, whichever range the client requests first."""

from __future__ import annotations

import pytest

from kafka_remote_client.shim.http_server import HttpRequest
from kafka_remote_client.testing import Answer, Ending, error
from tests.faults.bench import changed_by

DATA = bytes(range(256)) * 8
TRUTH = {"a=b.log": DATA}


def asks(start: int, size: int) -> HttpRequest:
    return HttpRequest("GET", "/a%3Db.log?X-Amz-Signature=x", {"range": f"bytes={start}-{start + size - 1}"})


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET, Ending.STALL])
def test_a_cut_waits_for_an_answer_that_it_shortens(ending: Ending) -> None:
    matches = changed_by(Answer(ending=ending, at=700), TRUTH)
    assert [matches(asks(100, size)) for size in (522, 700, 701)] == [False, False, True]


def test_unchanged_answers_do_not_count_as_let_through() -> None:
    matches = changed_by(Answer(ending=Ending.RESET, at=700), TRUTH, after=2)
    assert [matches(asks(0, size)) for size in (1000, 522, 1000, 522, 1000)] == [False, False, False, False, True]


def test_foreign_bytes_wait_for_an_answer_that_they_change() -> None:
    matches = changed_by(Answer(transform=lambda data: DATA[: len(data)]), TRUTH)
    assert [matches(asks(start, 100)) for start in (0, 256, 300)] == [False, False, True]


@pytest.mark.parametrize(
    "answer",
    [
        error(503),
        Answer(status=200, transform=bytes),
        Answer(ending=Ending.CUT, chunked=True),
        Answer(silent=True),
        Answer(raw=b""),
        Answer(ending=Ending.STALL, at=0),
    ],
    ids=lambda answer: f"{answer.status}-{answer.ending.value}-{answer.at}",
)
def test_a_fault_of_every_answer_changes_the_next_one(answer: Answer) -> None:
    assert changed_by(answer, TRUTH)(asks(0, 1))
