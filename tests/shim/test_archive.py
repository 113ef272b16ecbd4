"""The broker's own read of the tier: whole batches, from the one that holds the offset."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.protocol.primitives import ZERO_UUID
from kafka_remote_client.records import read_batches
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.shim.archive import Archive, ArchivedLog
from tests.support.tier import LAYOUT, TIP, Tier, batch

FIRST = [batch(10 * number, 10) for number in range(5)]
SECOND = [batch(50, 10)]
SIZE = len(FIRST[0])


@pytest.fixture
def archive() -> Archive:
    tier = Tier()
    segments = [tier.add(FIRST, number=1, indexed=(2, 4)), tier.add(SECOND, number=2)]
    store = RemoteLogMetadataStore()
    store._caches[TIP] = tier.cache
    assert len(segments) == 2
    return Archive(store, RemoteSegmentResolver(tier.store, LAYOUT), tier.store)


@pytest.fixture
def log(archive: Archive) -> ArchivedLog:
    found = archive.log(TIP.topic, TIP.topic_id, TIP.partition)
    assert found is not None
    return found


def test_a_partition_is_found_by_name_or_id(archive: Archive, log: ArchivedLog) -> None:
    assert archive.log(TIP.topic, ZERO_UUID, TIP.partition) == log
    assert archive.log("", TIP.topic_id, TIP.partition) == log
    assert archive.log(TIP.topic, ZERO_UUID, TIP.partition + 1) is None
    assert archive.log("another", ZERO_UUID, TIP.partition) is None
    assert (log.start, log.end) == (0, 60)


def test_a_partition_without_finished_segments_is_not_archived() -> None:
    tier = Tier()
    store = RemoteLogMetadataStore()
    store._caches[TIP] = tier.cache
    assert (
        Archive(store, RemoteSegmentResolver(tier.store, LAYOUT), tier.store).log(TIP.topic, ZERO_UUID, TIP.partition) is None
    )


@pytest.mark.parametrize(
    ("offset", "max_bytes", "batches"),
    [
        (0, 1, FIRST[:1]),
        (0, 2 * SIZE, FIRST[:2]),
        (0, 3 * SIZE - 1, FIRST[:2]),
        (25, 1, FIRST[2:3]),
        (25, 1 << 20, FIRST[2:]),
        (49, 1, FIRST[4:]),
        (50, 1 << 20, SECOND),
        (60, 1 << 20, []),
    ],
)
def test_reads_whole_batches_that_fit_and_at_least_one(
    log: ArchivedLog, offset: int, max_bytes: int, batches: list[bytes]
) -> None:
    assert log.read(offset, max_bytes) == b"".join(batches)


def test_a_segment_is_read_from_its_start_to_its_end(log: ArchivedLog) -> None:
    offset, offsets = 0, []
    while data := log.read(offset, 200):
        block = read_batches(data, fetch_offset=offset)
        offsets += [row[0] for row in block.rows()]
        offset = block.next_offset
    assert offsets == list(range(60))


def test_finds_the_first_record_of_a_time(log: ArchivedLog) -> None:
    found = log.offset_for_time(1033)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (33, 1033, 0)
    assert log.offset_for_time(9999) is None


def test_who_reads_committed_is_told_what_was_aborted() -> None:
    tier = Tier()
    aborted = [batch(0, 5, producer_id=7), batch(5, 1, producer_id=7, marker="abort"), batch(6, 4)]
    tier.add(aborted, number=1, aborted=[(7, 0, 5, 6)])
    store = RemoteLogMetadataStore()
    store._caches[TIP] = tier.cache
    log = Archive(store, RemoteSegmentResolver(tier.store, LAYOUT), tier.store).log(TIP.topic, TIP.topic_id, TIP.partition)
    assert log is not None
    records, told = log.read_committed(0, 1 << 20)
    assert records == log.read(0, 1 << 20) == b"".join(aborted)
    assert told == (AbortedTransaction(7, 0),)
    assert log.read_committed(10, 1) == (b"", ())


def test_damage_is_sent_as_it_lies_there(archive: Archive, log: ArchivedLog) -> None:
    """A broker does not look at what it sends; what is sound comes first, by itself."""
    store: Any = log._objects
    (key,) = (key for key, data in store.objects.items() if data == b"".join(FIRST))
    damaged = bytearray(store.objects[key])
    damaged[2 * SIZE + 70] ^= 1
    store.objects[key] = bytes(damaged)
    assert log.read(0, 1 << 20) == b"".join(FIRST[:2])
    assert log.read(20, 1 << 20) == bytes(damaged[2 * SIZE :])
