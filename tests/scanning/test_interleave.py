"""Iterators that run in parallel: items, order, errors, early close, and bounded read-ahead."""

from __future__ import annotations

import threading
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from kafka_remote_client.scanning import interleave
from kafka_remote_client.scanning.interleave import interleaved


def numbers(lane: int, count: int) -> Generator[tuple[int, int], None, None]:
    for number in range(count):
        yield lane, number


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_all_items_come_in_the_order_of_their_iterator(threads: int) -> None:
    found = list(interleaved([partial(numbers, lane, lane * 3) for lane in range(5)], threads))
    assert sorted(found) == [(lane, number) for lane in range(5) for number in range(lane * 3)]
    for lane in range(5):
        assert [number for one, number in found if one == lane] == list(range(lane * 3))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_after_the_items_before_it(threads: int) -> None:
    def failing() -> Generator[tuple[int, int], None, None]:
        yield 0, 0
        raise ValueError("damaged")

    found = []
    with pytest.raises(ValueError, match="damaged"):
        found.extend(interleaved([failing, partial(numbers, 1, 1)], threads))
    stream = interleaved([failing, failing], threads)
    assert next(stream) == (0, 0)
    with pytest.raises(ValueError, match="damaged"):
        list(stream)


def test_closing_early_ends_the_iterators() -> None:
    closed = []

    def endless(lane: int) -> Generator[int, None, None]:
        try:
            while True:
                yield lane
        finally:
            closed.append(lane)

    stream = interleaved([partial(endless, lane) for lane in range(4)], 2)
    assert next(stream) in {0, 1}
    stream.close()
    assert sorted(closed) == [0, 1]


def test_read_ahead_is_at_most_two_items_per_thread() -> None:
    made: list[int] = []
    waits = threading.Event()

    def counted() -> Generator[int, None, None]:
        for number in range(100):
            made.append(number)
            if len(made) == 4:
                waits.set()
            yield number

    stream = interleaved([counted, counted], 2)
    next(stream)
    assert waits.wait(30)
    assert len(made) <= 5  # one is consumed, two are queued, each thread holds one
    stream.close()


def test_zero_threads_run_in_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        return None

    monkeypatch.setattr(interleave, "start_thread", refused)
    assert len(list(interleaved([partial(numbers, 0, 3), partial(numbers, 1, 3)], 2))) == 6
