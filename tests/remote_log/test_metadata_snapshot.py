"""What is packed comes back as it was, whatever the events; anything else than a snapshot is refused."""

from __future__ import annotations

import hashlib
import struct
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_snapshot import (
    MetadataPosition,
    SnapshotOrigin,
    decode,
    encode,
    pack,
    packed_segments,
    unpack,
)
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.packed_segment import pack_segment
from tests.support.golden_metadata import golden_metadata
from tests.support.tier import TIP, metadata, update

COPYING, COPIED, DELETING, DELETED = RemoteLogSegmentState
ORIGIN = SnapshotOrigin("cluster-é", "__remote_log_metadata", UUID(int=7), 4)
POSITIONS = {0: MetadataPosition(12, 3), 3: MetadataPosition(0)}
OTHER = TopicIdPartition(UUID(int=1), "päyments", 0)

SEGMENTS = [
    metadata(0, 9, number=1, epochs=((0, 0),)),
    metadata(0, 19, number=2, epochs=((0, 0), (1, 5)), txn_index_empty=True),
    metadata(10, 29, number=3, epochs=((1, 10), (4, 20)), custom_metadata=b""),
    metadata(15, 29, number=4, epochs=((1, 15),), custom_metadata=b"chunks"),
    attrs.evolve(metadata(30, 30, number=5, epochs=((4, 30),)), broker_leader_epoch=6),
]
STEPS = [(segment, state) for segment in SEGMENTS for state in RemoteLogSegmentState]


def apply(cache, steps):
    for segment, state in steps:
        if state is COPYING:
            cache.add_copy_in_progress_segment(segment)
        else:
            cache.update_remote_log_segment_metadata(update(segment, state, segment.custom_metadata))


def known(cache):
    """All that the cache answers by, in its order."""
    contents = cache.contents()
    for state in cache._epochs.values():
        state.newest()  # the order of the ends is made when it is first needed
    epochs = {epoch: {name: getattr(state, name) for name in state.__slots__} for epoch, state in cache._epochs.items()}
    return contents, list(cache._segments.items()), list(epochs.items()), cache._readable


def restored(cache):
    return RemoteLogMetadataCache.restored(unpack(pack(cache.contents())))


@given(st.lists(st.sampled_from(STEPS), max_size=40), st.lists(st.sampled_from(STEPS), max_size=20))
def test_a_restored_cache_equals_the_original_then_and_later(before, after):
    cache = RemoteLogMetadataCache(TIP)
    apply(cache, before)
    again = restored(cache)
    assert known(again) == known(cache)
    apply(cache, after)
    apply(again, after)
    assert known(again) == known(cache)
    for epoch in (0, 1, 4):
        for offset in range(32):
            assert again.remote_log_segment_metadata(epoch, offset) == cache.remote_log_segment_metadata(epoch, offset)


def test_contents_do_not_change_with_later_events():
    cache = RemoteLogMetadataCache(TIP)
    apply(cache, [(segment, state) for segment in SEGMENTS for state in (COPYING, COPIED)])
    contents = cache.contents()
    packed = pack(contents)
    apply(cache, [(segment, state) for segment in SEGMENTS for state in (DELETING, DELETED)])
    assert pack(contents) == packed
    assert cache.list_all_remote_log_segments() == []


def test_golden_metadata_come_back_from_a_snapshot():
    store = golden_metadata()
    packed = [pack(contents) for _, contents in store.contents()]
    found = decode(b"".join(encode(ORIGIN, 5, POSITIONS, packed, len(packed))))
    again = RemoteLogMetadataStore()
    for tip, one in found.partitions.items():
        again.restore(tip, one)
    assert again.partitions() == store.partitions()
    for tip in store.partitions():
        assert known(again.cache(tip)) == known(store.cache(tip))


def some_packed():
    cache = RemoteLogMetadataCache(TIP)
    apply(cache, [(segment, state) for segment in SEGMENTS for state in (COPYING, COPIED)])
    return pack(cache.contents())


def snapshot(*packed, positions=POSITIONS, origin=ORIGIN):
    return b"".join(encode(origin, 1_700_000_000_000, positions, packed, len(packed)))


