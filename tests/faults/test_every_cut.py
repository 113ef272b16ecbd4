"""F28: a segment that is cut before any byte gives Kafka's records. A campaign cuts at all bytes (``segment_cuts.py``)."""

from __future__ import annotations

import pytest

from tests.faults.segment_cuts import ISOLATION, START, Reads, as_kafka_gave_it, batches, breaches, size
from tests.support.run_summary import RecordProperty

SHARDS = 3
EACH = 13
"""The distance between cuts. It is odd, so that both isolation levels are read."""


@pytest.mark.fault("F28")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_segment_cut_at_any_byte_gives_kafkas_records(shard: int, record_property: RecordProperty) -> None:
    places = range(shard * size() // SHARDS, (shard + 1) * size() // SHARDS, EACH)
    record_property("cuts", len(places))
    assert breaches(places) == []


@pytest.mark.fault("F28")
def test_batches_before_a_cut_are_delivered_and_the_broker_continues() -> None:
    """Without retries, the complete batches before the cut arrive. Cuts at the edges, heads and middles of all batches."""
    truth = {isolation: as_kafka_gave_it(isolation) for isolation in ISOLATION}
    after = {header.end: header.last_offset + 1 for header in batches()} | {0: START}
    places = {place for one in batches() for place in (one.position, *_about(one.position, one.end))}
    reads = Reads(retries=0, in_flight=1)  # so that no request of one read is in flight during the next
    for cut, isolation, rows, end in reads.cuts(sorted(places)):
        assert (end.reason, end.next_offset) == ("unavailable", after[reads.kept]), cut
        assert rows == [row for row in truth[isolation] if row[0] < end.next_offset], cut


def _about(start: int, end: int) -> list[int]:
    return [start + 1, start + 12, start + 17, start + 61, (start + end) // 2, end - 1]
