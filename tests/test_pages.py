from __future__ import annotations

import mmap

import pytest

from kafka_remote_client.pages import new_pages


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_new_pages_are_zero_writable_and_their_own(size: int) -> None:
    with new_pages(size) as memory:
        assert memory == bytes(size)
        memory[:] = b"x" * size
        assert isinstance(memory.obj, mmap.mmap)
    with new_pages(size) as another:
        assert another == bytes(size)
