"""The conformance suite of layouts: what shim, listing, ``TierReader`` and ``verify`` rely on in every layout. Needs pytest.

Subclass it in a test module, and say how to make a layout. Where segments are not stored as one plain object for each file, say
also how they are stored::

    class TestTapeLayout(ObjectLayoutTests):
        @pytest.fixture
        def layout(self):
            return tape_layout(LayoutOptions("tier/"))

        def objects(self, layout, segment):
            return tape.write(segment.metadata, segment.files)

Every test of this class then runs against it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from uuid import UUID

import attrs
import crc32c
import pytest

from kafka_remote_client.errors import ObjectNotFoundError, RemoteLogError, RemoteStorageError
from kafka_remote_client.fetch.storage_formats import RestoringFetcher, installed_formats
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import (
    ByteRange,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.records.batch import write_batch
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT, REQUIRED, ObjectKind, ObjectLayout
from kafka_remote_client.testing.fetcher_tests import read_all
from kafka_remote_client.verify.layout_inspectors import inspector_of
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.verifier import TierVerifier, VerifyRequest

__all__ = ["MemoryStore", "ObjectLayoutTests", "StoredFiles", "sample_segment"]

_SEED = 405
_RECORDS = 10
_TOPIC, _SIMILAR_TOPIC = "orders", "orders-2"
_INDEXES = tuple(kind for kind in ObjectKind if kind is not ObjectKind.LOG)


@attrs.frozen
class StoredFiles:
    """One segment: its metadata, and its files as Kafka wrote them. A transaction index is absent."""

    metadata: RemoteLogSegmentMetadata
    files: Mapping[ObjectKind, bytes]


class MemoryStore:
    """A RemoteObjectStore over the dictionary ``objects``."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectNotFoundError(key)
        return self.objects[key]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key)[start:end]

    def size(self, key: str) -> int:
        return len(self.get(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter([ObjectInfo(key, len(data)) for key, data in sorted(self.objects.items()) if key.startswith(prefix)])

    def close(self) -> None:
        """Does nothing: there is nothing to release."""


class ObjectLayoutTests:
    """Subclasses define ``layout``, and ``objects`` if a segment is not stored as one plain object per file."""

    @pytest.fixture
    def layout(self) -> ObjectLayout:
        """The layout."""
        raise NotImplementedError("give a fixture 'layout'")

    def objects(self, layout: ObjectLayout, segment: StoredFiles) -> Mapping[str, bytes]:
        """The objects that the brokers' plugin writes for a segment, by key. The default is one unchanged object per file."""
        return {layout.object_key(segment.metadata, kind): data for kind, data in segment.files.items()}

    def store_of(self, layout: ObjectLayout, *segments: StoredFiles) -> MemoryStore:
        """A store with these segments."""
        store = MemoryStore()
        for segment in segments:
            store.objects |= self.objects(layout, segment)
        return store

    def test_is_a_layout(self, layout: ObjectLayout) -> None:
        assert isinstance(layout, ObjectLayout)
        assert layout.name
        assert layout.format_name == ORIGINAL_FORMAT or layout.format_name in installed_formats()
        assert layout.manifest_statistics() is not None

    def test_keys_lie_below_the_prefix_and_name_the_topic(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        for key in self.objects(layout, segment):
            assert key.startswith(layout.prefix_of())
            assert key.startswith(layout.prefix_of(_TOPIC))
            assert layout.topic_of(key) == _TOPIC
        for kind in REQUIRED:
            assert layout.object_key(segment.metadata, kind) in self.objects(layout, segment)

    def test_lists_segments_by_partition_and_offset(self, layout: ObjectLayout) -> None:
        segments = [sample_segment(_TOPIC, partition, number) for partition in (0, 10) for number in (0, 1)]
        store = self.store_of(layout, *reversed(segments))
        listed = list(layout.list_segments(store))
        assert [(one.remote_log_segment_id, one.start_offset) for one in listed] == [
            (one.metadata.remote_log_segment_id, one.metadata.start_offset) for one in segments
        ]
        for one in listed:
            assert one.missing == frozenset()
            assert all(size > 0 for kind, size in one.sizes.items() if kind in REQUIRED)

    def test_listing_a_topic_excludes_similar_names(self, layout: ObjectLayout) -> None:
        store = self.store_of(layout, sample_segment(_TOPIC, 0, 0), sample_segment(_SIMILAR_TOPIC, 0, 1))
        for topic in (_TOPIC, _SIMILAR_TOPIC):
            assert [one.topic_id_partition.topic for one in layout.list_segments(store, topic)] == [topic]
        assert list(layout.list_segments(store, "order")) == []

    def test_objects_outside_a_segment_are_ignored(self, layout: ObjectLayout) -> None:
        store = self.store_of(layout, sample_segment(_TOPIC, 0, 0))
        source = random.Random(_SEED)  # noqa: S311 - repeatable keys, no secrets
        for key in [*store.objects, "", "a", f"{_TOPIC}/", f"{_TOPIC}-0"]:
            store.objects[f"{layout.prefix_of()}{key}.{source.randrange(1000)}"] = b"?"
            store.objects[key[: len(key) // 2] + "/x"] = b"?"
        for key in store.objects:
            layout.topic_of(key)
        assert len(list(layout.list_segments(store))) == 1

    def test_a_segment_without_a_required_object_is_incomplete(self, layout: ObjectLayout) -> None:
        whole = self.store_of(layout, sample_segment(_TOPIC, 0, 0))
        for kind in REQUIRED:
            store = MemoryStore(whole.objects)
            del store.objects[layout.object_key(sample_segment(_TOPIC, 0, 0).metadata, kind)]
            assert all(kind in one.missing for one in layout.list_segments(store)), kind

    def test_reads_each_index_as_kafka_wrote_it(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        store = self.store_of(layout, segment)
        for kind in _INDEXES:
            assert layout.read_index(store, segment.metadata, kind) == segment.files.get(kind, b""), kind

    def test_a_missing_index_is_an_error(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        for kind in REQUIRED - {ObjectKind.LOG}:
            store = self.store_of(layout, segment)
            del store.objects[layout.object_key(segment.metadata, kind)]
            with pytest.raises((RemoteLogError, RemoteStorageError)):
                layout.read_index(store, segment.metadata, kind)

    def test_segment_metadata_from_the_objects_is_correct(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        store = self.store_of(layout, segment)
        (listed,) = layout.list_segments(store)
        told = layout.stored_metadata(store, listed)
        if told is not None:
            wanted = segment.metadata
            assert (told.remote_log_segment_id, told.start_offset) == (wanted.remote_log_segment_id, wanted.start_offset)
            assert (told.end_offset, told.segment_size_in_bytes) == (wanted.end_offset, wanted.segment_size_in_bytes)

    def test_logs_read_as_kafka_wrote_them(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        log = segment.files[ObjectKind.LOG]
        store = layout.original_logs(self.store_of(layout, segment))
        key = layout.object_key(segment.metadata, ObjectKind.LOG)
        assert store.size(key) == len(log)
        for start, end in ((0, len(log)), (0, 1), (61, 200), (len(log) - 1, len(log)), (len(log) - 5, len(log) + 5)):
            assert store.get_range(key, start, end) == log[start:end], (start, end)
        with pytest.raises((RemoteLogError, RemoteStorageError)):
            store.get_range(f"{key}x", 0, 1)

    def test_located_ranges_tile_and_read_as_kafka_wrote_them(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        log = segment.files[ObjectKind.LOG]
        store = self.store_of(layout, segment)
        fetcher = RestoringFetcher(StoreFetcher(store), installed_formats())
        for cuts in ([0, len(log)], [0, 100, 300, len(log)], [61, 62, 400]):
            wanted = [ByteRange(start, end) for start, end in pairwise(cuts)]
            located = layout.locate(store, segment.metadata, wanted)
            assert located.format in {ORIGINAL_FORMAT, layout.format_name}
            assert located.ranges[0].range.start <= cuts[0]
            assert located.ranges[-1].range.end >= cuts[-1]
            for before, after in pairwise(located.ranges):
                assert before.range.end == after.range.start
            for one in located.ranges:
                metadata = attrs.evolve(segment.metadata, custom_metadata=one.location.encode())
                restoring = fetcher.of_format(located.format)
                stream = restoring.fetch_log_segment(metadata, one.range.start, one.range.end)
                assert read_all(stream) == log[one.range.start : one.range.end]

    def test_records_are_read_from_the_store_alone(self, layout: ObjectLayout) -> None:
        store = self.store_of(layout, sample_segment(_TOPIC, 0, 0), sample_segment(_TOPIC, 0, 1))
        with TierReader(store, ListingLocationSource(store, layout)) as tier:
            blocks = [item for item in tier.read(_TOPIC, 0).blocks() if isinstance(item, RecordBlock)]
            assert tier.remarks(tier.partitions(_TOPIC)[0]) == []
        assert [row[0] for block in blocks for row in block.rows()] == list(range(2 * _RECORDS))

    def test_verify_finds_no_problem_in_a_valid_tier(self, layout: ObjectLayout) -> None:
        store = self.store_of(layout, sample_segment(_TOPIC, 0, 0), sample_segment(_TOPIC, 0, 1))
        verifier = TierVerifier(SeenStore(store, [layout.prefix_of()]), inspector_of(layout), VerifyRequest())
        assert list(verifier.run()) == []
        assert verifier.summary.segments_checked == 2

    def test_verify_finds_a_changed_byte(self, layout: ObjectLayout) -> None:
        segment = sample_segment(_TOPIC, 0, 0)
        store = self.store_of(layout, segment)
        key = layout.object_key(segment.metadata, ObjectKind.LOG)
        damaged = bytearray(store.objects[key])
        damaged[len(damaged) // 2] ^= 0xFF
        store.objects[key] = bytes(damaged)
        verifier = TierVerifier(SeenStore(store, [layout.prefix_of()]), inspector_of(layout), VerifyRequest())
        assert list(verifier.run()) != []


def sample_segment(topic: str, partition: int, number: int) -> StoredFiles:
    """Segment ``number`` of a partition: ten records in batches of five, from offset ``number * 10`` on, all in epoch 0."""
    tip = TopicIdPartition(UUID(int=1 + len(topic)), topic, partition)
    start = number * _RECORDS
    batches = [_batch(start, 5), _batch(start + 5, 5)]
    log = b"".join(batches)
    metadata = RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(tip, UUID(int=1000 * (partition + 1) + number)),
        start_offset=start,
        end_offset=start + _RECORDS - 1,
        max_timestamp_ms=1000 + start + _RECORDS - 1,
        broker_id=1,
        event_timestamp_ms=5000,
        segment_leader_epochs=(EpochEntry(0, start),),
        segment_size_in_bytes=len(log),
    )
    producers = struct.pack(">i", 0)
    files = {
        ObjectKind.LOG: log,
        ObjectKind.OFFSET_INDEX: struct.pack(">ii", _RECORDS - 1, len(batches[0])),
        ObjectKind.TIME_INDEX: struct.pack(">qi", metadata.max_timestamp_ms, _RECORDS - 1),
        ObjectKind.PRODUCER_SNAPSHOT: struct.pack(">hI", 1, crc32c.crc32c(producers)) + producers,
        ObjectKind.LEADER_EPOCH: b"0\n1\n0 0\n",
    }
    return StoredFiles(metadata, files)


def _batch(base: int, count: int) -> bytes:
    """A batch of small records, timestamps 1000 ms plus the offset."""
    value = bytes(range(48, 64)) * 3
    return write_batch(base, [(1000 + offset, b"k", value) for offset in range(base, base + count)], leader_epoch=0)
