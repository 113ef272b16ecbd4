from __future__ import annotations

import json

import attrs
import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.errors import (
    CorruptIndexError,
    DataKeyError,
    ObjectNotFoundError,
    RemoteLogMetadataError,
)
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import ByteRange, IsolationLevel, RemoteLogSegmentId, TopicIdPartition
from kafka_remote_client.remote_log.aiven import chunk_table
from kafka_remote_client.remote_log.aiven.chunk_table import CHUNKED_FORMAT, ChunkTable
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT, ObjectKind
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.remote_log.tier_listing import TierListing
from tests.support.aiven import DATA_KEY, AivenWriter, key_ring
from tests.support.golden import AIVEN_MODES, golden_aiven, read_jsonl
from tests.support.questions import tier_question
from tests.support.tier import LAYOUT, TIP, MemoryStore, Tier, batch, txn_entries

INDEX_KINDS = [kind for kind in ObjectKind if kind is not ObjectKind.LOG]
WRITERS = [AivenWriter("p/", 100, compressed, encrypted) for compressed in (False, True) for encrypted in (False, True)]
PLAIN, AES, ZSTD, BOTH = WRITERS


class Laid:
    """A tier, and its copy in Aiven's layout."""

    def __init__(self, *writers: AivenWriter, aborted=()) -> None:
        self.tier = Tier()
        self.store = MemoryStore()
        self.layout = AivenLayout("p/", key_ring())
        self.segments = []
        for number, writer in enumerate(writers):
            base = number * 50
            batches = [batch(base + n * 10, 10) for n in range(5)]
            segment = self.tier.add(batches, number=number + 1, indexed=[1, 2, 3], aborted=() if number else aborted)
            self.segments.append(segment)
            self.store.objects |= writer.objects(self.tier.store, segment)

    @property
    def segment(self):
        return self.segments[0]

    def original(self, kind: ObjectKind, number: int = 0) -> bytes:
        return self.tier.store.get(LAYOUT.object_key(self.segments[number], kind))

    def key(self, suffix: str, number: int = 0) -> str:
        return self.layout.object_key(self.segments[number], ObjectKind.LOG).replace(".log", suffix)

    def damage(self, suffix: str, change) -> None:
        self.store.objects[self.key(suffix)] = change(self.store.objects[self.key(suffix)])

    def state(self):
        """Returns (listed, readable, reasons of the others)."""
        listing = TierListing(self.store, self.layout)
        readable = [m.start_offset for m in listing.cache(TIP).list_all_remote_log_segments()]
        return len(listing.segments(TIP)), readable, list(listing.unreadable(TIP).values())


def edited(data: bytes, **changes) -> bytes:
    return json.dumps({**json.loads(data), **changes}).encode()


def test_keys_are_computed_from_the_segment_below_the_prefix():
    laid = Laid(PLAIN)
    assert laid.layout.object_key(laid.segment, ObjectKind.LOG) in laid.store.objects
    assert {laid.layout.object_key(laid.segment, kind) for kind in INDEX_KINDS} == {laid.key(".indexes")}


@pytest.mark.parametrize(
    ("custom", "key"),
    [
        (AivenCustomMetadata(object_key="a/b"), "p/a/b.log"),
        (AivenCustomMetadata(object_prefix="", object_key="a/b"), "a/b.log"),
        (AivenCustomMetadata(object_prefix="old-", object_key="a/b"), "old-a/b.log"),
    ],
)
def test_custom_metadata_gives_the_objects_keys(custom, key):
    laid = Laid(PLAIN)
    segment = attrs.evolve(laid.segment, custom_metadata=custom.encode())
    assert laid.layout.object_key(segment, ObjectKind.LOG) == key


def test_a_prefix_in_the_metadata_precedes_the_computed_name():
    laid = Laid(PLAIN)
    segment = attrs.evolve(laid.segment, custom_metadata=AivenCustomMetadata(object_prefix="old/").encode())
    assert laid.layout.object_key(segment, ObjectKind.LOG) == "old/" + laid.key(".log").removeprefix("p/")
    with pytest.raises(RemoteLogMetadataError):
        laid.layout.object_key(attrs.evolve(segment, custom_metadata=b"\x01"), ObjectKind.LOG)


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_indexes_are_slices_of_one_object(writer):
    laid = Laid(writer, aborted=[(7, 0, 9, 10)])
    for kind in INDEX_KINDS:
        assert laid.layout.read_index(laid.store, laid.segment, kind) == laid.original(kind)


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_a_missing_and_an_empty_index_have_no_bytes(writer):
    laid = Laid(writer)
    assert laid.layout.read_index(laid.store, laid.segment, ObjectKind.TRANSACTION_INDEX) == b""
    empty = Laid()
    segment = empty.tier.add([batch(0)], number=1)
    empty.store.objects = writer.objects(empty.tier.store, segment)
    assert empty.layout.read_index(empty.store, segment, ObjectKind.OFFSET_INDEX) == b""


