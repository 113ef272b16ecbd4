from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.reading.broker_limit import BrokerBytesError, with_broker_shares

TP = TopicPartition("t", 0)


def split(start: int, end: int, size: int, tiered_end: int | None = 10**9, failure: str | None = None) -> Split:
    return Split(TP, start, end, size, tiered_end, failure)


def shares(limit: int | None, *splits: Split) -> list[int | None]:
    return [found.max_broker_bytes for found in with_broker_shares(splits, limit)]


def test_without_a_limit_no_split_has_a_share() -> None:
    limited = with_broker_shares([split(0, 10, 100)], 7)
    assert shares(None, *limited) == [None]


def test_tiered_splits_share_by_their_size() -> None:
    assert shares(90, split(0, 10, 100), split(10, 20, 200)) == [30, 60]


def test_a_local_split_gets_its_size_and_half_of_the_rest() -> None:
    assert shares(400, split(0, 10, 100), split(10, 20, 300), split(20, 30, 200, tiered_end=20)) == [25, 75, 300]


def test_without_tiered_splits_the_whole_limit_is_shared() -> None:
    assert shares(400, split(0, 10, 100, tiered_end=0), split(10, 20, 100, tiered_end=None)) == [200, 200]


def test_a_split_across_the_end_of_the_tier_gets_a_part_of_both() -> None:
    assert shares(110, split(0, 10, 100, tiered_end=9)) == [110]
    assert split(0, 10, 100, tiered_end=9).local_bytes == 10


def test_splits_of_unknown_size_have_equal_shares() -> None:
    assert shares(10, split(0, 5, 0), split(5, 10, 0), split(10, 10, 0)) == [3, 3, 3]


def test_a_limit_of_zero_permits_tiered_records_only() -> None:
    assert shares(0, split(0, 10, 100), split(10, 20, 200)) == [0, 0]
    assert shares(0) == []


def test_a_job_that_needs_more_than_the_limit_fails_first() -> None:
    with pytest.raises(BrokerBytesError, match=r"about 100 bytes .* are not tiered, more than remote\.maxBrokerBytes=99"):
        shares(99, split(0, 10, 100, tiered_end=0))


def test_an_unreadable_tier_counts_as_local() -> None:
    assert split(0, 10, 100, failure="no answer").local_bytes == 100
    with pytest.raises(BrokerBytesError, match=r"about 100 bytes of this job cannot be read from the tier \(no answer\)"):
        shares(99, split(0, 10, 100, failure="no answer"))


SPLITS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**6)), max_size=20)


@given(SPLITS, st.integers(0, 1000), st.integers(0, 10**9))
def test_shares_never_add_up_to_more_than_the_limit(cells: list[tuple[int, int]], tiered_end: int, limit: int) -> None:
    splits, at = [], 0
    for length, size in cells:
        splits.append(split(at, at + length, size, tiered_end))
        at += length
    planned = sum(found.local_bytes for found in splits)
    if planned > limit:
        with pytest.raises(BrokerBytesError):
            shares(limit, *splits)
        return
    found = with_broker_shares(splits, limit)
    given_out = [one.max_broker_bytes or 0 for one in found]
    assert limit - 2 * len(splits) <= sum(given_out) <= limit or not splits
    assert all(share >= one.local_bytes for share, one in zip(given_out, splits, strict=True))
