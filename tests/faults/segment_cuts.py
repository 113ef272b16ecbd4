"""F28: the body of a real segment is cut before any byte. No record is lost or repeated, no byte is read twice.

The segment is Kafka's own (``tests/golden``): 38 batches of several producers and codecs, with the markers of six transactions
among them. It is granted in three ranges, of which the first ends inside a batch. The records must equal those of Kafka's
own consumer.

``python -m tests.faults.segment_cuts`` cuts before every byte, and writes a line to the ledger.
"""

from __future__ import annotations

import base64
import logging
import sys
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import ByteRange, IsolationLevel, NotRemote, RemoteLogSegmentMetadata, SegmentLocation
from kafka_remote_client.plugin import ReadableStream, WritableBuffer
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.records.input_stream import RemoteLogInputStream
from tests.support.golden import read_jsonl
from tests.support.golden_tier import CutStream, GoldenTierSource, ScriptedFetcher, golden_path
from tests.support.ledger import DIRECT_READ, ledger
from tests.support.reading import PATIENT_ENGINE

__all__ = ["ISOLATION", "START", "Reads", "as_kafka_gave_it", "batches", "breaches", "main", "size"]

TOPIC, START, END = "txn", 15, 241
INSIDE_A_BATCH = 10_000
ISOLATION = ("read_committed", "read_uncommitted")
_PER_ENGINE = 30


class ImpatientClock(SystemClock):
    """Retries have no pause, because there are thirty thousand of them."""

    def jitter(self) -> float:
        return 0.0


class BlankedStream:
    """Replaces the first ``count`` bytes by zeros."""

    def __init__(self, stream: ReadableStream, count: int) -> None:
        self._stream = stream
        self._left = count

    def readinto(self, buffer: WritableBuffer, /) -> int:
        count = self._stream.readinto(buffer)
        blank = min(count, self._left)
        memoryview(buffer)[:blank] = bytes(blank)
        self._left -= blank
        return count

    def close(self) -> None:
        self._stream.close()


class CuttingFetcher(ScriptedFetcher):
    """The first stream with byte ``cut`` ends before it. In the retry, the batches that had arrived
    completely are zeros, so a reader that decodes them again, instead of continuing after them, finds damage.
    """

    def __init__(self, ends: list[int]) -> None:
        super().__init__()
        self._ends = ends
        self._guard = threading.Lock()
        self.cut(0)

    def cut(self, at: int) -> None:
        """Cuts the next read there."""
        self._at = at
        self._attempts = 0
        self.fetched.clear()
        self.streams.clear()

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        stream = super().fetch_log_segment(remote_log_segment_metadata, start_position, end_position)
        if not start_position <= self._at < end_position:
            return stream
        with self._guard:
            self._attempts += 1
            attempt = self._attempts
        if attempt == 1:
            return CutStream(stream, self._at - start_position)
        return BlankedStream(stream, max(0, self.kept - start_position))

    @property
    def kept(self) -> int:
        """Returns the end of the last batch before the cut."""
        before = bisect_right(self._ends, self._at)
        return self._ends[before - 1] if before else 0


class SplitSource(GoldenTierSource):
    """Its first range ends inside a batch."""

    def answer(self, *arguments: Any, **options: Any) -> SegmentLocation | NotRemote:
        found = super().answer(*arguments, **options)
        assert isinstance(found, SegmentLocation)
        first, second, third = found.ranges
        assert (first.range.start, third.range.end) == (0, found.metadata.segment_size_in_bytes)
        front = attrs.evolve(first, range=ByteRange(0, INSIDE_A_BATCH))
        middle = attrs.evolve(second, range=ByteRange(INSIDE_A_BATCH, second.range.end))
        return attrs.evolve(found, ranges=(front, middle, third))


def segment_file() -> Path:
    (path,) = golden_path("remote", "kafka-tiered-storage").glob(f"{TOPIC}-0-*/{START:020d}-*.log")
    return path


def size() -> int:
    """Bytes of the segment."""
    return segment_file().stat().st_size


def batches() -> list[BatchHeader]:
    return list(RemoteLogInputStream(segment_file().read_bytes()))