@pytest.mark.parametrize("kind", [ObjectKind.OFFSET_INDEX, ObjectKind.TRANSACTION_INDEX])
@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_missing_indexes_are_distinguished_from_empty_ones(writer, kind):
    laid = Laid(writer, aborted=[(7, 0, 9, 10)])
    del laid.store.objects[laid.key(".indexes")]
    with pytest.raises(ObjectNotFoundError, match="indexes"):
        laid.layout.read_index(laid.store, laid.segment, kind)


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_truncated_indexes_raise(writer):
    laid = Laid(writer, aborted=[(7, 0, 9, 10)])
    laid.damage(".indexes", lambda data: data[:-1])
    with pytest.raises(CorruptIndexError, match="of the transaction index"):
        laid.layout.read_index(laid.store, laid.segment, ObjectKind.TRANSACTION_INDEX)


def test_a_flipped_bit_of_an_indexes_tag_raises():
    laid = Laid(AES)
    laid.damage(".indexes", lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptIndexError, match=r"leader epoch checkpoint at .* fails authentication"):
        laid.layout.read_index(laid.store, laid.segment, ObjectKind.LEADER_EPOCH)
    assert laid.layout.read_index(laid.store, laid.segment, ObjectKind.OFFSET_INDEX) == laid.original(ObjectKind.OFFSET_INDEX)


def test_indexes_of_an_encrypted_segment_need_its_key():
    laid = Laid(AES)
    with pytest.raises(DataKeyError):
        AivenLayout("p/").read_index(laid.store, laid.segment, ObjectKind.OFFSET_INDEX)


@pytest.mark.parametrize("suffix", [".rsm-manifest", ".log", ".indexes"])
def test_a_segment_with_a_missing_object_is_listed_and_not_read(suffix):
    laid = Laid(PLAIN, BOTH)
    del laid.store.objects[laid.key(suffix)]
    listed, readable, reasons = laid.state()
    assert (listed, readable) == (2, [50])
    assert reasons[0].startswith("no such object:")


def test_no_segment_is_found_below_another_prefix():
    laid = Laid(PLAIN)
    assert list(AivenLayout("q/").list_segments(laid.store)) == []
    assert list(AivenLayout("").list_segments(laid.store)) == []
    with pytest.raises(ObjectNotFoundError):
        AivenLayout("q/").read_index(laid.store, laid.segment, ObjectKind.OFFSET_INDEX)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: edited(data, version="2"),
        lambda data: edited(data, compression=None),
        lambda data: edited(data, remoteLogSegmentMetadata=None),
        lambda data: b"",
    ],
)
def test_a_segment_with_a_damaged_manifest_is_listed_and_not_read(change):
    laid = Laid(PLAIN, PLAIN)
    laid.damage(".rsm-manifest", change)
    listed, readable, reasons = laid.state()
    assert (listed, readable, len(reasons)) == (2, [50], 1)


def test_a_manifest_of_another_segment_is_refused():
    laid = Laid(PLAIN, PLAIN)
    laid.store.objects[laid.key(".rsm-manifest")] = laid.store.objects[laid.key(".rsm-manifest", 1)]
    assert laid.state()[1] == [50]
    assert "the manifest describes segment" in laid.state()[2][0]


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
def test_objects_of_another_size_than_in_the_manifest_are_refused(suffix):
    laid = Laid(PLAIN, PLAIN)
    laid.damage(suffix, lambda data: data + b"x")
    assert laid.state()[1] == [50]
    assert "the manifest says" in laid.state()[2][0]


