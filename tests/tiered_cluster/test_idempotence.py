"""A leader appends the batches of an idempotent producer once and in order."""

from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.tiered_cluster.batches import Batch, Marker, Producer, Record, new_batch, new_marker
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.idempotence import duplicate_of, rejection
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.producers import loaded_snapshot
from tests.tiered_cluster.logs import new_log


def batch(sequence: int, *, epoch: int = 1, producer: int = 5, count: int = 2) -> Batch:
    return new_batch([Record(number, 1) for number in range(count)], producer=Producer(producer, epoch, sequence))


def log(*sequences: int) -> PartitionLog:
    return new_log(segment_bytes=200).appended([batch(sequence) for sequence in sequences], 0)


def test_same_sequences_are_a_duplicate_of_the_last_five() -> None:
    known = log(0, 2, 4, 6, 8, 10)
    assert [getattr(duplicate_of(known, batch(sequence)), "base_offset", None) for sequence in range(0, 13, 2)] == [
        *(None, 2, 4, 6, 8, 10),
        None,
    ]
    assert duplicate_of(known, batch(10, count=1)) is None
    assert duplicate_of(known, batch(10, epoch=2)) is None
    assert duplicate_of(known, batch(10, producer=-1)) is None


def test_duplicates_are_known_after_their_segments_left_the_log() -> None:
    """A retry may come after the copy to the tier, or after the cleaner has removed the batch."""
    known = log(0, 2, 4)
    known = attrs.evolve(known.rolled(), segments=known.rolled().segments[-1:])
    found = duplicate_of(known, batch(4))
    assert (getattr(found, "base_offset", None), duplicate_of(known, batch(6))) == (4, None)


def test_a_new_epoch_of_the_producer_ends_its_duplicates() -> None:
    known = log(0, 2).appended([batch(0, epoch=2)], 0)
    assert duplicate_of(known, batch(2)) is None
    fenced = log(0, 2).appended([new_marker(Marker.ABORT, Producer(5, 2), 1)], 0)
    assert duplicate_of(fenced, batch(2)) is None


def test_a_loaded_snapshot_knows_the_last_batch_only() -> None:
    known = log(0, 2)
    loaded = attrs.evolve(known, producers=loaded_snapshot(known.producers.snapshot()))
    assert duplicate_of(loaded, batch(0)) is None
    found = duplicate_of(loaded, batch(2))
    assert found is not None
    assert (found.base_offset, found.max_timestamp) == (2, 1)
    marked = new_log().appended([new_marker(Marker.COMMIT, Producer(5, 1), 1)], 0).producers.snapshot()
    assert loaded_snapshot(marked).recent == ()


def test_an_expired_producer_has_no_duplicates() -> None:
    known = log(0)
    assert attrs.evolve(known, producers=known.producers.without_expired(10_000, 1_000)).producers.recent == ()


@pytest.mark.parametrize(
    ("one", "error"),
    [
        (batch(4), ErrorCode.NONE),
        (batch(6), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (batch(0, epoch=2), ErrorCode.NONE),
        (batch(1, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (batch(0, epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
        (batch(7, producer=6), ErrorCode.NONE),
        (batch(7, producer=-1), ErrorCode.NONE),
    ],
)
def test_batches_out_of_order_are_rejected(one: Batch, error: ErrorCode) -> None:
    assert rejection(log(0, 2), one) is error


def test_sequences_begin_again_after_the_highest() -> None:
    known = new_log().appended([batch(2**31 - 2)], 0)
    assert rejection(known, batch(0)) is ErrorCode.NONE


def test_marker_keeps_the_sequence() -> None:
    known = log(0).appended([new_marker(Marker.COMMIT, Producer(5, 1), 1)], 0)
    assert rejection(known, batch(2)) is ErrorCode.NONE
    assert duplicate_of(known, batch(0)) is not None
