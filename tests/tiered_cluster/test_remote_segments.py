"""The model and the client's cache agree on what is in the tier, for golden events and for random ones."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.tiered_cluster.metadata_records import MetadataEvent, SegmentUpdate, metadata_record
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from tests.tiered_cluster.test_metadata_records import TIP, golden_events

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


def begun(number: int, start: int, end: int, *epochs: tuple[int, int]) -> RemoteLogSegmentMetadata:
    entries = tuple(EpochEntry(*entry) for entry in epochs or [(0, start)])
    return RemoteLogSegmentMetadata(RemoteLogSegmentId(TIP, UUID(int=number)), start, end, 0, 1, 2, entries, 100, state=STARTED)


def moved(number: int, state: RemoteLogSegmentState) -> SegmentUpdate:
    return SegmentUpdate(RemoteLogSegmentId(TIP, UUID(int=number)), 1, 3, state)


def after(*events: MetadataEvent) -> RemoteSegments:
    segments = RemoteSegments()
    for event in events:
        segments = segments.applied(event)
    return segments


def finished(number: int, start: int, end: int, *epochs: tuple[int, int]) -> tuple[MetadataEvent, MetadataEvent]:
    return begun(number, start, end, *epochs), moved(number, FINISHED)


def numbers(found: Sequence[RemoteLogSegmentMetadata]) -> list[int]:
    return [segment.remote_log_segment_id.id.int for segment in found]


def serving(segments: RemoteSegments, epoch: int, offset: int) -> int | None:
    found = segments.serving(epoch, offset)
    return None if found is None else found.remote_log_segment_id.id.int


def test_a_segment_serves_once_its_copy_is_finished() -> None:
    segments = after(begun(1, 0, 9))
    assert (serving(segments, 0, 5), numbers(segments.of_epoch(0)), segments.highest_offset(0)) == (None, [1], -1)
    segments = segments.applied(moved(1, FINISHED))
    assert [serving(segments, 0, offset) for offset in (0, 9, 10)] == [1, 1, None]
    assert (serving(segments, 1, 5), segments.highest_offset(0), segments.highest_offset(7)) == (None, 9, -1)


def test_a_segment_serves_each_of_its_epochs() -> None:
    segments = after(*finished(1, 0, 29, (0, 0), (3, 10)))
    assert [serving(segments, *asked) for asked in ((0, 9), (0, 10), (3, 10), (3, 29), (3, 9))] == [1, None, 1, 1, None]
    assert (list(segments.epochs()), segments.highest_offset(0)) == ([0, 3], 9)


def test_a_larger_copy_replaces_those_that_it_covers() -> None:
    segments = after(*finished(1, 10, 90), *finished(2, 5, 100))
    assert [serving(segments, 0, offset) for offset in (5, 50, 95)] == [2, 2, 2]
    assert numbers(segments.of_epoch(0)) == [2, 1]


def test_a_shorter_copy_shadows_a_longer_one() -> None:
    segments = after(*finished(1, 0, 100), *finished(2, 50, 70))
    assert [serving(segments, 0, offset) for offset in (49, 60, 80)] == [1, 2, None]


def test_a_deleted_segment_is_forgotten() -> None:
    segments = after(*finished(1, 0, 9), moved(1, DELETING))
    assert (serving(segments, 0, 5), numbers(segments.of_epoch(0))) == (None, [1])
    segments = segments.applied(moved(1, DELETED))
    assert (segments.of_epoch(0), list(segments.epochs()), segments.highest_offset(0)) == ((), [], 9)


def test_deleting_a_replaced_copy_keeps_the_one_that_serves() -> None:
    segments = after(*finished(1, 0, 9), *finished(2, 0, 19), moved(1, DELETING))
    assert serving(segments, 0, 5) == 2


@pytest.mark.parametrize(
    "events",
    [
        (moved(1, FINISHED),),
        (begun(1, 0, 9), moved(1, DELETED)),
        (begun(1, 0, 9), moved(1, STARTED)),
        (*finished(1, 0, 9), begun(1, 0, 19)),
        (*finished(1, 0, 9), moved(1, DELETING), moved(1, FINISHED)),
    ],
)
def test_an_event_that_is_not_allowed_changes_nothing(events: tuple[MetadataEvent, ...]) -> None:
    assert after(*events) == after(*events[:-1])


def test_a_segment_that_begins_finished_is_refused() -> None:

    assert after(attrs.evolve(begun(1, 0, 9), state=FINISHED)) == RemoteSegments()


def agree(
    segments: RemoteSegments, store: RemoteLogMetadataStore, tip: TopicIdPartition, epochs: range, offsets: range
) -> None:
    cache = store.cache(tip)
    assert cache is not None
    assert {one.remote_log_segment_id.id: one for one in cache.list_all_remote_log_segments()} == dict(segments.segments)
    for epoch in epochs:
        assert segments.highest_offset(epoch) == cache.highest_offset_for_epoch(epoch)
        for offset in offsets:
            assert segments.serving(epoch, offset) == cache.remote_log_segment_metadata(epoch, offset)


def test_the_client_sees_the_golden_tier_as_the_model_does() -> None:
    store = RemoteLogMetadataStore()
    models: dict[TopicIdPartition, RemoteSegments] = {}
    for _, value, event in golden_events():
        tip = event.remote_log_segment_id.topic_id_partition
        models[tip] = models.get(tip, RemoteSegments()).applied(event)
        assert store.apply(RemoteLogMetadataSerde().deserialize(value))
    for tip, segments in models.items():
        if segments.segments:
            agree(segments, store, tip, range(6), range(0, 5000, 97))
    assert len(models) > 15


_EPOCHS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=3, unique_by=lambda entry: entry[0])


@st.composite
def _events(draw: st.DrawFn) -> list[MetadataEvent]:
    """Segments of four epochs, that overlap at will, each moved through some of its states."""
    events: list[MetadataEvent] = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        start, at, entries = draw(st.integers(0, 30)), 0, []
        at = start
        for epoch, length in sorted(draw(_EPOCHS)):
            entries.append((epoch, at))
            at += length
        events.append(begun(number, start, at - 1, *entries))
        events += [moved(number, state) for state in (FINISHED, DELETING, DELETED)[: draw(st.integers(0, 3))]]
        if draw(st.booleans()):
            events.append(moved(draw(st.integers(1, number)), draw(st.sampled_from([FINISHED, DELETING, DELETED]))))
    return events


@settings(max_examples=60, deadline=None)
@given(_events())
def test_the_client_sees_any_tier_as_the_model_does(events: list[MetadataEvent]) -> None:
    store, segments = RemoteLogMetadataStore(), RemoteSegments()
    for event in events:
        segments = segments.applied(event)
        store.apply(RemoteLogMetadataSerde().deserialize(metadata_record(event)))
    agree(segments, store, TIP, range(4), range(0, 60, 3))