def test_a_manifest_of_another_size_than_the_metadata_is_refused():
    laid = Laid(PLAIN)
    other = attrs.evolve(laid.segment, segment_size_in_bytes=laid.segment.segment_size_in_bytes + 1)
    with pytest.raises(RemoteLogMetadataError, match="its manifest says"):
        laid.layout.read_index(laid.store, other, ObjectKind.OFFSET_INDEX)
    with pytest.raises(RemoteLogMetadataError, match="its manifest says"):
        laid.layout.locate(laid.store, other, [ByteRange(0, 10)])


def test_a_listing_needs_no_key_and_equals_the_metadata():
    laid = Laid(*WRITERS)
    listing = TierListing(laid.store, AivenLayout("p/"))
    found = listing.cache(TIP).list_all_remote_log_segments()
    assert [(m.start_offset, m.end_offset, m.segment_size_in_bytes, m.segment_leader_epochs) for m in found] == [
        (m.start_offset, m.end_offset, m.segment_size_in_bytes, m.segment_leader_epochs) for m in laid.segments
    ]
    assert listing.unreadable(TIP) == {}


@pytest.mark.parametrize("topic", ["orders", "a-b", "a.b_c", "-", "a-MWJ6FHTfRYy67jzwZdeqSQ", "orders-0"])
def test_topics_of_any_name_are_distinguished(topic):
    laid = Laid(PLAIN)
    objects = dict(laid.store.objects)
    tip = TopicIdPartition(TIP.topic_id, topic, 3)
    segment = attrs.evolve(laid.segment, remote_log_segment_id=RemoteLogSegmentId(tip, laid.segment.remote_log_segment_id.id))
    for kind in ObjectKind:
        if kind is not ObjectKind.TRANSACTION_INDEX:
            laid.tier.put(segment, kind, laid.original(kind))
    laid.store.objects = objects | PLAIN.objects(laid.tier.store, segment)
    listing = TierListing(laid.store, laid.layout, topic)
    assert listing.topic_ids(topic) == [TIP.topic_id]
    assert len(listing.cache(tip).list_all_remote_log_segments()) == 1
    everything = TierListing(laid.store, laid.layout).partitions()
    assert {found.topic for found in everything} == {"orders", topic}


def test_a_plain_segment_is_located_unchanged():
    laid = Laid(PLAIN)
    ranges = [ByteRange(0, 150), ByteRange(150, 420)]
    located = laid.layout.locate(laid.store, laid.segment, ranges)
    assert located.format == ORIGINAL_FORMAT
    assert [(one.range, one.object_range) for one in located.ranges] == [(one, one) for one in ranges]
    assert {one.location for one in located.ranges} == {LocationMetadata(object_key=laid.key(".log"))}


@pytest.mark.parametrize("writer", [AES, ZSTD, BOTH], ids=str)
def test_a_chunked_segment_is_located_with_key_and_chunk_table(writer):
    laid = Laid(writer)
    located = laid.layout.locate(laid.store, laid.segment, [ByteRange(10, 150), ByteRange(150, 420)])
    assert located.format == CHUNKED_FORMAT == laid.layout.format_name
    assert [one.range for one in located.ranges] == [ByteRange(10, 200), ByteRange(200, 420)]
    log = laid.original(ObjectKind.LOG)
    for one in located.ranges:
        assert one.location.object_key == laid.key(".log")
        assert one.location.data_key == (DATA_KEY if writer.encrypted else None)
        table = ChunkTable.decode(one.location.chunk_table)
        assert table.chunks.object_range == one.object_range
        stored = laid.store.get_range(laid.key(".log"), one.object_range.start, one.object_range.end)
        restored = b""
        for chunk in table.chunks:
            target = bytearray(chunk.original_size)
            piece = stored[chunk.object_start - one.object_range.start : chunk.object_end - one.object_range.start]
            table.transform(one.location.data_key).restore(piece, memoryview(target))
            restored += target
        begin = table.chunks.original_start
        assert restored[one.range.start - begin : one.range.end - begin] == log[one.range.start : one.range.end]


