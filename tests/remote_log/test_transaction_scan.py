"""The transactions that are open at the end of the tier, found by a scan if there is no snapshot."""

from __future__ import annotations

import struct
import zlib

import pytest

from kafka_remote_client.errors import CorruptIndexError, CorruptRecordError
from kafka_remote_client.model import AbortedTransaction, EpochEntry
from kafka_remote_client.remote_log import transaction_scan
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.transaction_scan import open_transactions_at_end
from tests.support.golden_metadata import golden_cache, golden_store, live_partitions
from tests.support.tier import LAYOUT, Tier, batch, legacy_entry

SOUND = batch(0, 5, producer_id=1)


@pytest.fixture
def tier():
    return Tier()


def open_at_end(tier, lineage=None):
    resolver = RemoteSegmentResolver(tier.store, LAYOUT)
    found = open_transactions_at_end(resolver.indexes, resolver.log(tier.cache, lineage))
    return [(one.producer_id, one.first_offset) for one in found]


def without_snapshot(tier, *segments):
    for segment in segments:
        tier.remove(segment, ObjectKind.PRODUCER_SNAPSHOT)


def test_a_valid_snapshot_avoids_reading_the_log(tier):
    tier.add([batch(0, 10)], number=1, open_transactions=[(9, 7), (8, 3)])
    assert open_at_end(tier) == [(8, 3), (9, 7)]
    assert not tier.store.reads(".log")


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 60])
def test_without_a_snapshot_the_batches_are_scanned(tier, damage):
    segment = tier.add(
        [
            batch(0, 5, producer_id=7),
            batch(5, 5),
            batch(10, 2, producer_id=8),
            batch(12, producer_id=7, marker="abort"),
            batch(13, 2, producer_id=9),
            batch(15, 2, producer_id=7),
            batch(17, producer_id=8, marker="commit"),
        ],
        number=1,
        open_transactions=[(1, 1)],
    )
    if damage is None:
        without_snapshot(tier, segment)
    else:
        tier.put(segment, ObjectKind.PRODUCER_SNAPSHOT, damage)
    assert open_at_end(tier) == [(9, 13), (7, 15)]


def test_the_scan_begins_after_the_last_valid_snapshot(tier):
    tier.add([batch(0, 10, producer_id=1)], number=1, open_transactions=[(1, 0), (2, 4)])
    rest = [
        tier.add([batch(10, 5, producer_id=3), batch(15, producer_id=1, marker="commit")], number=2),
        tier.add([batch(16, 5, producer_id=2)], number=3),
    ]
    without_snapshot(tier, *rest)
    assert open_at_end(tier) == [(2, 4), (3, 10)]
    first = LAYOUT.object_key(rest[0], ObjectKind.LOG)
    assert {key for _, key, _, _ in tier.store.calls if key.endswith(".log")} == {
        first,
        LAYOUT.object_key(rest[1], ObjectKind.LOG),
    }


def test_the_scan_stays_in_the_last_segments_without_a_gap(tier):
    one = tier.add([batch(0, 10, producer_id=1)], number=1)
    two = tier.add([batch(20, 10, producer_id=2), batch(30, producer_id=5, marker="abort")], number=2)
    without_snapshot(tier, one, two)
    assert open_at_end(tier) == [(2, 20)]


def test_the_scan_ends_where_the_lineage_leaves_a_segment(tier):
    tier.add([batch(0, 5, producer_id=1), batch(5, 5, producer_id=2), batch(10, producer_id=1, marker="commit")], number=1)
    assert open_at_end(tier, lineage=None) == []
    lineage = [EpochEntry(0, 0), EpochEntry(3, 5)]
    assert open_at_end(tier, lineage) == [(1, 0)]


def test_a_batch_larger_than_a_piece_is_read_whole(tier, monkeypatch):
    monkeypatch.setattr(transaction_scan, "_PIECE", 100)
    segment = tier.add([batch(0, 50, producer_id=1), batch(50, 1, producer_id=2), batch(51, 40, producer_id=3)], number=1)
    without_snapshot(tier, segment)
    assert open_at_end(tier) == [(1, 0), (2, 50), (3, 51)]


def test_old_formats_have_no_transactions(tier):
    def sealed(entry):
        return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]

    segment = tier.add([sealed(legacy_entry(4, 1)), sealed(legacy_entry(9, 0))], number=1, end=9)
    without_snapshot(tier, segment)
    assert open_at_end(tier) == []


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        (SOUND[:-1] + b"x", CorruptRecordError),
        (SOUND[:-1], CorruptIndexError),
        (SOUND[:10], CorruptIndexError),
        (b"", CorruptIndexError),
    ],
    ids=["checksum", "cut", "cut-in-front", "gone"],
)
def test_an_unreadable_log_decides_nothing(tier, damaged, error):
    segment = tier.add([SOUND], number=1)
    tier.put(segment, ObjectKind.LOG, damaged)
    without_snapshot(tier, segment)
    with pytest.raises(error):
        open_at_end(tier)


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_scans_equal_their_snapshots(tip, monkeypatch):
    cache = golden_cache(tip.topic, tip.partition)
    resolver = RemoteSegmentResolver(golden_store(), LAYOUT)
    log = resolver.log(cache)
    by_snapshot = open_transactions_at_end(resolver.indexes, log)
    monkeypatch.setattr(RemoteIndexCache, "open_transactions", lambda *_: (_ for _ in ()).throw(CorruptIndexError("damaged")))
    assert open_transactions_at_end(resolver.indexes, log) == by_snapshot
    assert (by_snapshot == (AbortedTransaction(by_snapshot[0].producer_id, 2455),)) if tip.topic == "txn" else not by_snapshot


def test_the_batch_that_contains_the_log_start_counts(tier):
    """DeleteRecords moved the log start, and the start of the first epoch, into the batch."""
    without_snapshot(tier, tier.add([batch(0, 10, producer_id=7), batch(10, 5)], number=1))
    assert open_at_end(tier, [EpochEntry(0, 3)]) == [(7, 0)]
