"""Holes in the log of a topic that is known to be compacted are normal. Everything else about its batches is still checked.

The rules are those of Kafka's cleaner (KIP-1272 in its version of 2026-01-12 keeps it): batches keep their base and last
offset and their leader epoch, lose records, are kept empty for the producer's state, or go; segments keep the offset at which
they begin, and in the tier they end where the next one begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import attrs
import crc32c
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.location.direct_location import direct_location
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, NotRemote, RemoteLogSegmentState, SegmentLocation, TopicIdPartition
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from tests.support.one_by_one import OneByOne
from tests.support.tier import LAYOUT, TIP, Tier, batch, update

PATIENCE = 60.0
LAST_OFFSET_DELTA_AT, COUNT_AT, CRC_AT, CRC_START = 23, 57, 17, 21


def spanning(raw: bytes, offsets: int, *, records: int | None = None) -> bytes:
    """A batch that spans ``offsets``; with ``records=0`` as the cleaner keeps an empty one."""
    made = bytearray(raw if records is None else raw[:61])
    struct.pack_into(">i", made, LAST_OFFSET_DELTA_AT, offsets - 1)
    if records is not None:
        struct.pack_into(">i", made, COUNT_AT, records)
        struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">I", made, CRC_AT, crc32c.crc32c(made[CRC_START:]))
    return bytes(made)


def moved(raw: bytes, base_offset: int) -> bytes:
    """A batch with another base offset, which no checksum covers."""
    return struct.pack(">q", base_offset) + raw[8:]


HOLES = [
    [batch(0, 5), spanning(batch(5, 2), 5), batch(20, 5), spanning(batch(25), 10, records=0), batch(35, 5)],
    [batch(60, 5), batch(70, 5)],
    [batch(100, 5)],
]
ENDS = (59, 99, 104)
OFFSETS = [*range(7), *range(20, 25), *range(35, 40), *range(60, 65), *range(70, 75), *range(100, 105)]


class MetadataSource(OneByOne):
    """Locations by the metadata of segments, in ranges of one batch."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._resolver = RemoteSegmentResolver(tier.store, LAYOUT)

    def answer(self, question: LocationQuestion, _deadline: Deadline) -> SegmentLocation | NotRemote:
        found = self._resolver.resolve(self._tier.cache, attrs.evolve(question, range_bytes=1))
        if isinstance(found, NotRemote):
            return found
        return direct_location(self._tier.store, LAYOUT, found, aborted=())

    def close(self) -> None:
        """Has nothing to close."""


