from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from kafka_remote_client import records
from kafka_remote_client.errors import CorruptRecordError, UnsupportedFormatError
from kafka_remote_client.records import completed_fetch, read_batches, reader
from tests.support.batches import Rec, batch

pytestmark = pytest.mark.usefixtures("kernel")


def test_cut_off_last_batch_is_left_out() -> None:
    block = read_batches(batch(0) + batch(1)[:30])
    assert (len(block), block.next_offset) == (1, 1)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind: type) -> None:
    assert read_batches(kind(batch(3))).offset(0) == 3


def test_fetch_offset_skips_batches_and_records() -> None:
    data = batch(0, [Rec(0), Rec(1)]) + batch(5, [Rec(0), Rec(1)])
    assert [row[0] for row in read_batches(data, fetch_offset=6).rows()] == [6]


def test_damage_anywhere_raises() -> None:
    bad = bytearray(batch(1))
    bad[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        read_batches(batch(0) + bytes(bad))
    with pytest.raises(CorruptRecordError):
        read_batches(batch(0) + batch(1, b"\1", count=1))


def test_the_decompression_cap_has_bounds() -> None:
    with pytest.raises(ValueError, match="max_decompressed_bytes"):
        read_batches(b"", max_decompressed_bytes=0)


def test_buffer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FEED", 100)
    with pytest.raises(ValueError, match="at most 100 bytes"):
        read_batches(bytes(101))


def test_all_batches_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FEED", 2000)
    monkeypatch.setattr(completed_fetch, "MAX_FEED", 2000)
    data = b"".join(batch(i, [Rec(value=bytes(900))], codec=3) for i in range(4))
    with pytest.raises(UnsupportedFormatError, match="max_decompressed_bytes"):
        read_batches(data, max_decompressed_bytes=1000)


def test_every_public_name_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "records.md").read_text()
    for name in records.__all__:
        assert f"`{name}" in page, name
        value = getattr(records, name)
        for member, what in vars(value).items() if inspect.isclass(value) else ():
            if not member.startswith("_") and (callable(what) or isinstance(what, property)):
                assert inspect.getdoc(what), f"{name}.{member}"
