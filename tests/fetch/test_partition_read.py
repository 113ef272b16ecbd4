"""The commands of a partition's read, step by step without threads. Whole reads: test_remote_reader."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import (
    CorruptRecordError,
    DirectFetchError,
    LocationError,
    LocationExpiredError,
    RangeNotSatisfiableError,
)
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.fetch.partition_read import Deliver, End, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import ByteRange, GrantedRange, LocationPending, NotRemote, SegmentLocation
from kafka_remote_client.records import RecordBlock
from tests.support.stepping import TIERED_END, Stepping, stepping


def asked_ahead(made: Stepping, read: PartitionRead) -> tuple[list[Fetch], Locate | None]:
    """Gives the read a location and starts its ranges until it requests the next location or has no command."""
    first = read.next_command(0.0)
    assert isinstance(first, Locate)
    assert not first.ahead
    read.issued(first)
    read.located(first, made.location(first.offset), first.offset, 0.0)
    ranges = []
    while isinstance(command := read.next_command(0.0), Fetch):
        read.issued(command)
        ranges.append(command)
    if command is not None:
        assert command.ahead
        read.issued(command)
    return ranges, command


@contextmanager
def looking_ahead(**options: Any) -> Iterator[tuple[Stepping, PartitionRead, list[Fetch], Locate]]:
    """A read with its ranges in flight that requests the next location, with both commands."""
    with stepping() as made:
        read = made.read(**options)
        read.begun = True
        ranges, ahead = asked_ahead(made, read)
        assert ahead is not None
        yield made, read, ranges, ahead


def fails(read: PartitionRead, command: Fetch, error: DirectFetchError) -> float | None:
    """Fails the first range and applies the failure."""
    read.landed(command, 0, error)
    decode = read.next_decode()
    assert decode is not None
    return read.decoded(decode, [], None, 0.0, 0.5)


@pytest.mark.parametrize("answer", [LocationError("gone"), NotRemote("local")], ids=["failed", "refused"])
def test_a_relocation_drops_the_answers_received_ahead(answer: LocationError | NotRemote) -> None:
    with looking_ahead() as (made, read, ranges, ahead):
        read.located(ahead, answer, ahead.offset, 0.0)
        fails(read, ranges[0], LocationExpiredError("expired"))
        assert read.state is ReaderState.LOCATING
        assert asked_ahead(made, read)[1] is not None


def test_no_location_past_the_bound_of_a_read_is_requested() -> None:
    with looking_ahead() as (made, _, _, ahead):
        read = made.read(end_offset=ahead.offset)
        read.begun = True
        assert asked_ahead(made, read)[1] is None


def test_a_postponed_location_is_requested_when_its_time_comes() -> None:
    with stepping() as made:
        read = made.read()
        first = read.next_command(0.0)
        assert isinstance(first, Locate)
        read.issued(first)
        read.postponed(5.0)
        assert read.next_command(4.9) is None
        assert isinstance(read.next_command(5.0), Locate)


def test_a_location_overtaken_by_a_relocation_is_dropped() -> None:
    """It is for a later offset: reading on from it would skip records."""
    with looking_ahead() as (made, read, ranges, ahead):
        fails(read, ranges[0], LocationExpiredError("expired"))
        read.located(ahead, made.location(ahead.offset), ahead.offset, 0.0)
        assert read.state is ReaderState.LOCATING
        command = read.next_command(0.0)
        assert isinstance(command, Locate)
        assert (command.offset, command.ahead) == (0, False)


def test_a_range_without_a_whole_batch_permits_no_further_relocation() -> None:
    """A range ends inside the first batch, and the rest of the batch never arrives: the read would never end."""
    with stepping() as made:
        read = made.opened()
        found = made.location(0)
        cut = [ByteRange(found.span.start, found.span.start + 10), ByteRange(found.span.start + 10, found.span.end)]
        location = attrs.evolve(found, ranges=tuple(GrantedRange(one, found.ranges[0].custom_metadata) for one in cut))
        locates = 0
        while (command := made.next()) is not None and locates < 9:
            if isinstance(command, Locate):
                locates += 1
                made.locate(command, location)
            elif isinstance(command, Fetch) and command.range.granted.range == cut[1]:
                made.fetch(command, RangeNotSatisfiableError("the object ends inside the range"))
            else:
                made.carry_out(command)
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        assert (locates, end.next_offset) == (2, 0)


def test_a_failure_ahead_of_the_last_record_is_retried_once() -> None:
    with stepping() as made:
        read = made.read()
        early = Locate(read, 0, -1, 80_000, 20_000, ahead=True, asked_at=0.0)
        read.issued(early)
        read.located(early, LocationError("nobody answers"), 0, 0.0)
        assert read.state is ReaderState.LOCATING
        assert asked_ahead(made, read)[0]


def test_fresh_urls_wait_for_a_location_request_in_progress() -> None:
    with looking_ahead() as (_, read, ranges, ahead):
        assert read.with_fresh_url(ranges[0], math.inf) is None
        read.located(ahead, LocationError("gone"), ahead.offset, 0.0)
        command = read.with_fresh_url(ranges[0], math.inf)
        assert isinstance(command, Locate)
        assert command.renews is ranges[0].grant
        assert command.window == ranges[0].grant.window


def test_one_small_window_is_read_before_the_first_take() -> None:
    with stepping() as made:
        read = made.opened(end_offset=TIERED_END)
        first = made.next()
        assert isinstance(first, Locate)
        assert (first.window, first.range_bytes) == (256 * 1024, 128 * 1024)
        made.locate(first, made.location(0, 40_000))
        made.run()
        assert made.next() is None
        assert isinstance(made.scheduler.taken(read, 0.0), RecordBlock)
        following = made.next()
        assert isinstance(following, Locate)
        assert following.window > 256 * 1024


def test_a_read_of_fixed_windows_requests_no_other_size() -> None:
    window = (40_000, 20_000)
    with looking_ahead(window=window) as (_, _, ranges, ahead):
        assert (ranges[0].grant.window, ranges[0].grant.range_bytes) == window
        assert (ahead.window, ahead.range_bytes) == window


def first_window(made: Stepping, readers: int, seconds: float = 0.01) -> tuple[PartitionRead, list[Fetch], Locate | None]:
    """A read among ``readers``, whose location took ``seconds``; all ranges of the first window, and the command after them."""
    read = made.opened()
    made.scheduler.budget.readers = readers
    locate = cast("Locate", made.next())
    made.clock.now += seconds
    made.locate(locate)
    ranges = []
    while isinstance(command := made.next(), Fetch):
        ranges.append(command)
    return read, ranges, cast("Locate | None", command)


@pytest.mark.parametrize("readers", [4, 5])
def test_second_window_is_located_early_if_few_partitions_are_read(readers: int) -> None:
    with stepping() as made:
        read, ranges, ahead = first_window(made, readers)
        assert isinstance(ahead, Locate) is (readers == 4)
        assert ranges[0].grant.window == (2 if readers == 4 else 1) * ranges[0].grant.range_bytes
        if ahead is not None:
            assert (ahead.ahead, ahead.offset) == (True, ranges[0].grant.location.next_offset)
            made.locate(ahead)
        for wanted in ranges:
            made.fetch(wanted)
        made.run()
        assert made.scheduler.in_flight == 0, "ranges of the second window wait for the first take"
        assert isinstance(made.scheduler.taken(read, made.clock.now), RecordBlock)
        assert isinstance(made.next(), Fetch) is (readers == 4)


@pytest.mark.parametrize(("seconds", "ranges"), [(0.09, 8), (0.11, 128)])
def test_second_window_is_short_if_locations_are_fast(seconds: float, ranges: int) -> None:
    with stepping() as made:
        ahead = first_window(made, 1, seconds)[2]
        assert ahead is not None
        assert ahead.window == ranges * ahead.range_bytes


def test_a_read_of_fixed_windows_looks_ahead_before_the_first_take() -> None:
    with stepping() as made:
        made.scheduler.budget.readers = 5
        assert asked_ahead(made, made.read())[1] is None
        assert asked_ahead(made, made.read(window=(40_000, 20_000)))[1] is not None


def test_ranges_past_the_bound_of_a_read_are_not_requested() -> None:
    with stepping() as made:
        read = made.opened(end_offset=10)
        found = made.location(0)
        assert len(found.ranges) == 4
        told = tuple(attrs.evolve(one, first_offset=number * 10) for number, one in enumerate(found.ranges))
        made.locate(cast("Locate", made.next()), attrs.evolve(found, ranges=told))
        (asked, nothing) = (made.next(), made.next())
        assert isinstance(asked, Fetch)
        assert nothing is None
        made.fetch(asked)
        made.run()
        assert isinstance(everything(read)[-1], ReadEnd)


def locate_always(made: Stepping, read: PartitionRead, answer: SegmentLocation) -> tuple[int, ReadEnd]:
    """Reads to the end with the same answer to each location request. Returns the number of these, and the end."""
    locates = 0
    while True:
        while (command := made.next()) is not None:
            if isinstance(command, Locate):
                locates += 1
                made.locate(command, answer)
            else:
                made.carry_out(command)
        item = made.scheduler.taken(read, made.clock.now)
        assert item is not None
        if isinstance(item, ReadEnd):
            return locates, item


def test_a_location_whose_ranges_begin_too_late_is_refused() -> None:
    with stepping() as made:
        found = made.location(0)
        read = made.opened(end_offset=found.next_offset)
        told = tuple(attrs.evolve(one, first_offset=number * found.next_offset) for number, one in enumerate(found.ranges))
        locates, end = locate_always(made, read, attrs.evolve(found, ranges=told))
        assert (locates, end.reason) == (2, "bad-location")
        assert end.next_offset < found.next_offset


def test_a_location_that_stays_pending_is_refused() -> None:
    with stepping(attrs.evolve(Stepping().config, pending_timeout_ms=1000)) as made:
        read = made.opened()
        asked = 0
        while isinstance(command := made.next(), Locate):
            asked += 1
            made.locate(command, LocationPending())
            assert made.next() is None, "not at once"
            made.clock.now += 0.25
        assert asked == 5
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        assert (end.reason, end.next_offset) == ("location-pending", 0)


def test_a_location_that_was_pending_for_a_while_is_used() -> None:
    with stepping() as made:
        read = made.opened()
        made.locate(cast("Locate", made.next()), LocationPending())
        made.clock.now += 29.0
        made.locate(cast("Locate", made.next()))
        assert read.state is ReaderState.READING
        read.begun = True
        made.run()
        assert read.pending(made.clock.now + 60.0) is None, "time counts anew"


def test_at_most_four_grants_are_read_at_once() -> None:
    with stepping() as made:
        read = made.read()
        read.begun = True
        grants = 0
        while (command := read.next_command(0.0)) is not None:
            read.issued(command)
            if isinstance(command, Locate):
                read.located(command, made.location(command.offset, 40_000), command.offset, 0.0)
                grants += 1
        assert grants == 4


def test_a_range_that_failed_for_a_while_is_retried_in_time() -> None:
    with looking_ahead() as (made, read, ranges, ahead):
        read.located(ahead, LocationError("gone"), ahead.offset, 0.0)
        damage = CorruptRecordError("bad")
        for landed in ranges:
            landed.lease = Lease(0, lambda _lease: None)
            read.landed(landed, 0, None)
        decode = read.next_decode()
        assert decode is not None
        assert read.next_decode() is None, "one thread decodes"
        retry_at = read.decoded(decode, [], damage, 7.0, 0.5)
        assert retry_at == 7.0 + 0.5 * 0.05
        assert read.next_command(7.0) is None
        again = read.next_command(retry_at)
        assert isinstance(again, Fetch)
        assert again.range is ranges[0].range
        assert made.metrics.snapshot()["remote-fetch-errors-total"] == {"corrupt": 1}


def test_results_of_a_stopped_read_are_dropped() -> None:
    with looking_ahead() as (made, read, ranges, ahead):
        read.landed(ranges[0], 20_000, None)
        decode = read.next_decode()
        assert decode is not None
        read.stop(0.0)
        assert not read.owns(ranges[0].grant)
        assert read.decoded(decode, [], None, 0.0, 0.5) is None
        read.located(ahead, made.location(ahead.offset), ahead.offset, 0.0)
        assert read.state is ReaderState.STOPPED
        assert (read.next_command(0.0), read.next_decode(), read.take(0.0)) == (None, None, None)
        assert made.metrics.snapshot()["remote-fetch-over-read-bytes-total"] == 20_000


def test_the_last_refusal_ends_the_read_after_the_last_record() -> None:
    with stepping() as made:
        read = made.opened()
        read.begun = True
        while (command := made.next()) is not None:
            if isinstance(command, Locate) and command.ahead:
                made.locate(command, NotRemote("not-granted", error=LocationError("why")))
            else:
                made.carry_out(command)
        items = everything(read)
        end = items.pop()
        assert isinstance(end, ReadEnd)
        assert (end.reason, str(end.error)) == ("not-granted", "why")
        assert end.next_offset == sum(len(block) for block in items if isinstance(block, RecordBlock)) > 0


def everything(read: PartitionRead) -> list[RecordBlock | ReadEnd]:
    items: list[RecordBlock | ReadEnd] = []
    while (item := read.take(0.0)) is not None:
        items.append(item)
    return items


def test_statistics_have_what_the_owner_needs() -> None:
    with stepping() as made:
        read = made.opened(end_offset=10)
        assert (read.ready, read.has_ready, read.passed) == (None, False, (0, -1))
        made.run()
        assert isinstance(read.ready, Deliver)
        assert read.has_ready
        assert read.passed is None, "a block waits"
        while isinstance(item := read.take(0.0), RecordBlock):
            assert len(item)
            read.release(0.0)
            read.release(0.0)
            if isinstance(read.ready, End):
                assert read.has_ready
        assert isinstance(item, ReadEnd)
        assert (item.reason, read.ready, read.passed) == ("end", None, (10, 0))


def test_a_gap_at_the_end_of_a_grant_is_passed_if_gaps_are_allowed() -> None:
    with stepping(attrs.evolve(Stepping().config, allow_offset_gaps=True)) as made:
        read = made.opened()
        command = made.next()
        assert isinstance(command, Locate)
        found = made.location(0)
        made.locate(command, attrs.evolve(found, ranges=found.ranges[:-1]))
        while (command := made.next()) is not None:
            if not isinstance(command, Locate):  # the next location is not answered
                made.carry_out(command)
        assert (read.state, read.next_offset) == (ReaderState.LOCATING, found.next_offset)


def test_a_gap_up_to_the_bound_of_a_read_ends_it_if_gaps_are_allowed() -> None:
    with stepping(attrs.evolve(Stepping().config, allow_offset_gaps=True)) as made:
        found = made.location(0)
        read = made.opened(end_offset=found.next_offset)
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, attrs.evolve(found, ranges=found.ranges[:-1]))
        made.run()
        end = everything(read)[-1]
        assert isinstance(end, ReadEnd)
        assert (end.reason, end.next_offset) == ("end", found.next_offset)


@pytest.mark.parametrize("decoding", [True, False])
def test_a_leaving_read_ends_when_no_request_is_in_progress(decoding: bool) -> None:
    with looking_ahead() as (_, read, ranges, _):
        for landed in ranges:
            read.landed(landed, 0, LocationExpiredError("expired"))
        decode = read.next_decode() if decoding else None
        read.leave("slower-than-broker")
        assert read.state is ReaderState.READING, "what has landed is decoded first"
        assert read.next_command(0.0) is None
        decode = decode or read.next_decode()
        assert decode is not None
        read.decoded(decode, [], None, 0.0, 0.5)
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        assert end.reason == "slower-than-broker"


@pytest.mark.parametrize("failed", [True, False])
def test_a_failed_read_names_the_segment_that_it_read(failed: bool) -> None:
    with looking_ahead() as (made, read, _, _):
        read.refuse("breaker-open", LocationError("the store is down") if failed else None)
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        segment = made.location(0).metadata.remote_log_segment_id
        assert end.segment == (segment if failed else None)
        assert end.fallback("orders", 3).segment == end.segment


def test_a_read_that_ended_does_not_fail() -> None:
    with stepping() as made:
        read = made.read()
        read.refuse("breaker-open", LocationError("the first"))
        read.fail(DirectFetchError("the second"))
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        assert (end.reason, str(end.error)) == ("breaker-open", "the first")


def test_a_borrowing_block_keeps_the_buffer_until_it_is_released() -> None:
    with stepping(attrs.evolve(Stepping().config, max_in_flight=1)) as made:
        read = made.opened(borrow=True, end_offset=100)
        made.run()
        assert made.recycled == []
        while not isinstance(made.scheduler.taken(read, made.clock.now), ReadEnd):
            assert made.scheduler.budget.memory.held
        assert len(made.recycled) == 1


def test_a_refusal_ends_the_read_with_its_reason() -> None:
    with stepping() as made:
        read = made.opened(start=7)
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, NotRemote("out-of-range", out_of_range=True))
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        assert (end.reason, end.next_offset, end.out_of_range) == ("out-of-range", 7, True)


@pytest.mark.parametrize(("led", "other"), [(0, False), (7, True)], ids=["not-known", "created-again"])
def test_an_end_tells_if_the_leader_has_another_topic(led: int, other: bool) -> None:
    with stepping() as made:
        read = made.opened()
        read.begun = True
        while (command := made.next()) is not None:
            if isinstance(command, Locate) and command.ahead:
                made.locate(command, NotRemote("diverging-epoch", topic_id=UUID(int=led)))
            else:
                made.carry_out(command)
        end = everything(read)[-1]
        assert isinstance(end, ReadEnd)
        assert (end.topic_id, end.topic_id_of_leader) == (made.location(0).metadata.topic_id_partition.topic_id, UUID(int=led))
        assert end.is_of_another_topic is other


@pytest.mark.parametrize("before", [UUID(int=0), UUID(int=7), UUID(int=8)], ids=["not-known", "same", "other"])
def test_a_refused_read_tells_if_another_topic_was_read_before(before: UUID) -> None:
    with stepping() as made:
        read = made.opened(start=7, topic_id=before)
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, NotRemote("out-of-range", out_of_range=True, topic_id=UUID(int=7)))
        end = read.take(0.0)
        assert isinstance(end, ReadEnd)
        assert end.is_of_another_topic is (before == UUID(int=8))


@pytest.mark.parametrize("promised", ["undecided", "bad-location"])
def test_a_grant_that_does_not_reach_its_next_offset_ends_the_read(promised: str) -> None:
    with stepping() as made:
        read = made.opened()
        found = made.location(0)
        undecided, short = attrs.evolve(found, high_watermark=30), attrs.evolve(found, ranges=found.ranges[:-1])
        # What a short grant lacks may have been compacted: a second location has to say so.
        locates, end = locate_always(made, read, undecided if promised == "undecided" else short)
        assert (locates > 1, end.reason) == (promised == "bad-location", promised)
        assert end.next_offset == 30 if promised == "undecided" else end.next_offset < found.next_offset
