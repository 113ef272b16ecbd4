"""Events in, commands out, without threads. For the resulting records see test_remote_reader and test_over_read."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import (
    LocationError,
    LocationThrottledError,
    PeerUnreachableError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch import scheduler as scheduler_module
from kafka_remote_client.fetch.commands import LocationBatch, Passed, reads_of
from kafka_remote_client.fetch.partition_read import Decode, Deliver, End, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.scheduler import ReadDefectError
from kafka_remote_client.model import IsolationLevel, LocationPending, NotRemote, PartitionOffsets
from kafka_remote_client.records import RecordBlock
from tests.support.golden_tier import GoldenTierSource
from tests.support.stepping import TIERED_END, Stepping, stepping

CONFIG = Stepping().config
ONE_AT_A_TIME = attrs.evolve(CONFIG, max_in_flight=1)


def located(made: Stepping, **options: Any) -> PartitionRead:
    """A read with its first grant; it requests its ranges."""
    read = made.opened(**options)
    command = made.next()
    assert isinstance(command, Locate)
    assert command.read is read
    made.locate(command)
    return read


def both_located(made: Stepping) -> list[PartitionRead]:
    """Two reads with their first grants."""
    reads = [made.opened(), made.opened()]
    commands = [made.next(), made.next()]
    for command in commands:
        assert isinstance(command, Locate)
        made.locate(command)
    return reads


def fetching(made: Stepping) -> Fetch:
    command = made.next()
    assert isinstance(command, Fetch)
    return command


def the_end(read: PartitionRead) -> ReadEnd:
    while isinstance(item := read.take(0.0), RecordBlock):
        pass
    assert isinstance(item, ReadEnd)
    return item


def told(made: Stepping) -> list[tuple[type, PartitionRead]]:
    return [(type(notice), notice.read) for notice in made.scheduler.notices()]


def test_a_partition_is_read_to_the_end_of_the_tier() -> None:
    with stepping() as made:
        read = made.opened()
        count = 0
        while not isinstance(item := made.scheduler.taken(read, made.clock.now), ReadEnd):
            if isinstance(item, RecordBlock):
                count += len(item)
            else:
                made.carry_out(made.next() or pytest.fail("nothing to do"))
        assert (count, item.next_offset, item.reason) == (TIERED_END, TIERED_END, "local")
        made.scheduler.stopped(read, made.clock.now)
        assert made.next() is None
        assert made.recycled, "buffers come back"


def test_a_range_is_decoded_before_any_request() -> None:
    with stepping() as made:
        read = located(made)
        first = fetching(made)
        made.fetch(first)
        command = made.next()
        assert isinstance(command, Decode)
        assert (command.read, command.range) == (read, first.range)
        made.decode(command)
        assert isinstance(made.next(), Locate | Fetch)


def test_ranges_are_decoded_in_position_order() -> None:
    with stepping() as made:
        located(made)
        first, second = fetching(made), fetching(made)
        made.fetch(second)
        command = made.next()
        assert not isinstance(command, Decode)
        made.fetch(first)
        for expected in (first, second):
            command = made.next()
            assert isinstance(command, Decode)
            assert command.range is expected.range
            made.decode(command)


def test_an_owner_is_notified_once_until_it_has_taken_all() -> None:
    with stepping(ONE_AT_A_TIME) as made:
        read = located(made, end_offset=400)
        assert (made.scheduler.has_ready, told(made)) == (False, [])
        made.run()
        assert made.scheduler.has_ready
        assert told(made) == [(Deliver, read)]
        while isinstance(made.scheduler.taken(read, made.clock.now), RecordBlock):
            pass
        assert (made.scheduler.has_ready, told(made)) == (False, [])


def test_an_end_without_records_is_delivered_as_an_end() -> None:
    with stepping() as made:
        read = made.opened()
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, LocationError("gone"))
        assert told(made) == [(End, read)]
        assert the_end(read).reason == "location-unavailable"
        assert made.metrics.snapshot()["remote-fetch-errors-total"] == {"location-unavailable": 1}


def test_a_throttle_time_of_the_broker_is_kept() -> None:
    with stepping() as made:
        read = made.opened()
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, LocationThrottledError("later", 0.1))
        assert made.next() is None
        assert made.scheduler.patience(made.clock.now, 0.25) == pytest.approx(0.1)
        made.clock.now += 0.1
        again = made.next()
        assert isinstance(again, Locate)
        assert (again.read, told(made)) == (read, [])
        assert made.metrics.snapshot()["remote-fetch-errors-total"] == {}


def test_an_unreachable_peer_is_asked_once_more() -> None:
    with stepping() as made:
        read = made.opened()
        for _ in range(2):
            command = made.next()
            assert isinstance(command, Locate)
            made.locate(command, PeerUnreachableError("refused"))
            assert (made.next(), told(made)) == (None, [])
            made.clock.now += 0.7
            command = made.next()
            assert isinstance(command, Locate)
            made.locate(command, LocationPending())  # the next request is a first one again
            made.clock.now += 0.1
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, PeerUnreachableError("refused"))
        made.clock.now += 0.7
        command = made.next()
        assert isinstance(command, Locate)
        made.locate(command, PeerUnreachableError("refused"))
        assert told(made) == [(End, read)]
        assert the_end(read).reason == "peer-unreachable"


def test_a_pause_for_a_location_ahead_is_a_failure_ahead() -> None:
    """No record waits for that location yet. It is requested again when it is needed, not when the pause is over."""
    with stepping(attrs.evolve(CONFIG, hedge_max_percent=0)) as made:
        located(made).begun = True
        commands = []
        while (command := made.next()) is not None:
            commands.append(command)
        (ahead,) = (command for command in commands if isinstance(command, Locate))
        assert ahead.ahead
        made.locate(ahead, LocationThrottledError("later", 5.0))
        assert made.next() is None
        made.clock.now += 6.0
        assert made.next() is None


def test_without_a_read_there_is_no_deadline() -> None:
    with stepping() as made:
        assert made.scheduler.patience(made.clock.now, 0.25) is None
        read = made.opened()
        assert (made.scheduler.patience(made.clock.now, 0.25), made.scheduler.has_work) == (0.25, True)
        made.scheduler.stopped(read, made.clock.now)
        assert (made.scheduler.patience(made.clock.now, 0.25), made.scheduler.has_work) == (None, False)


def test_a_get_of_a_stopped_read_is_given_up_in_time() -> None:
    with stepping() as made:
        read = located(made)
        fetching(made)
        made.scheduler.stopped(read, made.clock.now)
        assert made.scheduler.patience(made.clock.now, 0.25) is not None
        made.clock.now += 1_000.0
        assert made.next() is None
        assert (made.scheduler.in_flight, made.scheduler.stuck) == (0, 1)
        assert made.scheduler.patience(made.clock.now, 0.25) is None


def test_all_reads_that_need_a_location_are_one_batch() -> None:
    with stepping() as made:
        reads = [made.opened() for _ in range(130)]
        first, second = (made.scheduler.next_command(0.0) for _ in range(2))
        assert isinstance(first, LocationBatch)
        assert isinstance(second, LocationBatch)
        assert reads_of(first) == reads[:128]
        assert reads_of(second) == reads[128:]
        assert made.scheduler.next_command(0.0) is None
        made.scheduler.abandoned(first)


def test_a_server_that_leaves_most_pending_gets_smaller_batches() -> None:
    with stepping() as made:
        for _ in range(200):
            made.opened()
        sizes = []
        for pending in (1.0, 1.0, 0.6, 0.5, 0.0):
            batch = made.scheduler.next_command(made.clock.now)
            assert isinstance(batch, LocationBatch)
            sizes.append(len(batch.locates))
            left = round(pending * len(batch.locates))
            for number, command in enumerate(batch.locates):
                made.locate(command, LocationPending() if number < left else NotRemote("local"))
            made.clock.now += 0.02
        assert sizes == [128, 64, 32, 16, 32]
        made.scheduler._locations_at_once = 8
        batch = made.scheduler.next_command(made.clock.now)
        assert isinstance(batch, LocationBatch)
        for command in batch.locates:
            made.locate(command, LocationPending())
        assert made.scheduler._locations_at_once == 8


def test_an_abandoned_batch_does_not_make_the_next_smaller() -> None:
    with stepping() as made:
        for _ in range(300):
            made.opened()
        abandoned = made.scheduler.next_command(0.0)
        assert isinstance(abandoned, LocationBatch)
        made.scheduler.abandoned(abandoned)
        batch = made.scheduler.next_command(0.0)
        assert isinstance(batch, LocationBatch)
        assert len(batch.locates) == len(abandoned.locates)


def test_at_most_two_batches_of_locations_are_in_progress() -> None:
    with stepping() as made:
        batches = []
        for _ in range(2):
            made.opened()
            batch = made.scheduler.next_command(0.0)
            assert isinstance(batch, LocationBatch)
            batches.append(batch)
        last = made.opened()
        assert made.scheduler.next_command(0.0) is None
        assert not made.scheduler.has_work
        (done,) = batches[0].locates
        made.locate(done, NotRemote("local"))
        assert made.scheduler.has_work
        following = made.scheduler.next_command(0.0)
        assert isinstance(following, LocationBatch)
        assert reads_of(following) == [last]


@pytest.mark.parametrize("first", [True, False])
def test_a_defect_in_a_location_request_affects_no_other_read(monkeypatch: pytest.MonkeyPatch, first: bool) -> None:
    with stepping() as made:
        reads = [made.opened() for _ in range(2)]
        broken, other = reads if first else reversed(reads)
        monkeypatch.setattr(broken, "issued", breaks)
        outcomes: list[object] = []
        for _ in range(2):
            try:
                outcomes.append(made.scheduler.next_command(0.0))
            except ReadDefectError as defect:
                made.scheduler.broke(defect.read, defect.__cause__)
                outcomes.append(defect.read)
        batch = next(outcome for outcome in outcomes if isinstance(outcome, LocationBatch))
        assert reads_of(batch) == [other]
        assert broken in outcomes


def test_a_read_with_another_need_by_now_is_left_out_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with stepping() as made:
        read = made.opened()
        monkeypatch.setattr(scheduler_module, "LOCATION_BATCHES", 0)
        assert made.scheduler.next_command(0.0) is None
        monkeypatch.undo()
        read.postponed(5.0)
        assert made.scheduler.next_command(0.0) is None
        assert made.scheduler.next_command(0.0) is None


def test_the_reader_that_waited_first_for_budget_stays_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with stepping() as made:
        reads = both_located(made)
        with monkeypatch.context() as patched:
            patched.setattr(made.scheduler.budget, "has_for", lambda *_: False)
            assert [made.next() for _ in range(2)] == [None] * 2
        assert made.scheduler.has_work
        assert fetching(made).read is reads[0]


def test_released_memory_lets_the_next_range_go() -> None:
    with stepping(attrs.evolve(CONFIG, buffer_memory=30_000), source=GoldenTierSource(range_bytes=20_000)) as made:
        read = located(made)
        made.run()
        assert made.next() is None
        assert not made.scheduler.has_work, "a range waits for memory"
        assert isinstance(made.scheduler.taken(read, made.clock.now), RecordBlock)
        made.scheduler.released(read, 0.0)
        assert made.scheduler.has_work, "there is memory again"
        assert isinstance(made.next(), Locate | Fetch)


def test_a_reader_that_is_gone_does_not_decide_whether_others_have_room() -> None:
    with stepping(attrs.evolve(CONFIG, max_in_flight=1, hedge_max_percent=0)) as made:
        first, second = both_located(made)
        fetching(made)
        assert made.next() is None
        assert not made.scheduler.has_work, "both wait for the place in flight"
        made.scheduler.stopped(second, made.clock.now)
        assert made.scheduler.has_work, "not known"
        assert made.next() is None
        assert not made.scheduler.has_work
        assert first in made.scheduler.reads


def failed_before_a_later_range(made: Stepping) -> tuple[PartitionRead, Fetch]:
    """A read whose first range failed, with the second one in memory."""
    read = located(made)
    first, second = fetching(made), fetching(made)
    made.fetch(second)
    made.fetch(first, RemoteStorageUnavailableError("reset"), 5_000)
    made.decode(decoding(made))
    return read, first


def decoding(made: Stepping) -> Decode:
    command = made.next()
    assert isinstance(command, Decode)
    return command


def test_a_retry_needs_no_memory_that_another_read_could_take() -> None:
    """Otherwise both reads would wait for ever: ranges after the failed one keep the memory that the other one waits for."""
    with stepping(attrs.evolve(CONFIG, max_in_flight=2, hedge_max_percent=0)) as made:
        _, first = failed_before_a_later_range(made)
        memory = made.scheduler.budget.memory
        memory.limit = memory.held
        made.opened()
        other = made.next()
        assert isinstance(other, Locate)
        made.locate(other)
        assert made.next() is None, "no memory for the other read"
        made.clock.now += 10.0
        assert fetching(made).range is first.range


def test_a_retry_goes_before_readers_that_wait_for_memory() -> None:
    """Also if its own read had waited for memory for a later range."""
    with stepping(attrs.evolve(CONFIG, max_in_flight=2, hedge_max_percent=0)) as made:
        read = located(made)
        made.opened()
        first, second = fetching(made), fetching(made)
        other = made.next()
        assert isinstance(other, Locate)
        made.locate(other)
        assert made.next() is None, "both readers wait for a place in flight"
        memory = made.scheduler.budget.memory
        memory.limit = memory.held
        made.fetch(second)
        assert made.next() is None, "both readers wait for memory"
        made.fetch(first, RemoteStorageUnavailableError("reset"), 5_000)
        made.decode(decoding(made))
        assert made.next() is None, "the retry has a pause"
        made.clock.now += 10.0
        again = fetching(made)
        assert (again.read, again.range) == (read, first.range)


def test_a_retry_keeps_its_memory_while_blocks_use_the_buffer() -> None:
    with stepping(attrs.evolve(CONFIG, hedge_max_percent=0), source=GoldenTierSource(range_bytes=60_000)) as made:
        read = located(made, borrow=True)
        first = fetching(made)
        size = first.range.size
        made.fetch(first, RemoteStorageUnavailableError("reset"), size - 1)
        made.decode(decoding(made))
        assert made.scheduler.budget.memory.held >= 2 * size, "of the blocks, and of the retry"
        assert not made.recycled
        while isinstance(made.scheduler.taken(read, made.clock.now), RecordBlock):
            pass
        assert len(made.recycled) == 1
        assert made.scheduler.budget.memory.held >= size


def test_a_range_with_an_old_url_waits_for_a_new_one() -> None:
    with stepping() as made:
        read = made.opened()
        first = made.next()
        assert isinstance(first, Locate)
        made.locate(first, attrs.evolve(made.location(0), expires_at=made.clock.now + 10.0))
        made.clock.now += 5.0
        renewal = made.next()
        assert isinstance(renewal, Locate)
        assert (renewal.offset, renewal.window) == (0, first.window)
        assert renewal.renews is not None
        assert made.next() is None, "one question for all ranges"
        made.locate(renewal, attrs.evolve(made.location(0), expires_at=made.clock.now + 10.0))
        assert fetching(made).read is read
        assert made.metrics.snapshot()["remote-fetch-location-refresh-total"] == 1


def test_a_failed_range_is_requested_again_after_its_pause() -> None:
    with stepping(ONE_AT_A_TIME) as made:
        located(made)
        first = fetching(made)
        made.fetch(first, RemoteStorageUnavailableError("reset"), 5_000)
        decode = made.next()
        assert isinstance(decode, Decode)
        made.decode(decode)
        assert made.next() is None
        made.clock.now += 0.5 * 0.05
        assert fetching(made).range is first.range


def test_an_open_breaker_sends_reads_to_the_broker() -> None:
    config = attrs.evolve(CONFIG, retries=0, breaker_failures=1)
    with stepping(config) as made:
        first = located(made)
        made.fetch(fetching(made), RemoteStorageUnavailableError("dead"))
        decode = made.next()
        assert isinstance(decode, Decode)
        made.decode(decode)
        assert the_end(first).reason == "unavailable"
        second = made.opened()
        told(made)
        assert made.next() is None
        assert told(made) == [(End, second)]
        end = the_end(second)
        assert end.reason == "breaker-open"
        assert str(end.error) == "the store failed repeatedly, so requests to it are suspended: dead"


def test_a_slow_store_is_left_when_the_requests_in_flight_have_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[dict[str, Any]] = []
    with stepping() as made:
        preference = made.scheduler.admission.preference
        monkeypatch.setattr(preference, "landed", lambda *_, **options: measured.append(options))
        read = made.opened(stop_at_local=True)
        made.carry_out(made.next() or pytest.fail("no command"))
        first, second = fetching(made), fetching(made)
        monkeypatch.setattr(preference, "leaves", lambda *_: True)
        assert made.next() is None
        assert read.state is ReaderState.READING
        made.fetch(second)
        made.fetch(first)
        made.run()
        assert the_end(read).reason == "slower-than-broker"
        assert [options["in_flight"] for options in measured] == [2, 1], "each counts itself"


def test_a_range_without_a_broker_alternative_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    with stepping() as made:
        preference = made.scheduler.admission.preference
        monkeypatch.setattr(preference, "landed", lambda *_, **__: pytest.fail("measured"))
        located(made)
        made.fetch(fetching(made))  # its owner has no broker
        made.run()
        stopped = made.opened(stop_at_local=True)
        made.carry_out(made.next() or pytest.fail("no command"))
        flying = fetching(made)
        made.scheduler.stopped(stopped, made.clock.now)
        made.fetch(flying)


def test_a_range_that_lands_after_the_stop_is_over_read() -> None:
    with stepping() as made:
        read = located(made)
        flying = fetching(made)
        made.scheduler.stopped(read, made.clock.now)
        assert made.scheduler.in_flight == 1
        made.fetch(flying)
        assert made.scheduler.in_flight == 0
        assert made.metrics.snapshot()["remote-fetch-over-read-bytes-total"] == flying.range.size
        assert made.next() is None
        assert len(made.recycled) == 1


ALLOWED = (CONFIG.read_timeout_ms + CONFIG.connect_timeout_ms) / 1000 + 0.5


@pytest.mark.parametrize("comes", [True, False], ids=["comes", "fails"])
def test_an_overdue_range_is_given_up_and_its_late_bytes_do_not_count(comes: bool) -> None:
    with stepping() as made:
        read = located(made)
        hung = fetching(made)
        made.clock.now += ALLOWED + 0.001
        decode = made.next()
        assert isinstance(decode, Decode)
        assert made.scheduler.stuck == 1
        made.decode(decode)
        assert the_end(read).reason == "timeout"
        if comes:
            made.fetch(hung)
        else:
            made.fetch(hung, RemoteStorageTimeoutError("late"), 100)
        assert made.scheduler.stuck == 0
        received = hung.range.size if comes else 100
        assert made.metrics.snapshot()["remote-fetch-over-read-bytes-total"] == received
        assert made.metrics.snapshot()["remote-fetch-errors-total"] == {"timeout": 1}
        assert made.recycled == [], "the buffer of a fetch that hung is not used again"


def test_reads_go_to_the_broker_while_too_many_threads_hang() -> None:
    with stepping(attrs.evolve(ONE_AT_A_TIME, breaker_failures=1000)) as made:
        read = located(made)
        hung = fetching(made)
        made.clock.now += ALLOWED + 0.001
        decode = made.next()
        assert isinstance(decode, Decode)
        made.decode(decode)
        assert the_end(read).reason == "timeout"
        other = located(made)
        assert made.scheduler.has_work
        assert made.next() is None
        assert the_end(other).reason == "no-thread"
        made.fetch(hung)
        located(made)
        fetching(made)


def test_a_read_that_waits_for_budget_does_not_wait_for_hanging_threads() -> None:
    with stepping(attrs.evolve(ONE_AT_A_TIME, breaker_failures=1000)) as made:
        located(made)
        fetching(made)
        waiting = located(made)
        assert made.next() is None
        assert not made.scheduler.has_work, "the only place is taken"
        made.clock.now += ALLOWED + 0.001
        while (command := made.next()) is not None:
            assert isinstance(command, Decode)
            made.decode(command)
        assert the_end(waiting).reason == "no-thread"


def test_without_workers_the_broker_continues() -> None:
    with stepping() as made:
        read = made.opened()
        made.scheduler.refused(read, "no-thread")
        assert told(made) == [(End, read)]
        assert made.next() is None


def breaks(*_: object, **__: object) -> None:
    raise KeyError("defect")


@pytest.mark.parametrize("name", ["next_command", "with_fresh_url", "issued"])
def test_a_defect_in_a_request_names_its_read_and_others_continue(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with stepping() as made:
        broken, other = both_located(made)
        with monkeypatch.context() as patched:
            patched.setattr(broken, name, breaks)
            with pytest.raises(ReadDefectError, match="codec-none-rdk-0") as raised:
                made.next()
        assert raised.value.read is broken
        assert isinstance(raised.value.__cause__, KeyError)
        made.scheduler.abandoned(raised.value.command)
        made.scheduler.broke(broken, raised.value.__cause__)
        assert told(made) == [(End, broken)]
        end = the_end(broken)
        assert (end.reason, made.scheduler.in_flight) == ("error", 0)
        assert str(end.error) == "reading codec-none-rdk-0 failed with KeyError; see the traceback in the log"
        assert end.error is not None
        assert (end.error.offset, end.error.__cause__) == (0, raised.value.__cause__)
        assert fetching(made).read is other


def test_a_defect_in_choosing_what_to_decode_names_its_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with stepping() as made:
        read = located(made)
        made.fetch(fetching(made))
        monkeypatch.setattr(read, "next_decode", breaks)
        with pytest.raises(ReadDefectError) as raised:
            made.next()
        assert (raised.value.read, raised.value.command) == (read, None)
        made.scheduler.abandoned(None)


def test_a_defect_in_giving_up_a_range_keeps_the_other_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    with stepping() as made:
        broken, other = both_located(made)
        for _ in range(2):
            fetching(made)
        made.clock.now += ALLOWED + 0.001
        monkeypatch.setattr(broken, "landed", breaks)
        with pytest.raises(ReadDefectError) as raised:
            made.next()
        assert raised.value.read is broken
        made.scheduler.abandoned(raised.value.command)
        made.scheduler.broke(broken, raised.value.__cause__)
        made.run()
        assert the_end(other).reason == "timeout"


def test_reads_are_all_but_the_stopped_ones() -> None:
    with stepping() as made:
        reads = [made.opened(), made.opened()]
        assert list(made.scheduler.reads) == reads
        made.scheduler.stopped(reads[0], made.clock.now)
        made.scheduler.stopped(reads[0], made.clock.now)
        assert list(made.scheduler.reads) == reads[1:]


def test_learned_bounds_are_kept() -> None:
    with stepping() as made:
        read = made.opened()
        command = made.next()
        assert isinstance(command, Locate)
        bounds = PartitionOffsets(log_start=3, earliest_local=9)
        made.scheduler.located(command, LocationError("gone"), 0, bounds, made.clock.now)
        assert the_end(read).offsets == bounds


def test_an_owner_is_notified_when_reading_passes_markers() -> None:
    """The event comes each time the position is past the last delivered record, and at no other time."""
    with stepping() as made:
        read = made.opened("txn", isolation_level=IsolationLevel.READ_COMMITTED)
        given = passed = 0
        while (command := made.next()) is not None:
            stood_at = read.next_offset
            made.carry_out(command)
            notices = [notice for notice in made.scheduler.notices() if isinstance(notice, Passed)]
            while isinstance(item := made.scheduler.taken(read, made.clock.now), RecordBlock):
                given = item.next_offset
            assert len(notices) == (read.next_offset > max(given, stood_at))
            passed += len(notices)
        assert passed > 0
