"""The kernel's own memory and exits that no segment reaches. The tests of its Python twin cover the rest."""

from __future__ import annotations

import ctypes

import pytest

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.records import read_batches
from tests.support.batches import Rec, batch, control_batch
from tests.support.decoders import IMPLEMENTATIONS

pytestmark = pytest.mark.skipif("compiled" not in IMPLEMENTATIONS, reason="the kernel is not built")
kernel = IMPLEMENTATIONS.get("compiled")
LARGE = 5 << 20  # larger than one huge page


@pytest.mark.parametrize("codec", [3, 4])
def test_large_batches_share_growing_memory(codec: int) -> None:
    value = bytes(range(256)) * (LARGE >> 8)
    data = b"".join(batch(i, [Rec(0, value=value)], codec=codec) for i in range(3))
    assert [row[5] == value for row in read_batches(data).rows()] == [True] * 3


def address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def test_memory_is_reused_if_slightly_more_is_needed() -> None:
    """Ranges of one length may hold more and more records, and a fresh page costs more than decoding into a used one."""
    size = 49 << 20  # the memory kept before is smaller
    kept = kernel.Arena()
    place = address(kept.reserve(size))
    del kept
    assert address(kernel.Arena().reserve(size + size // 50)) == place


def test_an_impossible_record_count_allocates_no_memory() -> None:
    with pytest.raises(CorruptRecordError):
        read_batches(batch(0, [Rec()], codec=3, count=2**31 - 1))


def test_a_failed_allocation_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        kernel.Arena().reserve(1 << 60)


def test_an_exception_that_is_not_damage_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel, "copy_records", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_batches(batch(0, [Rec()], codec=4, payload=b"no zstd"))


def test_only_the_codecs_own_error_sends_a_batch_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "decompression_error", KeyError)
    with pytest.raises(Exception, match=r"invalid|corrupt|literal"):
        read_batches(batch(0, [Rec()], codec=2, payload=b"\x40" + b"\xff" * 20))


def test_an_exception_while_python_reads_a_marker_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel, "is_abort_marker", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_batches(control_batch(0, 1, 0, codec=1))
