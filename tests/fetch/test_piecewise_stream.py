"""A stream copies pieces of any size to buffers of any size, in order and completely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.fetch.piecewise_stream import PiecewiseStream

DATA = bytes(range(100))


class Pieces(PiecewiseStream):
    """The positions from 10 on in pieces of these sizes; a piece that fits into a buffer is read into it."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(10, 10 + sum(sizes))
        self._sizes = list(sizes)
        self.direct = 0

    def _next_piece(self, target: memoryview) -> int:
        piece = memoryview(DATA)[self._at : self._at + self._sizes.pop(0)]
        if len(piece) > len(target):
            self._rest = piece
            return 0
        target[: len(piece)] = piece
        self.direct += 1
        return len(piece)


@given(st.lists(st.integers(1, 9), max_size=9), st.integers(1, 12))
def test_all_bytes_are_copied_once_and_in_order(sizes: list[int], room: int) -> None:
    stream, found, buffer = Pieces(sizes), b"", bytearray(room)
    while count := stream.readinto(buffer):
        found += buffer[:count]
    assert found == DATA[10 : 10 + sum(sizes)]
    assert stream.direct == sum(size <= room for size in sizes)


def test_an_empty_buffer_takes_and_loses_nothing() -> None:
    stream = Pieces([3])
    assert stream.readinto(bytearray()) == 0
    buffer = bytearray(3)
    assert stream.readinto(memoryview(buffer)) == 3
    assert buffer == DATA[10:13]
    assert stream.readinto(buffer) == 0


@pytest.mark.parametrize("room", [1, 2])
def test_the_rest_of_a_piece_waits_for_the_next_buffer(room: int) -> None:
    stream, buffer = Pieces([3]), bytearray(room)
    assert stream.readinto(buffer) == room
    assert stream.readinto(bytearray(9)) == 3 - room
    assert stream.direct == 0