def test_formats_may_differ_between_segments():
    laid = Laid(ZSTD, PLAIN)
    formats = [laid.layout.locate(laid.store, segment, [ByteRange(0, 10)]).format for segment in laid.segments]
    assert formats == [CHUNKED_FORMAT, ORIGINAL_FORMAT]


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_the_resolver_gives_the_same_answers_as_for_the_other_layout(writer):
    laid = Laid(writer, writer, aborted=[(7, 0, 9, 10)])
    ours = RemoteSegmentResolver(laid.store, laid.layout)
    theirs = RemoteSegmentResolver(laid.tier.store, LAYOUT)
    for offset in (0, 5, 25, 49, 50, 99):
        for isolation in IsolationLevel:
            answers = [
                resolver.resolve(
                    laid.tier.cache, tier_question(TIP, offset, isolation_level=isolation, max_bytes=300, range_bytes=100)
                )
                for resolver in (ours, theirs)
            ]
            assert isinstance(answers[0], ResolvedSegment)
            assert attrs.evolve(answers[0], object_key="") == attrs.evolve(answers[1], object_key="")
    assert ours.first_undecided_offset(laid.tier.cache) == theirs.first_undecided_offset(laid.tier.cache)
    assert ours.offset_for_time(laid.tier.cache, 1030) == theirs.offset_for_time(laid.tier.cache, 1030)


def test_swapped_chunks_are_detected_by_their_batches():
    laid = Laid(AES)
    at = len(batch(0, 10)) // 100 * 128

    def swapped(data: bytes) -> bytes:
        return data[:at] + data[at + 128 : at + 256] + data[at : at + 128] + data[at + 256 :]

    laid.damage(".log", swapped)
    resolver = RemoteSegmentResolver(laid.store, laid.layout)
    asked = tier_question(TIP, 15, isolation_level=IsolationLevel.READ_UNCOMMITTED, max_bytes=100, range_bytes=100)
    with pytest.raises(CorruptIndexError):
        resolver.resolve(laid.tier.cache, asked)


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_the_plugins_segments_are_found_by_metadata_and_by_listing_alike(mode):
    root = golden_aiven(mode)
    store, layout = DirectoryStore(root / "remote"), AivenLayout("some-prefix/" if "aes" in mode else "", key_ring())
    metadata, serde = RemoteLogMetadataStore(), RemoteLogMetadataSerde()
    for line in read_jsonl(root / "remote_log_metadata.jsonl.gz"):
        metadata.apply(serde.deserialize(bytes.fromhex(line["value"])))
    listing = TierListing(store, layout)
    resolver = RemoteSegmentResolver(store, layout)
    assert len(listing.partitions()) == (5 if "aes" in mode else 4)
    for tip in listing.partitions():
        told, listed = metadata.cache(tip), listing.cache(tip)
        assert told is not None
        found = listed.list_all_remote_log_segments()
        assert [m.remote_log_segment_id for m in found] == [
            m.remote_log_segment_id for m in told.list_all_remote_log_segments()
        ]
        assert listing.unreadable(tip) == {}
        for offset in (found[0].start_offset, found[-1].start_offset + 1, found[-1].end_offset):
            answers = [
                resolver.resolve(cache, tier_question(tip, offset, max_bytes=50_000, range_bytes=20_000))
                for cache in (told, listed)
            ]
            assert isinstance(answers[0], ResolvedSegment)
            assert answers[0].object_key == answers[1].object_key
            assert (answers[0].ranges, answers[0].aborted) == (answers[1].ranges, answers[1].aborted)


@pytest.mark.parametrize("compressed", [False, True])
def test_too_large_chunks_are_refused_before_one_is_restored(monkeypatch, compressed):
    monkeypatch.setattr(chunk_table, "MAX_CHUNK_BYTES", 500)
    laid = Laid(AivenWriter("p/", 501, compressed=compressed))
    resolver = RemoteSegmentResolver(laid.store, laid.layout)
    question = tier_question(TIP, 25, max_bytes=100, range_bytes=100)
    if not compressed:  # as Kafka wrote it, so no chunk has to be restored
        assert resolver.resolve(laid.tier.cache, question).next_offset == 30
        return
    with pytest.raises(RemoteLogMetadataError, match="chunks of 501 bytes, more than 500"):
        resolver.resolve(laid.tier.cache, question)
    assert laid.store.reads(".log") == 0


def test_each_index_in_one_object_is_parsed_by_its_kind():
    laid = Laid(BOTH, aborted=[(7, 0, 9, 10)])
    indexes = RemoteSegmentResolver(laid.store, laid.layout).indexes
    assert [e.producer_id for e in indexes.transaction_index(laid.segment)] == [7]
    assert indexes.offset_index(laid.segment).last_entry().offset == 39
    assert indexes.time_index(laid.segment).last_entry().timestamp == 1049
    assert laid.original(ObjectKind.TRANSACTION_INDEX) == txn_entries((7, 0, 9, 10))
