"""Limits that the consumer was given, and pauses that brokers ask for: partitions go on slowly, and none falls back."""

from __future__ import annotations

from typing import Any

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import LocationThrottledError, RemoteStorageUnavailableError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from tests.support.golden_tier import GoldenTierSource, ScriptedFetcher
from tests.support.locations import ManualClock
from tests.support.reader_rig import CONFIG, Rig, assert_equal, expected, range_starts, rig, whole
from tests.support.waiting import wait_until

TOPICS = ("codec-none-rdk", "codec-zstd-java")


class Drained:
    """Takes what a reader has, without waiting."""

    def __init__(self, reader: RemoteReader) -> None:
        self.reader = reader
        self.rows: list[tuple[Any, ...]] = []
        self.end: ReadEnd | None = None

    def take(self) -> bool:
        """Whether the reader is at its end."""
        while self.end is None and (item := self.reader.take()) is not None:
            if isinstance(item, ReadEnd):
                self.end = item
                self.reader.stop()
            else:
                self.rows += item.rows()
        return self.end is not None


def read_slowly(made: Rig, clock: ManualClock, *readers: RemoteReader, step: float) -> list[Drained]:
    """Reads to the end of all; time goes on only when nothing else does, because a limit holds everything back."""
    drained = [Drained(reader) for reader in readers]
    scheduler = made.engine._scheduler
    limits = scheduler.budget._limits
    while True:

        def at_rest() -> bool:
            ended = [one.take() for one in drained]
            with made.engine.lock:
                locating = any(one.reader._read._locating for one in drained)
                works = scheduler.in_flight or scheduler._queue._asked or locating
                return all(ended) or (limits._held_since is not None and not works)

        wait_until(at_rest, "the readers to come to rest", pause=0.001)
        if all(one.end is not None for one in drained):
            return drained
        clock.now += step


def limited(**limits: int) -> RemoteFetchConfig:
    return attrs.evolve(CONFIG, **limits)


def test_a_limit_of_requests_is_kept_and_no_partition_falls_back() -> None:
    clock = ManualClock()
    start = clock.now
    with rig(GoldenTierSource(range_bytes=60_000), config=limited(max_requests_per_second=2), clock=clock) as made:
        readers = [made.engine.reader(ReadRequest(topic, 0, 0, stop_at_local=False)) for topic in TOPICS]
        drained = read_slowly(made, clock, *readers, step=0.5)
        snapshot = made.metrics.snapshot()
    for topic, one in zip(TOPICS, drained, strict=True):
        assert one.end is not None
        assert one.end.reason == "local"
        assert_equal(one.rows, expected(topic, "read_committed", one.end.next_offset))
    requests = len(made.fetcher.fetched)
    assert requests > 6
    assert requests <= 2 + 2 * (clock.now - start) + 1
    assert snapshot["remote-fetch-errors-total"] == {}
    # Held back from rest to rest, except where there was nothing to ask for.
    assert 0 < snapshot["remote-fetch-rate-limit-time-total"] <= 1000 * (clock.now - start)


def test_a_limit_of_bytes_is_kept_and_makes_ranges_and_windows_small() -> None:
    clock = ManualClock()
    start = clock.now
    with rig(GoldenTierSource(range_bytes=60_000), config=limited(max_bytes_per_second=100_000), clock=clock) as made:
        (one,) = read_slowly(made, clock, made.engine.reader(ReadRequest(TOPICS[0], 0, 0)), step=0.25)
        assert made.engine._scheduler.budget.sizer.maximum == 100_000
    assert one.end is not None
    assert one.end.reason == "local"
    assert_equal(one.rows, whole())
    asked = sum(end - begin for begin, end in made.fetcher.fetched)
    assert asked > 300_000
    assert asked <= 100_000 * (1 + clock.now - start) + 60_000
    assert max(request.max_bytes for request in made.source.asked) <= 2 * 64 * 100_000


def test_repetitions_pay_as_well() -> None:
    clock = ManualClock()
    clock.fraction = 0.0
    start = clock.now
    second = range_starts(60_000)[1]
    fetcher = ScriptedFetcher({second: [RemoteStorageUnavailableError("503")] * 2})
    with rig(GoldenTierSource(range_bytes=60_000), fetcher, limited(max_requests_per_second=1), clock) as made:
        (one,) = read_slowly(made, clock, made.engine.reader(ReadRequest(TOPICS[0], 0, 0)), step=0.5)
    assert_equal(one.rows, whole())
    assert fetcher.faults_left == 0
    assert len(fetcher.fetched) <= 1 + (clock.now - start) + 1


def test_partition_of_a_throttling_broker_waits_without_a_fallback() -> None:
    clock = ManualClock()
    source = GoldenTierSource()
    source.answers.extend([LocationThrottledError("later", 20.0), LocationThrottledError("later", 10.0)])
    with rig(source, clock=clock) as made:
        one = Drained(made.engine.reader(ReadRequest(TOPICS[0], 0, 0)))
        for asked, pause in ((1, 20.0), (2, 10.0)):
            wait_until(lambda n=asked: len(source.asked) == n and not one.reader._read._locating, "the question", pause=0.001)
            clock.now += pause - 1
            assert not one.take()
            clock.now += 1
        wait_until(one.take, "the end", pause=0.001)
        snapshot = made.metrics.snapshot()
    assert one.end is not None
    assert one.end.reason == "local"
    assert_equal(one.rows, whole())
    assert snapshot["remote-fetch-errors-total"] == {}


def test_other_partitions_continue_while_one_waits_for_its_broker() -> None:
    clock = ManualClock()
    source = GoldenTierSource()
    source.answers.append(LocationThrottledError("later", 20.0))
    with rig(source, clock=clock) as made:
        waiting = Drained(made.engine.reader(ReadRequest(TOPICS[0], 0, 0)))
        wait_until(lambda: source.asked and not waiting.reader._read._locating, "the question", pause=0.001)
        other = Drained(made.engine.reader(ReadRequest(TOPICS[1], 0, 0)))
        wait_until(other.take, "the other's end", pause=0.001)
        assert not waiting.take()
        assert waiting.rows == []
        waiting.reader.stop()
    assert other.end is not None
    assert other.end.reason == "local"


def test_granted_ranges_are_read_while_the_broker_throttles() -> None:
    clock = ManualClock()
    source = GoldenTierSource()
    source.answers.extend([lambda found: attrs.evolve(found, throttle_time_ms=250), LocationThrottledError("later", 5.0)])
    with rig(source, clock=clock) as made:
        one = Drained(made.engine.reader(ReadRequest(TOPICS[0], 0, 0)))
        wait_until(lambda: one.take() or len(source.asked) == 2, "the second question", pause=0.001)
        granted = source.asked[1].offset
        wait_until(lambda: one.take() or (one.rows and one.rows[-1][0] >= granted - 1), "the first grant", pause=0.001)
        clock.now += 5
        wait_until(one.take, "the end", pause=0.001)
        snapshot = made.metrics.snapshot()
    assert_equal(one.rows, whole())
    assert snapshot["remote-fetch-location-throttle-time-total"] == 250


def test_a_pause_longer_than_the_patience_goes_to_the_broker() -> None:
    source = GoldenTierSource()
    source.answers.append(LocationThrottledError("much later", 31.0))
    with rig(source) as made:
        rows, end = made.read()
    assert (rows, end.reason, end.next_offset) == ([], "location-throttled", 0)
