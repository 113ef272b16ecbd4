"""A fallible call of a read fails in every way, and no invariant breaks; no thread, socket or byte is left.

This test fails every fourth call; a campaign fails all of them (``torture.py``).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.faults.stage import Stage
from tests.faults.torture import SEAMS, WAYS, Seam, Torture, _answers, _raises, _receives_a_byte, run, tortured
from tests.support.run_summary import RecordProperty

pytestmark = pytest.mark.embedded

_EACH = 4


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_no_failed_call_breaks_an_invariant(stage: Stage, way: str, record_property: RecordProperty) -> None:
    fired, breaches = run(stage, [way], 0, _EACH)
    record_property("failed_calls", fired.total())
    assert breaches == []
    assert fired


@pytest.mark.parametrize("way", WAYS)
def test_every_seam_is_called_in_each_of_its_ways(stage: Stage, way: str) -> None:
    torture = Torture(way)
    evidence = tortured(stage, torture)
    assert evidence.all() == []
    assert set(torture.calls) == {seam.name for seam in SEAMS if way in seam.ways}
    assert torture.raised == [], "an error is no call's true answer"


SEAM = Seam("room", "nowhere:has_for", {"error": _raises(MemoryError), "short": _answers(lambda: False)})


@pytest.mark.parametrize("true", [True, False])
def test_a_short_answer_counts_if_the_true_one_differs(true: bool) -> None:
    torture = Torture("short", 1)
    assert torture.call(SEAM, lambda: true) is False
    assert (torture.struck, torture.fired) == ("room", "room" if true else None)


def test_an_error_counts_if_it_reaches_the_caller() -> None:
    torture = Torture("error", 2)
    assert torture.call(SEAM, lambda: 1) == 1
    with pytest.raises(MemoryError):
        torture.call(SEAM, lambda: 1)
    assert (torture.struck, torture.fired, torture.raised) == ("room", "room", [])


def test_an_error_of_an_unchanged_call_is_kept() -> None:
    torture = Torture("error", 2)
    with pytest.raises(ZeroDivisionError):
        torture.call(SEAM, lambda: 1 // 0)
    assert (torture.struck, torture.fired, torture.raised) == (None, None, ["room"])


@pytest.mark.parametrize(("size", "sent", "fires"), [(9, b"two", True), (1, b"two", False), (9, b"1", False), (9, b"", False)])
def test_one_byte_counts_as_short_if_more_were_available(size: int, sent: bytes, fires: bool) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(sent)
        there.close()
        count, changed = _receives_a_byte(Torture(), socket.socket.recv_into, here, bytearray(size))
    assert (count, changed) == (len(sent[:1]), fires)
