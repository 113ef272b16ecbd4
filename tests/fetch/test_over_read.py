"""Over-read: each received byte is in a batch that the owner took, or counts. Sizes are those of the golden tier's files."""

from __future__ import annotations

import struct
import threading
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import LocationExpiredError, RemoteStorageUnavailableError
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.model import ByteRange, SegmentLocation
from kafka_remote_client.plugin import ReadableStream
from kafka_remote_client.records import RecordBlock
from tests.support.golden import golden_local
from tests.support.golden_tier import CutStream, FlippedStream, GoldenTierSource, ScriptedFetcher
from tests.support.reader_rig import CONFIG, TIERED_END, TOPIC, Rig, range_starts, rig

ONE_AT_A_TIME = attrs.evolve(CONFIG, max_in_flight=1)
FRONT = struct.Struct(">qi")


def needed(start: int, end: int, topic: str = TOPIC) -> int:
    """Returns the bytes of the batches with offsets of ``[start, end)``, by the headers in the log files."""
    sizes: dict[int, int] = {}
    for path in sorted((golden_local() / "remote" / "kafka-tiered-storage").glob(f"{topic}-0-*/*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            base, length = FRONT.unpack_from(data, position)
            (delta,) = struct.unpack_from(">i", data, position + 23)
            if base < end and base + delta >= start:
                sizes[base] = length + FRONT.size
            position += length + FRONT.size
    return sum(sizes.values())


def received_and_over(made: Rig) -> tuple[int, int]:
    """Reads the metrics after the engine is closed, with no request in flight."""
    found: Any = made.metrics.snapshot()
    return found["remote-fetch-bytes-total"], found["remote-fetch-over-read-bytes-total"]


def test_a_whole_partition_is_read_without_over_read() -> None:
    with rig() as made:
        made.read()
    assert received_and_over(made) == (needed(0, TIERED_END), 0)


def test_batches_before_the_first_offset_count() -> None:
    """A grant begins at the position of an index entry: here the segment's first byte."""
    source, segments = GoldenTierSource(), []

    def from_the_first_byte(location: SegmentLocation) -> SegmentLocation:
        first, *rest = location.ranges
        segments.append(location.metadata.start_offset)
        return attrs.evolve(location, ranges=(attrs.evolve(first, range=ByteRange(0, first.range.end)), *rest))

    source.answers.append(from_the_first_byte)
    with rig(source, config=ONE_AT_A_TIME) as made:
        made.read(start=1234, end_offset=TIERED_END)
    before = needed(segments[0], TIERED_END) - needed(1234, TIERED_END)
    assert before > 0
    assert received_and_over(made) == (needed(1234, TIERED_END) + before, before)


@pytest.mark.parametrize("topic", [TOPIC, "codec-zstd-java", "txn"])
@pytest.mark.parametrize(("start", "end"), [(1234, 2345), (1, 2), (777, 778), (50, 2400)])
def test_bytes_outside_the_interval_count(topic: str, start: int, end: int) -> None:
    with rig(config=ONE_AT_A_TIME) as made:
        made.read(topic, start=start, end_offset=end)
    received, over = received_and_over(made)
    assert received - over == needed(start, end, topic)


@pytest.mark.parametrize(
    "fault",
    [
        lambda stream: CutStream(stream, 15_000),
        lambda stream: FlippedStream(stream, 10_000),
        RemoteStorageUnavailableError("refused"),
        LocationExpiredError("old"),
    ],
    ids=["cut", "damaged", "refused", "expired"],
)
@pytest.mark.parametrize("in_flight", [1, 8])
def test_bytes_that_a_retry_receives_again_count(fault: Any, in_flight: int) -> None:
    fetcher = ScriptedFetcher({range_starts()[1]: [fault]})
    with rig(fetcher=fetcher, config=attrs.evolve(CONFIG, max_in_flight=in_flight)) as made:
        made.read()
    received, over = received_and_over(made)
    assert received - over == needed(0, TIERED_END)
    if in_flight == 1:
        # One attempt received 15,000 bytes or the whole range, and is repeated from the start.
        first, second = range_starts()[1:3]
        repeated = {"cut": 15_000, "damaged": second - first, "refused": 0, "expired": 0}
        assert over == repeated[_name(fault)]


def _name(fault: Any) -> str:
    if isinstance(fault, Exception):
        return {"unavailable": "refused", "expired": "expired"}[getattr(fault, "cause", "")]
    return "cut" if "CutStream" in fault.__code__.co_names else "damaged"


def test_blocks_and_ranges_read_ahead_count_when_the_reader_stops() -> None:
    with rig() as made:
        reader = made.engine.reader(ReadRequest(TOPIC, 0, 0))
        block = made.engine.wait_for(reader, 60)
        assert isinstance(block, RecordBlock)
        end = block.next_offset
        reader.stop()
    received, over = received_and_over(made)
    assert received - over == needed(0, end)


def test_a_range_that_lands_after_the_reader_stopped_counts() -> None:
    opened, released = threading.Event(), threading.Event()

    def held(stream: ReadableStream) -> ReadableStream:
        opened.set()
        assert released.wait(60)
        return stream

    fetcher = ScriptedFetcher({0: [held]})
    with rig(fetcher=fetcher, config=ONE_AT_A_TIME) as made:
        reader = made.engine.reader(ReadRequest(TOPIC, 0, 0))
        assert opened.wait(60)
        reader.stop()
        released.set()
    received, over = received_and_over(made)
    assert received == over == range_starts()[1]


def test_a_batch_shared_by_two_ranges_counts_once_or_not_at_all() -> None:
    """The ranges of this source end inside batches: the beginning of a batch waits for the next range."""
    source = GoldenTierSource(range_bytes=20_000)
    source.answers.append(_cut_inside_batches)
    with rig(source, config=ONE_AT_A_TIME) as made:
        made.read(end_offset=900)
    received, over = received_and_over(made)
    assert received - over == needed(0, 900)


def _cut_inside_batches(location: SegmentLocation) -> SegmentLocation:
    moved, start = [], location.ranges[0].range.start
    for granted in location.ranges[:-1]:
        end = granted.range.end + 100
        moved.append(attrs.evolve(granted, range=ByteRange(start, end)))
        start = end
    last = location.ranges[-1]
    return attrs.evolve(location, ranges=(*moved, attrs.evolve(last, range=ByteRange(start, last.range.end))))
