"""The bound on the processor time of an input."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.fuzz.bounded import bounded, within_bound


def _takes(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    def times() -> Iterator[float]:
        for spent in seconds:
            yield 0.0
            yield spent

    readings = times()
    monkeypatch.setattr(time, "thread_time", lambda: next(readings))


def test_an_input_that_is_slow_twice_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    _takes(monkeypatch, 1.1, 1.2)
    with pytest.raises(AssertionError, match=r"pure takes 1\.2 s of processor time for 61 bytes"):
        within_bound(list, 61, "pure")
    _takes(monkeypatch, 1.1, 1.2)
    with pytest.raises(AssertionError, match="the target takes"):
        bounded(lambda data: None)(bytes(61))


def test_an_input_that_is_slow_once_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    _takes(monkeypatch, 1.1, 0.1)
    assert within_bound(lambda: 7, 61) == 7


def test_each_mebibyte_begun_has_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    _takes(monkeypatch, 2.0)
    assert within_bound(lambda: 7, 1 << 20) == 7