def signed(data):
    """``data`` with a digest that fits, in place of its last 32 bytes."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def test_a_snapshot_comes_back_as_it_was():
    packed, other = some_packed(), pack(RemoteLogMetadataCache(OTHER).contents())
    found = decode(snapshot(packed, other))
    assert (found.origin, found.written_at_ms, found.positions) == (ORIGIN, 1_700_000_000_000, POSITIONS)
    assert found.partitions == {TIP: packed, OTHER: other}
    assert [packed_segments(one) for one in found.partitions.values()] == [len(SEGMENTS), 0]


def test_the_header_has_the_documented_layout():
    data = snapshot(positions={2: MetadataPosition(9, 1)})
    head = b"KRMDSNAP" + struct.pack("<HqQQIII", 2, 1_700_000_000_000, 0, 7 << 56, 4, 1, 0)
    names = struct.pack("<H", 10) + "cluster-é".encode() + struct.pack("<H", 21) + b"__remote_log_metadata"
    expected = head + names + struct.pack("<Iqi", 2, 9, 1)
    assert data == expected + hashlib.sha256(expected).digest()


def test_a_wrong_number_of_partitions_is_not_written():
    with pytest.raises(ValueError, match="2 partitions got 1"):
        b"".join(encode(ORIGIN, 0, {}, [some_packed()], 2))


def test_each_changed_or_missing_byte_of_a_snapshot_is_noticed():
    data = snapshot(some_packed())
    for at in range(len(data)):
        with pytest.raises(RemoteLogMetadataError):
            decode(data[:at])
        with pytest.raises(RemoteLogMetadataError):
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(RemoteLogMetadataError):
        decode(data + b"\0")


def test_another_version_is_named():
    data = snapshot()
    with pytest.raises(RemoteLogMetadataError, match="version 1, not 2"):
        decode(signed(data[:8] + b"\1\0" + data[10:]))


TWICE = snapshot(some_packed(), some_packed())
NOT_UTF8 = snapshot(origin=attrs.evolve(ORIGIN, cluster_id="zz")).replace(b"zz", b"z\xff")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (TWICE, "twice"),
        (snapshot(positions={4: MetadataPosition(0)}), "does not have"),
        (NOT_UTF8, "UTF-8"),
        (snapshot()[:-32] + b"\0" * 33, "1 bytes remain"),
        (snapshot()[:-33] + b"\0" * 32, "ends inside"),
        (snapshot(some_packed()[:10]), "ends inside"),
        (b"KRMDSNAP" + b"\xff" * 100, "version"),
        (b"", "not a metadata snapshot"),
        (b"\0" * 200, "not a metadata snapshot"),
    ],
)
def test_wrong_content_with_a_right_digest_is_refused(data, why):
    with pytest.raises(RemoteLogMetadataError, match=why):
        decode(signed(data))


def of(segments, epochs):
    """A partition with these segments, and what its leader epochs say: {epoch: [(start, number of the segment)]}."""
    contents = RemoteLogMetadataCache(TIP).contents()
    cache = RemoteLogMetadataCache(TIP)
    apply(cache, [(one, COPYING) for one in SEGMENTS])
    listed = [
        attrs.evolve(
            cache.contents().epochs[0],
            leader_epoch=epoch,
            starts=[start for start, _ in entries],
            segment_ids=[segments[at].remote_log_segment_id.id.bytes for _, at in entries],
            segment_ends=[0] * len(entries),
        )
        for epoch, entries in epochs.items()
    ]
    return pack(attrs.evolve(contents, segments=[*map(pack_segment, segments)], epochs=listed))


FIRST, SECOND = (attrs.evolve(one, state=COPIED) for one in SEGMENTS[:2])
SEGMENTS_AT = 20 + 4 + len("orders") + 16
STATE_AT = SEGMENTS_AT + 12  # of the first segment


@pytest.mark.parametrize(
    "packed",
    [
        of([attrs.evolve(FIRST, start_offset=10)], {0: []}),
        of([attrs.evolve(FIRST, start_offset=-1)], {0: []}),
        of([attrs.evolve(FIRST, segment_size_in_bytes=-1)], {0: []}),
        of([attrs.evolve(FIRST, segment_leader_epochs=())], {0: []}),
        of([attrs.evolve(SECOND, segment_leader_epochs=(EpochEntry(1, 0), EpochEntry(0, 5)))], {0: [], 1: []}),
        of([attrs.evolve(SECOND, segment_leader_epochs=(EpochEntry(0, 5), EpochEntry(1, 0)))], {0: [], 1: []}),
        of([SECOND], {0: [(0, 0)]}),
        of([attrs.evolve(FIRST, state=DELETING)], {0: [(0, 0)]}),
        of([FIRST], {0: [(1, 0)]}),
        of([FIRST, SECOND], {0: [(0, 0), (0, 1)], 1: []}),
    ],
)
def test_a_partition_that_no_events_lead_to_is_refused(packed):
    with pytest.raises(RemoteLogMetadataError):
        unpack(packed)


def test_an_unknown_state_is_refused():
    packed = bytearray(of([FIRST], {0: [(0, 0)]}))
    assert packed[STATE_AT] == COPIED
    packed[STATE_AT] = 9
    with pytest.raises(RemoteLogMetadataError, match="segment 0 of orders-7 "):
        unpack(bytes(packed))


def test_listed_segments_of_no_epoch_are_refused():
    packed = bytearray(of([FIRST], {0: [(0, 0)]}))
    listed_at = SEGMENTS_AT + 74 + 12 + 12
    assert packed[listed_at : listed_at + 4] == b"\1\0\0\0"
    packed[listed_at] = 0
    with pytest.raises(RemoteLogMetadataError, match="do not add up"):
        unpack(bytes(packed))


@given(st.data())
def test_any_bytes_give_a_partition_or_an_error(data):
    packed = bytearray(some_packed())
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    for raw in (bytes(packed), bytes(packed[:cut])):
        try:
            RemoteLogMetadataCache.restored(unpack(raw))
        except RemoteLogMetadataError:
            continue


def test_a_long_topic_name_and_many_epochs_come_back():
    tip = TopicIdPartition(UUID(int=9), "t" * 70_000, 0)
    epochs = tuple((epoch, epoch) for epoch in range(300))
    segment = attrs.evolve(metadata(0, 2_000, epochs=epochs), remote_log_segment_id=RemoteLogSegmentId(tip, UUID(int=1)))
    cache = RemoteLogMetadataCache(tip)
    apply(cache, [(segment, COPYING), (segment, COPIED)])
    assert known(restored(cache)) == known(cache)
