from __future__ import annotations

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.fetch_budget import FetchBudget
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.model import ByteRange, GrantedRange

MIB = 1 << 20


def range_of(size: int) -> RangeRead:
    return RangeRead(GrantedRange(ByteRange(0, size), b""))


def test_a_range_needs_a_slot_memory_and_its_share_of_the_limits() -> None:
    budget = FetchBudget(RemoteFetchConfig(max_in_flight=2, buffer_memory=4 * MIB, max_requests_per_second=2))
    assert budget.has_for(MIB, 1, 0.0)
    assert not budget.has_for(MIB, 2, 0.0)
    assert budget.take(range_of(3 * MIB), 0.0) == 0
    assert not budget.has_for(2 * MIB, 1, 0.0)
    assert budget.take(range_of(MIB), 0.0) == 0
    budget.memory.give_back(4 * MIB)
    assert not budget.has_for(MIB, 0, 0.0)
    assert 0 < budget.patience(0.0, 0.25) < 0.25
    assert budget.has_for(MIB, 0, 0.5)
    assert budget.patience(0.5, 0.25) == 0.25
    assert budget.take(range_of(MIB), 0.75) == 750


def test_a_small_limit_bounds_ranges_and_windows() -> None:
    assert FetchBudget(RemoteFetchConfig()).sizer.maximum == 8 * MIB
    budget = FetchBudget(RemoteFetchConfig(max_bytes_per_second=MIB))
    assert (budget.sizer.maximum, budget.sizer.range_bytes) == (MIB, MIB)
    assert budget.window(chunked=False) == (128 * MIB, MIB)
    small = FetchBudget(RemoteFetchConfig(buffer_memory=32 * MIB, max_in_flight=8))
    small.readers = 4
    assert small.window(chunked=False) == (32 * MIB, 4 * MIB)
    assert small.window(chunked=True) == (128 * MIB, 4 * MIB)


def test_ranges_shrink_if_the_bytes_in_flight_do_not_fit() -> None:
    budget = FetchBudget(RemoteFetchConfig(buffer_memory=64 * MIB, max_in_flight=32))
    for number in range(512):
        budget.read_ahead.used(MIB, number, number + 0.01)
    budget.landed(2 * MIB, 0.02, 0.02)
    assert budget.sizer.range_bytes == 8 * MIB, "a GET of 8 MiB takes 0.08 s, and the memory has 0.16 s"
    for _ in range(16):
        budget.landed(4 * MIB, 0.15, 0.15)
    assert budget.sizer.range_bytes == 4 * MIB
    for _ in range(16):
        budget.decoded(MIB, 8 * MIB, 0.0, 0.001)
    budget.landed(4 * MIB, 0.15, 0.15)
    assert budget.sizer.range_bytes == 2 * MIB, "the records take 8 times as much"


def test_more_small_ranges_are_in_flight_than_large_ones() -> None:
    budget = FetchBudget(RemoteFetchConfig(buffer_memory=64 * MIB, max_in_flight=32))
    for number in range(512):
        budget.read_ahead.used(MIB, number, number + 0.65)
    for _ in range(16):
        budget.landed(MIB // 64, 0.05, 0.0)
    assert budget.has_for(MIB // 64, 10, 0.0), "in 50 ms the application uses five of them"
    assert not budget.has_for(MIB // 64, 11, 0.0)
    assert budget.has_for(8 * MIB, 1, 0.0), "in 50 ms the application uses less than one of them"
    assert not budget.has_for(8 * MIB, 2, 0.0)
    assert budget.window(chunked=False) == (8 * 8 * MIB, 8 * MIB), "windows follow from ranges of full size"


def test_memory_for_records_follows_the_last_ranges() -> None:
    budget = FetchBudget(RemoteFetchConfig(buffer_memory=8 * MIB))
    assert budget.needs(range_of(MIB)) == MIB
    budget.decoded(MIB, 3 * MIB, 0.0, 0.1)
    read = range_of(2 * MIB)
    budget.take(read, 0.0)
    assert (read.needs, budget.memory.held) == (6 * MIB, 6 * MIB)
    assert not budget.has_for(budget.needs(range_of(MIB)), 0, 0.0)
    budget.decoded(MIB, 5 * MIB, 0.0, 0.1)
    assert budget.needs(read) == 6 * MIB, "another attempt finds the budget that the first one left"
    for _ in range(50):  # old ranges lose their weight, and a range never needs less than its own bytes
        budget.decoded(MIB, MIB // 2, 0.0, 0.1)
    assert budget.needs(range_of(MIB)) == MIB