def batch_ends() -> list[int]:
    ends = [header.end for header in batches()]
    assert len(ends) == 38
    assert INSIDE_A_BATCH not in ends
    return ends


def as_kafka_gave_it(isolation: str) -> list[tuple[Any, ...]]:
    """Offset, timestamp, epoch, key, value and headers of each record of the segment."""
    lines = read_jsonl(golden_path("expected", f"{TOPIC}-0.{isolation}.jsonl.gz"))
    return [
        (
            line["offset"],
            line["timestamp"],
            line["leader_epoch"],
            _bytes(line["key"]),
            _bytes(line["value"]),
            [(name, _bytes(content)) for name, content in line["headers"]],
        )
        for line in lines
        if START <= line["offset"] < END
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Reads:
    """Reads with a cut, one after the other. An engine serves a limited number, because it limits retries per store."""

    def __init__(self, *, retries: int, in_flight: int) -> None:
        self._retries = retries
        self._in_flight = in_flight
        self._fetcher = CuttingFetcher(batch_ends())

    def cuts(self, places: Sequence[int]) -> Iterator[tuple[int, str, list[tuple[Any, ...]], ReadEnd]]:
        """Returns for a cut before each byte of ``places``: place, isolation level, received rows, end of the read."""
        for first in range(0, len(places), _PER_ENGINE):
            with self._engine() as engine:
                for cut in places[first : first + _PER_ENGINE]:
                    isolation = ISOLATION[cut % 2]
                    self._fetcher.cut(cut)
                    yield cut, isolation, *_read(engine, isolation)

    @contextmanager
    def _engine(self) -> Iterator[FetchEngine]:
        clock = ImpatientClock()
        config = attrs.evolve(
            PATIENT_ENGINE, retries=self._retries, breaker_failures=2 * _PER_ENGINE, max_in_flight=self._in_flight
        )
        engine = FetchEngine(SplitSource(range_bytes=8_000), self._fetcher, config, clock=clock, metrics=FetchMetrics(clock))
        try:
            yield engine
        finally:
            engine.close()
        assert engine.memory.held == 0

    @property
    def kept(self) -> int:
        """Returns the end of the last batch before the cut."""
        return self._fetcher.kept

    @property
    def fetched(self) -> list[tuple[int, int]]:
        """Returns the ranges that the last read requested."""
        return self._fetcher.fetched


def _read(engine: FetchEngine, isolation: str) -> tuple[list[tuple[Any, ...]], ReadEnd]:
    reader = engine.reader(ReadRequest(TOPIC, 0, START, isolation_level=IsolationLevel[isolation.upper()], end_offset=END))
    rows: list[tuple[Any, ...]] = []
    for item in reader.blocks(timeout=60):
        if isinstance(item, ReadEnd):
            return rows, item
        for offset, timestamp, _, epoch, key, value, headers in item.rows():
            rows.append((offset, timestamp, epoch, key, value, list(headers)))
    raise AssertionError("no end")


def breaches(places: Sequence[int]) -> list[str]:
    """Returns the errors of reads that were cut before a byte of ``places`` and could retry. Isolation levels alternate."""
    truth = {isolation: as_kafka_gave_it(isolation) for isolation in ISOLATION}
    assert 0 < len(truth["read_committed"]) < len(truth["read_uncommitted"]), "some transactions were aborted"
    reads, found = Reads(retries=1, in_flight=3), []
    for cut, isolation, rows, end in reads.cuts(places):
        if end.reason != "end":
            found.append(f"a cut at {cut} ended the read: {end}")
        if rows != truth[isolation]:
            found.append(f"a cut at {cut} gave other records under {isolation}")
        if len(reads.fetched) != 4:
            found.append(f"a cut at {cut} had these ranges asked for, not one of three again: {reads.fetched}")
    return found


def main() -> int:
    """Cuts before every byte. Returns the number of violations."""
    logging.basicConfig(level=logging.CRITICAL)
    found = breaches(range(size()))
    ledger("segment-cuts", describes=DIRECT_READ, cuts=size(), violations=len(found))
    print(*found, sep="\n", end="\n" if found else "")
    return len(found)


if __name__ == "__main__":
    sys.exit(bool(main()))
