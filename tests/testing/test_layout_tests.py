"""The conformance suite of layouts passes for ours, and fails for layouts with one fault each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import LayoutOptions, ListedSegment, ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.layouts import layout_named
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.testing import MemoryStore, ObjectLayoutTests


class TestLocalTieredStorage(ObjectLayoutTests):
    @pytest.fixture
    def layout(self) -> ObjectLayout:
        return layout_named("local-tiered-storage", LayoutOptions())


class _EmptyForGone(LocalTieredStorageLayout):
    def read_index(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bytes:
        try:
            return super().read_index(store, metadata, kind)
        except ObjectNotFoundError:
            return b""


class _OfAllTopics(LocalTieredStorageLayout):
    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        return super().list_segments(store)


class _Unsorted(LocalTieredStorageLayout):
    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        return iter(list(super().list_segments(store, topic))[::-1])


class _OtherFormat(LocalTieredStorageLayout):
    format_name = "NobodyReadsThis"


class _WrongTopic(LocalTieredStorageLayout):
    def topic_of(self, key: str) -> str | None:
        return key.partition("-")[0]


WRONG = [
    (_EmptyForGone, "test_a_missing_index_is_an_error"),
    (_OfAllTopics, "test_listing_a_topic_excludes_similar_names"),
    (_Unsorted, "test_lists_segments_by_partition_and_offset"),
    (_OtherFormat, "test_is_a_layout"),
    (_WrongTopic, "test_keys_lie_below_the_prefix_and_name_the_topic"),
]


@pytest.mark.parametrize(("layout", "name"), WRONG, ids=[layout.__name__ for layout, _ in WRONG])
def test_a_faulty_layout_fails(layout: type[LocalTieredStorageLayout], name: str) -> None:
    check = getattr(ObjectLayoutTests(), name)
    check(LocalTieredStorageLayout())
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(layout())


def test_the_suite_names_what_a_subclass_must_set() -> None:
    with pytest.raises(NotImplementedError, match="layout"):
        ObjectLayoutTests.layout.__wrapped__(ObjectLayoutTests())


def test_the_store_cuts_ranges_and_has_no_other_objects() -> None:
    store = MemoryStore({"a/b": b"0123"})
    assert (store.get("a/b"), store.get_range("a/b", 2, 9), store.size("a/b")) == (b"0123", b"23", 4)
    assert [info.key for info in store.list("a/")] == ["a/b"]
    with pytest.raises(ObjectNotFoundError):
        store.get("a")
    store.close()
