from __future__ import annotations

import pytest
from kafka_remote_fetchers._byte_range import WantedRange, bytes_between

from kafka_remote_client.errors import RangeNotSatisfiableError


def test_arguments_of_fetch_log_segment_become_a_range() -> None:
    assert WantedRange.of(3, 7) == WantedRange(3, 7)
    assert WantedRange.of(3, -1) == WantedRange(3, None)
    assert [str(WantedRange.of(3, 7)), str(WantedRange.of(3, -1))] == ["bytes [3, 7)", "bytes [3, end)"]


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 5), (5, 4), (0, 0), (0, -2), (-1, -1)])
def test_refuses_an_invalid_range(start: int, end: int) -> None:
    with pytest.raises(RangeNotSatisfiableError):
        WantedRange.of(start, end)


def test_the_end_is_within_the_object() -> None:
    assert WantedRange.of(3, 7).end_in(7) == 7
    assert WantedRange.of(3, 7).end_in(100) == 7
    assert WantedRange.of(3, -1).end_in(4) == 4


@pytest.mark.parametrize(("start", "end", "size"), [(3, 7, 6), (3, 7, 3), (3, -1, 3), (3, -1, 0)])
def test_refuses_an_object_that_ends_too_early(start: int, end: int, size: int) -> None:
    with pytest.raises(RangeNotSatisfiableError):
        WantedRange.of(start, end).end_in(size)


def test_bytes_between_returns_nothing_past_the_end() -> None:
    def beyond() -> bytes:
        raise RangeNotSatisfiableError("the object has 3 bytes")

    assert bytes_between(2, 5, lambda: b"abc") == b"abc"
    assert bytes_between(5, 5, beyond) == b""
    assert bytes_between(5, 9, beyond) == b""


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2)])
def test_bytes_between_refuses_an_invalid_range(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a byte range"):
        bytes_between(start, end, lambda: b"abc")
