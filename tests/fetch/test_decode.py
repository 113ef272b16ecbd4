"""What one landed range gives: blocks, then damage or a defect. How batches are judged: test_grant_read."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import CorruptRecordError, DirectFetchError, UnsupportedFormatError
from kafka_remote_client.fetch.decode import decode_range
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import ByteRange, GrantedRange
from kafka_remote_client.records import RecordBlock
from tests.support.golden_tier import ScriptedFetcher


class KeepingFetcher(ScriptedFetcher):
    """Keeps ranges, and notes those that it is told to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[tuple[int, int]] = []

    def discard(self, _: object, start: int, end: int) -> None:
        self.forgotten.append((start, end))


BLOCK = cast("RecordBlock", object())
READ = RangeRead(GrantedRange(ByteRange(3, 9), b""))


def decoded(failure: Exception | None) -> tuple[list[RecordBlock], DirectFetchError | None, KeepingFetcher, FetchMetrics]:
    """What a grant gives that has one block and then, perhaps, a failure."""

    def decode(_: RangeRead, *, borrow: bool) -> Iterator[RecordBlock]:
        assert borrow
        yield BLOCK
        if failure is not None:
            raise failure

    segment = SimpleNamespace(remote_log_segment_id="segment-7")
    location = SimpleNamespace(metadata=segment, metadata_for=lambda _: segment)
    grant: Any = SimpleNamespace(decode=decode, location=location)
    fetcher, metrics = KeepingFetcher(), FetchMetrics(SystemClock())
    blocks, error = decode_range(fetcher, cast("GrantRead", grant), READ, metrics, borrow=True)
    return blocks, error, fetcher, metrics


def test_a_sound_range_gives_its_blocks_and_no_error() -> None:
    blocks, error, fetcher, metrics = decoded(None)
    assert (blocks, error, fetcher.forgotten) == ([BLOCK], None, [])
    assert metrics.snapshot()["remote-fetch-internal-errors-total"] == 0


@pytest.mark.parametrize("damage", [CorruptRecordError("bad"), UnsupportedFormatError("new")], ids=["corrupt", "unsupported"])
def test_a_damaged_range_gives_what_came_before_and_is_forgotten(damage: DirectFetchError) -> None:
    blocks, error, fetcher, metrics = decoded(damage)
    assert (blocks, fetcher.forgotten) == ([BLOCK], [(3, 9)])
    assert error is damage
    assert metrics.snapshot()["remote-fetch-internal-errors-total"] == 0


def test_a_defect_is_counted_and_logged_with_its_segment(caplog: pytest.LogCaptureFixture) -> None:
    blocks, error, fetcher, metrics = decoded(IndexError("defect"))
    assert (blocks, str(error), fetcher.forgotten) == ([BLOCK], "decoding failed", [])
    assert metrics.snapshot()["remote-fetch-internal-errors-total"] == 1
    assert "decoding [3, 9) of segment-7 failed; the broker takes over" in caplog.text
