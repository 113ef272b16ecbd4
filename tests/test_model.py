import math
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.model import (
    NO_EXPIRY,
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    ByteRange,
    EpochEntry,
    GrantedRange,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    SegmentLocation,
    TopicIdPartition,
    is_epoch_possible,
    uuid_from_text,
    uuid_to_text,
)
from tests.support.locations import location, segment

ID = UUID(int=0x00112233445566778899AABBCCDDEEFF)


def test_uuids_have_kafkas_text_form() -> None:
    assert uuid_to_text(ID) == "ABEiM0RVZneImaq7zN3u_w"
    assert uuid_from_text("ABEiM0RVZneImaq7zN3u_w") == ID


@pytest.mark.parametrize("text", ["", "short", "ABEiM0RVZneImaq7zN3u/w", "ABEiM0RVZneImaq7zN3u_é", "ABEiM0RVZneImaq7zN3u_w="])
def test_other_texts_are_not_a_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="Uuid"):
        uuid_from_text(text)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 5), (6, 5)])
def test_a_range_is_not_empty_and_not_negative(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a byte range"):
        ByteRange(start, end)


def test_a_range_has_its_size() -> None:
    assert (ByteRange(3, 10).size, str(ByteRange(3, 10))) == (7, "[3, 10)")


def test_epochs_of_a_segment_end_where_the_next_begins() -> None:
    two = segment(segment_leader_epochs=(EpochEntry(0, 0), EpochEntry(2, 150)))
    assert [two.epoch_end(index) for index in (0, 1)] == [149, 199]
    assert [two.epoch_for_offset(offset) for offset in (0, 149, 150, 199)] == [0, 0, 2, 2]
    assert [two.epoch_for_offset(offset) for offset in (-1, 200)] == [-1, -1]


def test_a_segment_has_a_transaction_index_by_default() -> None:
    of = segment()
    told = RemoteLogSegmentMetadata(of.remote_log_segment_id, 0, 9, 5, 1, 7, of.segment_leader_epochs, 1000)
    assert not told.txn_index_empty
    assert told.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def test_repr_hides_fields_that_may_hold_a_secret() -> None:
    secret = b"https://host/?signature=hush"
    shown = repr(segment(custom_metadata=secret)) + repr(GrantedRange(ByteRange(0, 1), secret))
    assert "hush" not in shown
    assert f"<{len(secret)} bytes>" in shown
    assert "None" in repr(segment())


def test_a_fetcher_gets_the_segment_with_the_ranges_own_metadata() -> None:
    grant = location(ranges=(GrantedRange(ByteRange(0, 5), b"mine"), GrantedRange(ByteRange(5, 9), b"other")))
    first, second = grant
    assert grant.metadata_for(first).custom_metadata == b"mine"
    assert grant.metadata_for(second).custom_metadata == b"other"
    assert grant.metadata_for(first).start_offset == grant.metadata.start_offset
    assert grant.span == ByteRange(0, 9)


def test_names_are_readable() -> None:
    tip = TopicIdPartition(ID, "orders", 7)
    assert str(tip) == "orders-7 (ABEiM0RVZneImaq7zN3u_w)"
    assert str(segment().remote_log_segment_id).startswith("orders-0 (")


def test_defaults_are_unknown() -> None:
    offsets = PartitionOffsets()
    assert set(attrs.astuple(offsets)) == {UNKNOWN_OFFSET} == {-1}
    assert UNKNOWN_EPOCH == -1
    assert math.inf == NO_EXPIRY
    bare = SegmentLocation(segment(), "ApacheKafkaV1", 100, (GrantedRange(ByteRange(0, 5)),), 150)
    assert (bare.aborted_transactions, bare.range_signed, bare.throttle_time_ms) == (None, False, 0)
    assert (bare.high_watermark, bare.last_stable_offset, bare.log_start_offset, bare.expires_at) == (-1, -1, -1, math.inf)
    refused = NotRemote("not-granted")
    assert (refused.offsets, refused.out_of_range, refused.error) == (offsets, False, None)
    assert refused == NotRemote("not-granted", error=DirectFetchError("other text"))


def test_a_grant_updates_offsets_that_it_has() -> None:
    known = PartitionOffsets(1, 2, 3, 4, 5)
    told = location(log_start_offset=7, high_watermark=300, last_stable_offset=250)
    assert known.with_location(told) == PartitionOffsets(7, 2, 3, 300, 250)
    assert known.with_location(attrs.evolve(told, log_start_offset=-1)) == known
    assert known.with_location(attrs.evolve(told, high_watermark=-1)) == known


@pytest.mark.parametrize(
    ("first", "last", "possible"),
    [(0, 4, {0, 1, 2}), (3, 5, {2}), (5, 9, {2}), (9, 12, {2}), (10, 10, {4}), (99, 99, {4})],
)
def test_a_batch_has_its_first_offsets_epoch_or_an_earlier_one(first: int, last: int, possible: set[int]) -> None:
    epochs = [(2, 5), (4, 10)]
    assert {epoch for epoch in range(-2, 7) if is_epoch_possible(epochs, epoch, first, last)} == possible


def test_without_known_epochs_a_batch_has_none() -> None:
    assert [is_epoch_possible((), epoch, 0, 0) for epoch in (UNKNOWN_EPOCH, 0)] == [True, False]
