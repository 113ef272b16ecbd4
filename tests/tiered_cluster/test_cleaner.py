"""The cleaner's rules one by one. A real broker's cleaner judges them together in tests/integration/test_broker_cleaner.py."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest

from kafka_remote_client.tiered_cluster.batches import (
    Batch,
    Codec,
    Marker,
    Producer,
    Record,
    new_batch,
    new_marker,
    parse_batches,
    records_of,
)
from kafka_remote_client.tiered_cluster.cleaner import cleaned
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig

NOW_MS, HORIZON_MS = 50_000, 60_000
"""The time of a round, and the delete horizon that it sets."""


def batch(text: str, *, producer: int = -1, sequence: int = 0, codec: Codec = Codec.NONE, transactional: bool = False) -> Batch:
    """A record for each word: ``key=value``, ``key`` for a tombstone, ``=value`` without a key."""
    who = Producer(producer, 0, sequence, transactional) if producer >= 0 else Producer()
    records = []
    for number, word in enumerate(text.split()):
        key, has_value, value = word.partition("=")
        records.append(Record(number, 1000 + number, key.encode() or None, value.encode() if has_value else None))
    return new_batch(records, producer=who, codec=codec)


def of(producer: int, text: str, sequence: int = 0) -> Batch:
    return batch(text, producer=producer, sequence=sequence, transactional=True)


def end(kind: Marker, producer: int, epoch: int = 0) -> Batch:
    return new_marker(kind, Producer(producer, epoch), 1000)


def log_of(*segments: Iterable[Batch], **settings: object) -> PartitionLog:
    """A replicated log of these segments, the last one active."""
    config = TopicConfig(**{"delete_retention_ms": HORIZON_MS - NOW_MS, **settings})
    log = PartitionLog(config).elected(0)
    for batches in segments:
        log = log.rolled().appended(list(batches), 0)
    return log.replicated()


def more(log: PartitionLog, *batches: Batch) -> PartitionLog:
    """The log with a sealed segment of these, and a new active one."""
    return log.rolled().appended(list(batches), 0).rolled().replicated()


def words(log: PartitionLog) -> str:
    """Segments by ``|``, batches by ``,``, with the marks ``!`` for a control batch and ``@`` for a delete horizon."""
    return " | ".join(", ".join(map(_words, segment.batches)) for segment in log.segments)


def _words(one: Batch) -> str:
    marks = "!" * one.control + "@" * (one.delete_horizon is not None)
    records = () if one.control else records_of(one)
    named = [(record.key or b"").decode() + ("" if record.value is None else f"={record.value.decode()}") for record in records]
    return " ".join([*([marks] if marks else []), *named]) or "-"


ACTIVE = (batch("z=9"),)


def test_last_record_of_each_key_stays() -> None:
    log = log_of([batch("a=1 b=1"), batch("a=2 c=1")], [batch("b=2")], ACTIVE, segment_bytes=200)
    after = cleaned(log, NOW_MS)
    assert words(after) == "a=2 c=1 | b=2 | z=9"
    assert [segment.base_offset for segment in after.segments] == [0, 4, 5]
    assert (after.cleaned_to, after.end_offset, after.producers) == (5, 6, log.producers)


def test_active_segment_does_not_count() -> None:
    assert words(cleaned(log_of([batch("z=1"), batch("z=2")], ACTIVE), NOW_MS)) == "z=2 | z=9"


def test_batch_keeps_its_offsets_codec_and_producer() -> None:
    log = log_of([batch("a=1 b=1 c=1", producer=7, sequence=5, codec=Codec.LZ4), batch("a=2 c=2")], ACTIVE)
    before, after = log.segments[0].batches[0], cleaned(log, NOW_MS).segments[0].batches[0]
    assert parse_batches(after.data) == (after,)
    assert [(record.offset, record.timestamp, record.key) for record in records_of(after)] == [(1, 1001, b"b")]
    changed = {"count": 1, "base_timestamp": 1001, "max_timestamp": 1001, "data": b""}
    assert attrs.evolve(after, data=b"") == attrs.evolve(before, **changed)


def test_untouched_batch_is_not_written_again() -> None:
    log = log_of([batch("a=1 b=1", codec=Codec.ZSTD), batch("c=1")], ACTIVE)
    after = cleaned(log, NOW_MS)
    assert all(one is two for one, two in zip(after.segments[0].batches, log.segments[0].batches, strict=True))


def test_record_without_a_key_goes() -> None:
    assert words(cleaned(log_of([batch("=1 a=1"), batch("=2"), batch("b=1")], ACTIVE), NOW_MS)) == "a=1, b=1 | z=9"


def test_time_of_append_stays() -> None:
    log = log_of([batch("a=1 b=1"), batch("a=2")], ACTIVE, log_append_time=True)
    after = cleaned(log, NOW_MS).segments[0].batches[0]
    assert (after.log_append_time, after.max_timestamp, after.base_timestamp) == (True, 0, 0)
    assert [record.timestamp for record in records_of(after)] == [0]


def test_tombstone_goes_after_its_horizon() -> None:
    log = cleaned(log_of([batch("a=1 b=1"), batch("a c=1")], ACTIVE), NOW_MS)
    assert words(log) == "b=1, @ a c=1 | z=9"
    marked = log.segments[0].batches[1]
    assert (marked.delete_horizon, marked.max_timestamp) == (HORIZON_MS, 1001)
    assert [record.timestamp for record in records_of(marked)] == [1000, 1001]
    log = cleaned(more(log, batch("d=1")), HORIZON_MS - 1)
    assert words(log) == "b=1, @ a c=1, z=9, d=1 | "
    assert log.segments[0].batches[1] is marked
    log = cleaned(more(log, batch("e=1")), HORIZON_MS)
    assert words(log) == "b=1, @ c=1, z=9, d=1, e=1 | "
    assert log.segments[0].batches[1].delete_horizon == HORIZON_MS


def test_round_without_new_records_changes_nothing() -> None:
    log = cleaned(log_of([batch("a=1"), batch("a=2")], ACTIVE), NOW_MS)
    assert cleaned(log, HORIZON_MS) is log


def test_aborted_records_go_at_once_and_markers_later() -> None:
    log = log_of(
        [of(7, "a=1"), batch("a=0 b=0"), of(8, "b=1"), end(Marker.ABORT, 7), of(8, "b=2", 1), end(Marker.COMMIT, 8)],
        [of(7, "c=1", 1), end(Marker.COMMIT, 7), of(8, "d=1", 2), end(Marker.COMMIT, 8)],
        ACTIVE,
    )
    log = cleaned(log, NOW_MS)
    # The marker of the abort had a batch in this round, so it has no horizon yet, and its transaction stays in the index.
    assert words(log) == "a=0, !, b=2, !, c=1, !, d=1, ! | z=9"
    assert [entry.producer_id for entry in log.segments[0].aborted] == [7]
    log = cleaned(more(log, batch("b=3")), NOW_MS)
    assert words(log) == "a=0, !@, !, c=1, !, d=1, !, z=9, b=3 | "
    assert log.segments[0].aborted == ()
    log = cleaned(more(log, batch("e=1")), HORIZON_MS)
    assert words(log) == "a=0, !@, c=1, !, d=1, !, z=9, b=3, e=1 | "
    log = cleaned(more(log, batch("f=1")), HORIZON_MS * 2)
    assert words(log) == "a=0, c=1, !, d=1, !, z=9, b=3, e=1, f=1 | "


def test_last_batch_of_a_producer_stays_empty() -> None:
    log = log_of([of(7, "a=1 b=1"), end(Marker.ABORT, 7), batch("c=1", producer=8, codec=Codec.GZIP), batch("c=2")], ACTIVE)
    log = cleaned(log, NOW_MS)
    assert words(log) == "-, !, -, c=2 | z=9"
    empty, _, compressed, _ = log.segments[0].batches
    assert (empty.base_offset, empty.last_offset, empty.base_timestamp, empty.max_timestamp) == (0, 1, -1, 1001)
    assert (empty.size, empty.transactional, empty.last_sequence, compressed.codec) == (61, True, 1, Codec.NONE)
    # An empty batch of an aborted transaction keeps its marker and its entry.
    log = cleaned(more(log, batch("c=3")), HORIZON_MS)
    assert words(log) == "-, !, -, z=9, c=3 | "
    assert len(log.segments[0].aborted) == 1


def test_marker_of_another_epoch_is_the_last_of_its_producer() -> None:
    log = cleaned(log_of([end(Marker.COMMIT, 7, epoch=3), batch("a=1")], ACTIVE), NOW_MS)
    assert words(log) == "!@, a=1 | z=9"
    log = cleaned(more(log, batch("a=2")), HORIZON_MS)
    assert words(log) == "!, z=9, a=2 | "
    assert log.segments[0].batches[0].count == 0
    log = cleaned(more(log, batch("a=3")), HORIZON_MS)
    assert log.segments[0].batches[0].count == 0


def test_empty_marker_goes_with_its_producer() -> None:
    log = cleaned(log_of([end(Marker.COMMIT, 7, epoch=3), batch("a=1")], ACTIVE), NOW_MS)
    log = cleaned(more(log, batch("a=2")), HORIZON_MS)
    forgotten = attrs.evolve(log, producers=log.producers.without_expired(HORIZON_MS, 1))
    assert words(cleaned(more(forgotten, batch("a=3")), HORIZON_MS)) == "z=9, a=3 | "


def test_last_batch_of_a_round_stays_empty() -> None:
    log = log_of([batch("a=1"), batch("=1 =2")], ACTIVE)
    log = cleaned(log, NOW_MS)
    assert words(log) == "a=1, - | z=9"
    assert log.segments[0].batches[1].last_offset == 2
    assert words(cleaned(more(log, batch("b=1")), NOW_MS)) == "a=1, z=9, b=1 | "


def test_small_neighbours_become_one_segment() -> None:
    size = batch("a=1").size
    segments = [[batch(f"{key}=1")] for key in "abcde"]
    log = cleaned(log_of(*segments, ACTIVE, segment_bytes=2 * size), NOW_MS)
    assert words(log) == "a=1, b=1 | c=1, d=1 | e=1 | z=9"
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 5]


def test_segment_may_be_left_without_batches() -> None:
    log = log_of([batch("a=1")], [batch("a=2 b=1")], ACTIVE, segment_bytes=1)
    log = cleaned(log, NOW_MS)
    assert words(log) == " | a=2 b=1 | z=9"
    assert words(cleaned(more(log, batch("b=2")), NOW_MS)) == " | a=2 | z=9 | b=2 | "


def test_young_records_and_open_transactions_end_the_round() -> None:
    log = log_of([batch("a=1")], ACTIVE, min_compaction_lag_ms=1000)
    assert cleaned(log, 1500) is log
    assert cleaned(log, 2001).cleaned_to == 1
    log = log_of([batch("a=1")], [batch("a=2"), batch("a=3"), of(7, "b=1")], [batch("a=4")], ACTIVE)
    assert (log.last_stable_offset, cleaned(log, NOW_MS).cleaned_to) == (3, 1)


def test_deleted_and_truncated_records_move_the_round() -> None:
    log = cleaned(log_of([batch("a=1 b=1"), batch("a=2")], [batch("c=1")], [batch("d=1")], ACTIVE), NOW_MS)
    assert log.cleaned_to == 5
    assert log.truncated(3).cleaned_to == 3
    # Records below the log start are not looked at, so they replace none.
    deleted = log_of([batch("a=1 b=1"), batch("a=2 b=2")], ACTIVE).with_log_start(3)
    assert words(cleaned(deleted, NOW_MS)) == "a=1, a=2 b=2 | z=9"


def test_segments_in_the_tier_are_not_cleaned() -> None:
    log = log_of([batch("a=1"), batch("a=2")], [batch("a=3"), batch("a=4")], ACTIVE)
    tiered = attrs.evolve(log, highest_remote_offset=1)
    assert words(cleaned(tiered, NOW_MS)) == "a=1, a=2 | a=4 | z=9"
    all_tiered = attrs.evolve(log, highest_remote_offset=3)
    assert cleaned(all_tiered, NOW_MS) is all_tiered


@pytest.mark.parametrize("codec", Codec)
def test_batch_with_a_horizon_is_read_and_written_in_each_codec(codec: Codec) -> None:
    log = cleaned(log_of([batch("a b=1 c=1", codec=codec), batch("c=2")], ACTIVE), NOW_MS)
    (one, *_) = parse_batches(log.segments[0].log)
    assert (one.codec, one.delete_horizon) == (codec, HORIZON_MS)
    assert [(record.offset, record.timestamp, record.value) for record in records_of(one)] == [(0, 1000, None), (1, 1001, b"1")]