class LateSource(MetadataSource):
    """Grants begin one range behind the batch with the requested offset."""

    def answer(self, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:
        found = super().answer(question, deadline)
        return found if isinstance(found, NotRemote) else attrs.evolve(found, ranges=found.ranges[1:])


@attrs.define
class Reading:
    """What a read gave: offsets, how it ended, and for which partitions the policy was asked."""

    offsets: list[int] = attrs.field(factory=list)
    end: ReadEnd | None = None
    asked: list[TopicIdPartition] = attrs.field(factory=list)


def read(
    segments: Sequence[Sequence[bytes]],
    *,
    compacted: bool,
    start: int = 0,
    end: int | None = 105,
    ends: Sequence[int] = ENDS,
    allow_offset_gaps: bool = False,
    change: Callable[[Tier], None] = lambda _tier: None,
    source: Callable[[Tier], MetadataSource] = MetadataSource,
) -> Reading:
    tier, found = Tier(), Reading()
    for number, (batches, last) in enumerate(zip(segments, ends, strict=True), 1):
        tier.add(batches, number=number, end=last, indexed=range(1, len(batches), 2))
    change(tier)

    def asked(partition: TopicIdPartition, deadline: Deadline) -> bool:
        assert not deadline.expired()
        found.asked.append(partition)
        return compacted

    config = RemoteFetchConfig(enabled=True, allow_offset_gaps=allow_offset_gaps, location_timeout_ms=60_000)
    clock = SystemClock()
    engine = FetchEngine(
        source(tier),
        StoreFetcher(tier.store),
        config,
        clock=clock,
        metrics=FetchMetrics(clock),
        compacted=asked,
    )
    try:
        reader = engine.reader(
            ReadRequest(TIP.topic, TIP.partition, start, end_offset=end, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        )
        for item in reader.blocks(PATIENCE):
            if isinstance(item, ReadEnd):
                found.end = item
                return found
            found.offsets += [row[0] for row in item.rows()]
        raise AssertionError("no end")
    finally:
        engine.close()


def outcome(found: Reading) -> tuple[list[int], str, int]:
    assert found.end is not None
    return found.offsets, found.end.reason, found.end.next_offset


def test_a_compacted_topic_is_read_across_all_holes() -> None:
    found = read(HOLES, compacted=True)
    assert outcome(found) == (OFFSETS, "end", 105)
    assert {one.topic for one in found.asked} == {TIP.topic}


@pytest.mark.parametrize("start", [3, 7, 10, 24, 25, 34, 40, 49, 50, 59, 65, 75, 99, 100])
def test_a_read_may_begin_in_a_hole(start: int) -> None:
    assert outcome(read(HOLES, compacted=True, start=start)) == ([o for o in OFFSETS if o >= start], "end", 105)


@pytest.mark.parametrize("end", [8, 30, 45, 55, 68])
def test_a_read_may_end_in_a_hole(end: int) -> None:
    assert outcome(read(HOLES, compacted=True, end=end)) == ([o for o in OFFSETS if o < end], "end", end)


@pytest.mark.parametrize(("start", "reached", "reason"), [(0, 10, "corrupt"), (35, 40, "bad-location"), (70, 70, "corrupt")])
def test_in_any_other_topic_the_broker_serves_a_hole(start: int, reached: int, reason: str) -> None:
    found = read(HOLES, compacted=False, start=start)
    assert outcome(found) == ([o for o in OFFSETS if start <= o < reached], reason, reached)
    assert len(found.asked) >= 1


def test_a_log_without_holes_never_asks_for_the_policy() -> None:
    whole = [[batch(n, 10) for n in range(0, 50, 10)], [batch(50, 50)], [batch(100, 5)]]
    found = read(whole, compacted=True, ends=(49, 99, 104))
    assert outcome(found) == (list(range(105)), "end", 105)
    assert found.asked == []


def test_the_setting_allows_holes_without_a_question() -> None:
    found = read(HOLES, compacted=False, allow_offset_gaps=True)
    assert outcome(found) == (OFFSETS, "end", 105)
    assert found.asked == []


@pytest.mark.parametrize(
    "third",
    [
        batch(22, 3),
        batch(0, 5),
        moved(batch(30, 5), 103),
        batch(30, 5, epoch=1),
        batch(30, 5)[:-1] + b"\1",
        spanning(batch(30, 5), 4),
    ],
    ids=["overlap", "back", "beyond the segment", "leader epoch", "checksum", "more records than offsets"],
)
def test_damage_in_a_compacted_topic_is_still_found(third: bytes) -> None:
    found = read([[batch(0, 5), batch(20, 5), third]], compacted=True, ends=(104,))
    assert outcome(found) == ([*range(5), *range(20, 25)], "corrupt", 25)


def test_the_setting_does_not_ask_about_an_overlap() -> None:
    batches = [batch(0, 5), batch(20, 5), batch(22, 3)]
    found = read([batches], compacted=True, ends=(104,), allow_offset_gaps=True)
    assert outcome(found) == ([*range(5), *range(20, 25)], "corrupt", 25)
    assert found.asked == []


def test_the_setting_does_not_ask_about_a_grant_that_begins_late() -> None:
    batches = [batch(0, 10), batch(10, 10), batch(20, 10), batch(30, 10)]
    found = read([batches], compacted=True, start=15, ends=(39,), end=40, allow_offset_gaps=True, source=LateSource)
    assert outcome(found) == ([], "corrupt", 15)
    assert found.asked == []


def test_a_lost_segment_is_no_compaction() -> None:
    def lose(tier: Tier) -> None:
        (lost,) = (one for one in tier.cache.list_all_remote_log_segments() if one.start_offset == 60)
        for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
            assert tier.cache.update_remote_log_segment_metadata(update(lost, state))

    found = read(HOLES, compacted=True, change=lose)
    assert outcome(found) == ([o for o in OFFSETS if o < 60], "missing", 60)
