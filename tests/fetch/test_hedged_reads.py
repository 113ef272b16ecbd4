"""Late ranges are requested twice: in the scheduler with a manual clock, and in a complete engine."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageTimeoutError, RemoteStorageUnavailableError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.partition_read import Decode, Fetch, Locate, PartitionRead
from kafka_remote_client.fetch.range_place import store_host
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.scheduler import ReadDefectError
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.plugin import ReadableStream, WritableBuffer
from kafka_remote_client.records import RecordBlock
from tests.support.golden_tier import GoldenTierSource, ScriptedFetcher
from tests.support.stepping import TIERED_END, TOPIC, Stepping, stepping

CONFIG = RemoteFetchConfig(enabled=True, retries=2)
DELAY = CONFIG.read_timeout_ms / 1000 / 4
ALLOWED = (CONFIG.read_timeout_ms + CONFIG.connect_timeout_ms) / 1000 + 0.5
FAILURE = RemoteStorageUnavailableError("reset")


def fetching(made: Stepping) -> Fetch:
    command = made.next()
    assert isinstance(command, Fetch)
    return command


def late(made: Stepping) -> tuple[PartitionRead, Fetch]:
    """A read with one range in flight, its first, which is late. The other ranges have landed and wait for it."""
    read = made.opened()
    made.scheduler.budget.readers = 5  # too many to look ahead before the first record
    locate = made.next()
    assert isinstance(locate, Locate)
    made.locate(locate)
    first = fetching(made)
    while (other := made.next()) is not None:
        assert isinstance(other, Fetch)
        assert not other.hedges
        made.fetch(other)
    assert made.flying == [first]
    made.clock.now += DELAY
    return read, first


def counted(made: Stepping) -> dict[str, Any]:
    """Returns the metrics of hedges and of over-read."""
    names = ("hedges-total", "hedges-won-total", "hedges-bytes-total", "over-read-bytes-total", "retries-total")
    told = made.metrics.snapshot()
    return {name.removesuffix("-total"): told[f"remote-fetch-{name}"] for name in names}


def use_up(made: Stepping) -> None:
    """Uses up the share of hedges: no further hedge may be sent."""
    while made.scheduler._hedging.take(1, urgent=True):
        pass


def all_records(made: Stepping, read: PartitionRead) -> tuple[list[int], ReadEnd]:
    """Returns the offsets of the rest of the read, and its end."""
    offsets: list[int] = []
    while not isinstance(item := made.scheduler.taken(read, made.clock.now), ReadEnd):
        if isinstance(item, RecordBlock):
            offsets.extend(map(item.offset, range(len(item))))
        else:
            made.carry_out(made.next() or pytest.fail("nothing to do"))
    return offsets, item


def test_a_late_range_gets_one_hedge_and_not_before_its_deadline() -> None:
    with stepping() as made:
        _, first = late(made)
        made.clock.now -= 0.01
        assert made.next() is None
        assert made.scheduler.patience(made.clock.now, 5.0) == pytest.approx(0.01), "looked at again and again"
        made.clock.now += 0.01
        hedge = fetching(made)
        assert (hedge.hedges, hedge.range, hedge.grant) == (True, first.range, first.grant)
        assert (first.range.attempts, made.scheduler.in_flight) == (1, 2)
        assert hedge.lease is not first.lease
        made.clock.now += DELAY - 0.01
        assert made.next() is None
        assert counted(made)["hedges"] == 1


def test_a_late_hedge_is_followed_by_another() -> None:
    with stepping() as made:
        read, first = late(made)
        for _ in range(100):
            made.scheduler._hedging.requested(first.range.size)
        hedge = fetching(made)
        made.clock.now += DELAY
        third = fetching(made)
        assert (third.hedges, third.range, made.scheduler.in_flight) == (True, first.range, 3)
        more = []
        for _ in range(2):
            made.clock.now += DELAY
            more.append(fetching(made))
        made.clock.now += DELAY
        assert made.next() is None, "five are enough"
        made.fetch(third)
        assert [one.overtaken for one in (first, hedge, *more)] == [True] * 4
        assert made.scheduler.stuck == 4
        offsets, end = all_records(made, read)
        assert (offsets, end.reason) == (list(range(TIERED_END)), "local")
        assert counted(made)["hedges"] == 4


def test_after_a_failure_the_remaining_request_becomes_late() -> None:
    with stepping() as made:
        read, first = late(made)
        for _ in range(100):
            made.scheduler._hedging.requested(first.range.size)
        made.fetch(fetching(made), FAILURE)
        again = fetching(made)
        assert (again.hedges, again.range) == (True, first.range)
        made.fetch(again)
        offsets, _ = all_records(made, read)
        assert offsets == list(range(TIERED_END))


@pytest.mark.parametrize("hedge_wins", [True, False])
def test_each_record_is_delivered_once_whichever_request_wins(hedge_wins: bool) -> None:
    with stepping() as made:
        read, first = late(made)
        hedge = fetching(made)
        winner, other = (hedge, first) if hedge_wins else (first, hedge)
        made.fetch(winner)
        assert (made.scheduler.in_flight, made.scheduler.stuck) == (0, 1)
        assert (other.overtaken, winner.overtaken) == (True, False)
        assert other.lease is None, "it has no buffer yet, and needs no memory any more"
        made.fetch(other)
        size = first.range.size
        assert made.scheduler.stuck == 0
        assert counted(made) == {
            "hedges": 1,
            "hedges-won": int(hedge_wins),
            "hedges-bytes": size,
            "over-read-bytes": size,
            "retries": 0,
        }
        offsets, end = all_records(made, read)
        assert (offsets, end.reason) == (list(range(TIERED_END)), "local")


def test_an_overtaken_request_may_stop_early() -> None:
    with stepping() as made:
        _, first = late(made)
        made.fetch(fetching(made))
        made.flying.remove(first)
        made.scheduler.overtaken(first, 700)
        assert (made.scheduler.stuck, first.lease) == (0, None)
        assert counted(made)["hedges-bytes"] == counted(made)["over-read-bytes"] == 700


@pytest.mark.parametrize("hedge_fails", [True, False])
def test_one_failed_request_leaves_the_range_to_the_other(hedge_fails: bool) -> None:
    with stepping() as made:
        read, first = late(made)
        hedge = fetching(made)
        fails, goes_on = (hedge, first) if hedge_fails else (first, hedge)
        use_up(made)
        made.fetch(fails, FAILURE, 100)
        assert (made.next(), made.scheduler.in_flight) == (None, 1)
        made.fetch(goes_on)
        assert counted(made)["retries"] == 0
        offsets, end = all_records(made, read)
        assert (offsets, end.reason) == (list(range(TIERED_END)), "local")
        assert counted(made)["over-read-bytes"] == 100
        assert counted(made)["hedges-bytes"] == (100 if hedge_fails else 0)


def test_a_range_fails_once_if_both_requests_fail() -> None:
    with stepping() as made:
        read, first = late(made)
        hedge = fetching(made)
        made.fetch(first, FAILURE)
        made.fetch(hedge, FAILURE)
        made.carry_out(made.next() or pytest.fail("the failure is acted on"))
        made.clock.now += 0.1
        again = fetching(made)
        assert (again.range, again.hedges, again.range.attempts) == (first.range, False, 2)
        assert counted(made)["retries"] == 1
        made.fetch(again)
        offsets, _ = all_records(made, read)
        assert offsets == list(range(TIERED_END))


@pytest.mark.parametrize("hedge_comes", [True, False])
def test_a_hung_request_costs_nothing_if_its_hedge_arrives(hedge_comes: bool) -> None:
    with stepping() as made:
        read, first = late(made)
        made.clock.now += 1.0
        hedge = fetching(made)
        use_up(made)
        made.clock.now += ALLOWED - 1.0 - DELAY + 0.001
        assert made.next() is None
        assert (made.scheduler.in_flight, made.scheduler.stuck) == (1, 1)
        if hedge_comes:
            made.fetch(hedge)
            offsets, end = all_records(made, read)
            assert (offsets, end.reason) == (list(range(TIERED_END)), "local")
        else:
            made.fetch(hedge, RemoteStorageTimeoutError("late as well"))
            made.run()
            assert all_records(made, read)[1].reason == "timeout"
        made.fetch(first)
        assert made.scheduler.stuck == 0


def test_a_late_range_that_is_no_longer_needed_has_no_hedge() -> None:
    with stepping() as made:
        read, _ = late(made)
        made.scheduler.stopped(read, made.clock.now)
        assert made.next() is None
        assert counted(made)["hedges"] == 0


def test_zero_percent_turns_hedges_off() -> None:
    with stepping(attrs.evolve(CONFIG, hedge_max_percent=0)) as made:
        late(made)
        assert made.next() is None
        assert made.scheduler.patience(made.clock.now, 60.0) == 60.0


@pytest.mark.parametrize("most", [1, 2])
def test_hedges_count_as_ranges_in_flight(most: int) -> None:
    with stepping(attrs.evolve(CONFIG, max_in_flight=most)) as made:
        made.opened()
        locate = made.next()
        assert isinstance(locate, Locate)
        made.locate(locate)
        flying = [fetching(made) for _ in range(most)]
        made.clock.now += DELAY
        assert made.next() is None
        made.fetch(flying[-1])
        if most == 2:
            assert fetching(made).hedges


def test_a_hedge_needs_memory_that_other_ranges_do_not_use() -> None:
    with stepping() as made:
        _, first = late(made)
        memory = made.scheduler.budget.memory
        filled = memory.limit - memory.held
        memory.force(filled)
        assert made.next() is None
        memory.give_back(first.range.needs - 1)
        assert made.next() is None
        memory.give_back(1)
        assert fetching(made).hedges
        memory.give_back(filled - first.range.needs)


def test_other_ranges_leave_memory_for_a_hedge() -> None:
    with stepping() as made:
        _, first = late(made)
        budget, needs = made.scheduler.budget, first.range.needs
        filled = budget.memory.limit - budget.memory.held - 2 * needs
        budget.memory.force(filled)
        assert budget.has_for(needs, 0, made.clock.now)
        budget.memory.force(1)
        assert not budget.has_for(needs, 0, made.clock.now)
        assert budget.has_for_hedge(needs, 0, made.clock.now)
        budget.memory.give_back(filled + 1)


def test_a_large_range_leaves_no_memory_for_a_hedge() -> None:
    with stepping() as made:
        budget = made.scheduler.budget
        needs = budget.memory.limit // 8
        budget.memory.force(budget.memory.limit - needs - 8)
        assert not budget.has_for(needs, 0, 0.0)
        assert budget.has_for(needs + 1, 0, 0.0)
        budget.memory.give_back(budget.memory.limit - needs - 8)


def test_a_hedge_waits_for_the_rate_limits() -> None:
    with stepping(attrs.evolve(CONFIG, max_requests_per_second=1)) as made:
        made.opened()
        locate = made.next()
        assert isinstance(locate, Locate)
        made.locate(locate)
        first = fetching(made)
        assert made.next() is None
        made.clock.now += DELAY
        hedge = fetching(made)
        assert (hedge.hedges, hedge.range is first.range) == (True, True)
        assert made.next() is None, "the hedge took what the limit allows"


def test_a_hedge_waits_for_the_rate_that_the_store_accepts() -> None:
    with stepping() as made:
        late(made)
        made.scheduler.budget.request_rate.throttled(made.clock.now)
        assert made.next() is None
        made.clock.now += 0.25
        assert fetching(made).hedges
        assert made.scheduler.budget.request_rate.delay(made.clock.now) > 0


def test_a_failing_store_gets_no_hedges() -> None:
    with stepping(attrs.evolve(CONFIG, breaker_failures=1)) as made:
        _, first = late(made)
        made.scheduler.admission.failed(first.range, FAILURE, made.clock.now)
        assert made.next() is None
        assert counted(made)["hedges"] == 0


def test_an_exhausted_share_allows_no_hedge() -> None:
    with stepping() as made:
        late(made)
        use_up(made)
        assert made.next() is None
        for _ in range(100):
            made.scheduler._hedging.requested(1 << 20)
        assert fetching(made).hedges


def test_a_store_that_is_slow_throughout_gets_no_hedges() -> None:
    with stepping() as made:
        _, first = late(made)
        hedging, size = made.scheduler._hedging, first.range.size
        host = store_host(first.range.granted)
        for seconds in (0.1,) * 40 + (5.0,) * 6:
            hedging.took(host, size, seconds)
        assert hedging.is_slow(host)
        assert made.next() is None
        for _ in range(20):
            hedging.took(host, size, 0.1)
        assert made.next() is None, "it is looked at again later"
        made.clock.now += 0.1
        assert fetching(made).hedges


def test_the_deadline_of_a_range_follows_a_slower_store() -> None:
    with stepping() as made:
        _, first = late(made)
        for _ in range(40):
            made.scheduler._hedging.took(store_host(first.range.granted), first.range.size, 1.0)
        assert made.next() is None
        assert made.scheduler.patience(made.clock.now, 5.0) == pytest.approx(0.1)
        made.clock.now += 0.2
        assert made.next() is None
        made.clock.now += 0.1
        assert fetching(made).hedges


def test_a_defect_in_a_hedge_sends_its_read_to_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    with stepping() as made:
        read, first = late(made)
        monkeypatch.setattr(read, "owns", lambda _: 1 / 0)
        with pytest.raises(ReadDefectError, match=TOPIC) as raised:
            made.next()
        assert (raised.value.read, raised.value.command) == (read, None)
        monkeypatch.undo()
        made.scheduler.broke(read, raised.value.__cause__)
        assert made.next() is None
        made.fetch(first)
        assert (made.scheduler.in_flight, made.scheduler.stuck) == (0, 0)


class _Hangs:
    """A stream that gives nothing until it is released, then the range."""

    def __init__(self, stream: ReadableStream, released: threading.Event) -> None:
        self._stream = stream
        self._released = released

    def readinto(self, buffer: WritableBuffer, /) -> int:
        self._released.wait(60.0)
        return self._stream.readinto(memoryview(buffer)[:100])

    def close(self) -> None:
        self._stream.close()


@pytest.mark.parametrize("most", [2, 64])
def test_a_request_without_an_answer_loses_no_record(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All settings but the number of ranges in flight are defaults: no range times out, and no partition falls back.

    A GET is late after a second at the earliest, so that a busy machine adds no hedges.
    """
    monkeypatch.setattr("kafka_remote_client.fetch.hedging._LEAST_SECONDS", 1.0)
    released, clock = threading.Event(), SystemClock()
    fetcher = ScriptedFetcher({0: [lambda stream: _Hangs(stream, released)]})
    config = attrs.evolve(CONFIG, max_in_flight=most)
    engine = FetchEngine(GoldenTierSource(), fetcher, config, clock=clock, metrics=FetchMetrics(clock))
    try:
        count = 0
        for item in engine.reader(ReadRequest(TOPIC, 0, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED)).blocks(60.0):
            if isinstance(item, ReadEnd):
                assert (item.reason, item.error) == ("local", None)
            else:
                count += len(item)
        told = engine.metrics.snapshot()
        assert (count, told["remote-fetch-hedges-won-total"]) == (TIERED_END, told["remote-fetch-hedges-total"])
        assert (told["remote-fetch-errors-total"], engine._scheduler.stuck) == ({}, 1)
    finally:
        released.set()
        engine.close(60.0)
    told = engine.metrics.snapshot()
    assert (engine._scheduler.stuck, engine.memory.held) == (0, 0)
    assert told["remote-fetch-hedges-bytes-total"] == 100, "the request that was overtaken stopped at once"


def test_the_decode_command_follows_the_hedge() -> None:
    with stepping() as made:
        _, first = late(made)
        made.fetch(fetching(made))
        decode = made.next()
        assert isinstance(decode, Decode)
        assert decode.range is first.range
        made.decode(decode)
