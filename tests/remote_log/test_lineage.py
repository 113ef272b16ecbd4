from __future__ import annotations

import json

import pytest

from kafka_remote_client.model import UNKNOWN_EPOCH, EpochEntry
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from tests.support.golden import golden_local
from tests.support.golden_metadata import golden_metadata, golden_offsets, golden_store, live_partitions
from tests.support.tier import LAYOUT, metadata


def lineage(*entries):
    return LeaderEpochLineage([EpochEntry(*entry) for entry in entries])


def test_epoch_for_offset_is_the_last_one_that_began_at_or_before():
    line = lineage((0, 5), (2, 10), (7, 30))
    assert [line.epoch_for_offset(o) for o in (4, 5, 9, 10, 29, 30, 10**9)] == [UNKNOWN_EPOCH, 0, 0, 2, 2, 7, 7]
    assert [line.next_start(o) for o in (4, 5, 10, 30)] == [5, 10, 30, None]


def test_a_batch_has_its_first_offsets_epoch_or_an_earlier_one():
    line = lineage((2, 5), (4, 10))
    assert [line.may_hold(epoch, 0, 4) for epoch in (-1, 0, 2, 3)] == [False, True, True, False]
    assert [line.may_hold(epoch, 3, 7) for epoch in (1, 2, 4)] == [False, True, False]
    assert [line.may_hold(epoch, 9, 12) for epoch in (2, 4)] == [True, False]
    assert not lineage().may_hold(0, 0, 0)


def test_an_epoch_without_offsets_of_its_own_is_left_out():
    assert lineage((0, 0), (1, 10), (2, 10)).entries == (EpochEntry(0, 0), EpochEntry(2, 10))


@pytest.mark.parametrize("entries", [[(1, 0), (1, 5)], [(2, 0), (1, 5)], [(1, 5), (2, 4)]])
def test_raises_for_entries_out_of_order(entries):
    with pytest.raises(ValueError, match="not in order"):
        lineage(*entries)


def test_equality_hash_and_repr_are_by_value():
    assert lineage((0, 0), (1, 4)) == lineage((0, 0), (1, 4))
    assert hash(lineage((0, 0))) == hash(lineage((0, 0)))
    assert lineage((0, 0)) != lineage((0, 1))
    assert lineage((0, 0)) != "0@0"
    assert repr(lineage((0, 0), (3, 7))) == "LeaderEpochLineage(0@0, 3@7)"
    assert list(lineage((0, 0), (3, 7))) == [EpochEntry(0, 0), EpochEntry(3, 7)]


@pytest.mark.parametrize(
    ("line", "epochs", "offset", "end"),
    [
        ([(0, 0)], [(0, 0)], 0, 100),
        ([(0, 0)], [(0, 0)], 50, 100),
        ([(0, 0), (1, 40)], [(0, 0), (1, 40)], 0, 100),
        ([(0, 0), (1, 40)], [(0, 0), (1, 40)], 60, 100),
        # The lineage leaves the segment at 40: an election truncated the old leader's records from there on.
        ([(0, 0), (2, 40)], [(0, 0)], 0, 40),
        ([(0, 0), (2, 40)], [(0, 0), (1, 60)], 10, 40),
        ([(0, 0), (2, 60)], [(0, 0), (1, 40)], 10, 40),
        ([(0, 0), (2, 40)], [(0, 0)], 40, 40),
        ([(3, 0)], [(0, 0)], 0, 0),
        # An epoch that begins after the segment changes nothing.
        ([(0, 0), (9, 100)], [(0, 0)], 0, 100),
        # The segment ends at an epoch without offsets of its own.
        ([(0, 0), (2, 40)], [(0, 0), (1, 40), (2, 40)], 0, 100),
    ],
)
def test_agreed_end_is_where_the_segment_leaves_the_lineage(line, epochs, offset, end):
    assert lineage(*line).agreed_end(metadata(0, 99, epochs=epochs), offset) == end


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_lineage_equals_the_brokers_answers_for_epoch_ends(tip):
    answers = json.loads((golden_local() / "epoch-ends.json").read_text())[f"{tip.topic}-{tip.partition}"]
    cache = golden_metadata().cache(tip)
    line = RemoteIndexCache(golden_store(), LAYOUT).leader_epochs(cache.newest_segment())
    tiered_end = golden_offsets()[tip.topic, tip.partition]["latest_tiered"]["offset"] + 1
    for number, entry in enumerate(line.entries):
        answer = next(a for a in answers if a["asked"] == entry.epoch)
        assert answer["leader_epoch"] == entry.epoch
        following = line.entries[number + 1 : number + 2]
        # The last epoch of the tier ends on the broker's disk.
        assert answer["end_offset"] == following[0].start_offset if following else answer["end_offset"] >= tiered_end


def test_an_epoch_of_one_offset_counts():
    short = lineage((0, 0), (1, 40), (2, 41))
    assert [short.epoch_for_offset(offset) for offset in (39, 40, 41)] == [0, 1, 2]
    assert short.agreed_end(metadata(0, 99, epochs=[(0, 0), (1, 40)]), 0) == 41
    assert lineage((0, 0), (1, 40)).agreed_end(metadata(0, 99, epochs=[(0, 0), (1, 40), (2, 41)]), 0) == 41
    assert short.agreed_end(metadata(0, 99, epochs=[(0, 0), (1, 40), (2, 41)]), 0) == 100
