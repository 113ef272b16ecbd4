from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Message

from kafka_remote_client.clock import Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import LocationError, NoSegmentsError, RemoteStorageTimeoutError, RemoteStorageUnavailableError
from kafka_remote_client.fallback import FallbackLog, TierUnavailableError
from kafka_remote_client.fetch.assemble import DirectFetchOffError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, PartitionOffsets, TopicPartition
from kafka_remote_client.records import RecordBlock, read_batches
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading import split_reader
from kafka_remote_client.spark.reading.broker_limit import BrokerBytesError
from kafka_remote_client.spark.reading.split_reader import SplitReader
from kafka_remote_client.spark.reading.task_counters import load_counters
from kafka_remote_client.spark.reading.task_engine import TaskEngines
from kafka_remote_client.spark.reading.tier_health import RETRY_SECONDS, TierHealth
from tests.support.batches import Rec, batch
from tests.support.locations import ManualClock

TP = TopicPartition("t", 3)
SPLIT = Split(TP, 5, 10, 1000)
UNAVAILABLE = RemoteStorageUnavailableError("store.example answered 503").with_context(host="store.example")


def block(*offsets: int) -> RecordBlock:
    return read_batches(batch(offsets[0], [Rec(offset - offsets[0], b"k", b"v") for offset in offsets]))


class FakeEngine:
    """Its readers return ``items``: blocks, an end, or an error."""

    def __init__(self, items: Sequence[RecordBlock | ReadEnd | Exception]) -> None:
        self._items = items
        self.metrics = FetchMetrics(ManualClock())
        self.requests: list[ReadRequest] = []
        self.left = 0
        self.closed = False

    def reader(self, request: ReadRequest) -> FakeEngine:
        assert request.borrow
        assert request.window == split_window(RemoteFetchConfig(enabled=True))
        self.requests.append(request)
        return self

    def blocks(self, timeout: float) -> Iterator[RecordBlock | ReadEnd]:
        assert timeout == 120.0
        try:
            for item in self._items:
                self.metrics.range_done(100, 0.1)
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.left += 1

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def from_broker(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Returns the ranges requested from the broker, which has every offset."""
    asked: list[tuple[int, int]] = []

    def read(settings: object, partition: TopicPartition, start: int, end: int, **more: object) -> Iterator[list[Message]]:
        assert partition == TP
        asked.append((start, end))
        yield block(*range(start, end)).messages(*TP)

    monkeypatch.setattr(split_reader, "read_from_broker", read)
    return asked


def own() -> dict[str, Any]:
    """The state that a process shares, for one test."""
    clock = ManualClock()
    return {"clock": clock, "health": TierHealth(clock), "fallbacks": FallbackLog(split_reader._log, clock)}


def offsets(engine: FakeEngine | None, **more: str) -> list[int]:
    given: Any = engine
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **more})
    engines = TaskEngines(lambda _options, _clock: given)
    reader = SplitReader(options, engines=engines, **own())
    found = [offset for records in reader.read(SPLIT) for offset in records.column("offset").to_pylist()]
    assert engine is None or engine.left == len(engine.requests)
    engines.close()
    assert engine is None or engine.closed
    return found


def test_a_fully_tiered_split_is_read_from_the_tier_only(from_broker: list[tuple[int, int]]) -> None:
    engine = FakeEngine([block(5, 6), block(7, 9), ReadEnd("end", 10)])
    assert offsets(engine) == [5, 6, 7, 9]
    (request,) = engine.requests
    assert (request.topic, request.partition, request.start_offset, request.end_offset) == ("t", 3, 5, 10)
    assert request.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert from_broker == []


def test_the_option_sets_the_isolation_level(from_broker: list[tuple[int, int]]) -> None:
    engine = FakeEngine([ReadEnd("end", 10)])
    assert offsets(engine, **{"kafka.isolation.level": "read_committed"}) == []
    assert engine.requests[0].isolation_level is IsolationLevel.READ_COMMITTED


def test_the_broker_continues_at_the_exact_next_offset(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    assert offsets(FakeEngine([block(5, 6), ReadEnd("local", 8)])) == [5, 6, 8, 9]
    assert from_broker == [(8, 10)]
    assert not caplog.records


def test_a_failure_of_the_store_is_logged_and_loses_no_record(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert offsets(FakeEngine([block(5), ReadEnd("unavailable", 6, error=UNAVAILABLE)])) == [5, 6, 7, 8, 9]
    assert caplog.messages == [
        "direct fetch disabled for t-3: store.example answered 503; the broker continues at offset 6 (unavailable)"
    ]


def test_a_silent_tier_goes_to_the_broker_after_the_delivered_records(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert offsets(FakeEngine([block(5, 6), RemoteStorageTimeoutError("nothing came")])) == [5, 6, 7, 8, 9]
    assert caplog.messages == ["direct fetch disabled for t-3: nothing came; the broker continues at offset 7 (timeout)"]


def test_without_direct_fetch_all_records_come_from_the_broker(from_broker: list[tuple[int, int]]) -> None:
    assert offsets(None) == [5, 6, 7, 8, 9]
    assert from_broker == [(5, 10)]


def test_an_abandoned_task_stops_reading_and_releases_the_engine(from_broker: list[tuple[int, int]]) -> None:
    engine: Any = FakeEngine([block(5), block(6)])
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
    engines = TaskEngines(lambda _options, _clock: engine)
    found: Any = SplitReader(options, engines=engines).read(SPLIT)
    next(found)
    found.close()
    assert engine.left == 1
    assert not engine.closed
    assert next(SplitReader(options, engines=engines).read(SPLIT)).num_rows == 1
    assert len(engine.requests) == 2


def test_a_silent_engine_is_not_used_again(from_broker: list[tuple[int, int]]) -> None:
    engine: Any = FakeEngine([RemoteStorageTimeoutError("nothing came")])
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
    list(SplitReader(options, **own(), engines=TaskEngines(lambda _options, _clock: engine)).read(SPLIT))
    assert engine.closed


def test_messages_are_the_same_records_as_a_consumer_gives_them(from_broker: list[tuple[int, int]]) -> None:
    engine: Any = FakeEngine([block(5, 6), ReadEnd("local", 8)])
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
    reader = SplitReader(options, **own(), engines=TaskEngines(lambda _options, _clock: engine))
    found = list(reader.messages(SPLIT))
    assert [(found.topic(), found.partition(), found.offset(), found.key(), found.value()) for found in found] == [
        ("t", 3, offset, b"k", b"v") for offset in (5, 6, 8, 9)
    ]
    assert from_broker == [(8, 10)]


def test_records_and_causes_are_counted_by_tier(from_broker: list[tuple[int, int]]) -> None:
    engine: Any = FakeEngine([block(5, 6), ReadEnd("local", 8)])
    failing: Any = FakeEngine([block(5), RemoteStorageTimeoutError("nothing came")])
    engine.metrics.range_done(1000, 0.1)  # of a task before
    engines = iter([engine, failing, None])
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
    reader = SplitReader(options, **own(), engines=TaskEngines(lambda _options, _clock: next(engines)))
    list(reader.read(SPLIT))
    found = reader.counters
    assert found["remote-fetch-records-total"] == found["broker-fetch-records-total"] == 2
    assert (found["remote-fetch-request-total"], found["remote-fetch-bytes-total"]) == (2, 200)
    assert (found["remote-fetch-handovers-total"], found["remote-fetch-fallbacks-total"]) == (1, {})
    reader._options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "kafka.client.id": "other"})
    list(reader.messages(SPLIT))
    found = reader.counters
    assert (found["remote-fetch-records-total"], found["broker-fetch-records-total"]) == (3, 6)
    assert (found["remote-fetch-handovers-total"], found["remote-fetch-fallbacks-total"]) == (1, {"timeout": 1})
    assert found["remote-fetch-request-total"] == 4


def test_counters_of_each_reading_are_left_in_the_directory_of_that_option(
    from_broker: list[tuple[int, int]], tmp_path: Path
) -> None:
    engine: Any = FakeEngine([block(5, 6), ReadEnd("local", 8)])
    assert offsets(engine, **{"remote.countersDirectory": str(tmp_path)}) == [5, 6, 8, 9]
    found = load_counters(str(tmp_path))
    assert (found.splits, found.seconds) == (1, 0.0)
    assert found.counters["remote-fetch-request-total"] == 2
    assert found.counters["remote-fetch-records-total"] == found.counters["broker-fetch-records-total"] == 2


def test_a_split_that_ends_in_the_tier_is_no_hand_over(from_broker: list[tuple[int, int]]) -> None:
    engine: Any = FakeEngine([block(5, 6, 7, 8, 9), ReadEnd("end", SPLIT.end)])
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
    reader = SplitReader(options, **own(), engines=TaskEngines(lambda _options, _clock: engine))
    list(reader.read(SPLIT))
    assert (reader.counters["remote-fetch-handovers-total"], from_broker) == (0, [])


# -- where the tier fails --------------------------------------------------------------------------------------------------

BASE = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
NO_ANSWER = ReadEnd("location-unavailable", 5, error=LocationError("shim:9192 timed out"))


class Worker:
    """A Python worker that reads splits one after the other; its engines are made from ``script``, one for each task."""

    def __init__(self, *script: Sequence[RecordBlock | ReadEnd | Exception], **more: str) -> None:
        self._options = parse_options(BASE | more)
        self._own = own()
        self.clock: ManualClock = self._own["clock"]
        self.made = [FakeEngine(items) for items in script]
        self._next = iter(self.made)

    def read(self, split: Split = SPLIT) -> list[int]:
        def make(_options: object, _clock: object) -> Any:
            return next(self._next)

        reader = SplitReader(self._options, **self._own, engines=TaskEngines(make))
        return [offset for records in reader.read(split) for offset in records.column("offset").to_pylist()]

    @property
    def asked(self) -> int:
        return sum(len(engine.requests) for engine in self.made)


ALL = [block(5, 6, 7, 8, 9), ReadEnd("end", 10)]


def test_a_tier_that_does_not_answer_costs_a_worker_one_time_out(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker([NO_ANSWER], ALL)
    for _ in range(12):
        assert worker.read() == [5, 6, 7, 8, 9]
    assert worker.asked == 1
    assert from_broker == [(5, 10)] * 12
    assert "shim:9192 timed out" in caplog.text


def test_a_tier_is_asked_again_after_a_while(from_broker: list[tuple[int, int]]) -> None:
    worker = Worker([NO_ANSWER], [NO_ANSWER], ALL, ALL)
    worker.read()
    for asked in (2, 3):
        worker.clock.now += RETRY_SECONDS + 1
        worker.read()
        assert worker.asked == asked
    worker.read()
    assert worker.asked == 4
    assert from_broker == [(5, 10)] * 2


def test_what_the_driver_says_costs_a_worker_neither_time_out_nor_warning(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(ALL, ALL)
    told = attrs.evolve(SPLIT, tier_failure="shim:9192 timed out")
    for _ in range(3):
        worker.read(told)
    assert worker.asked == 0
    worker.clock.now += RETRY_SECONDS + 1
    worker.read(told)
    assert worker.asked == 1
    worker.read(told)
    assert worker.asked == 2
    assert from_broker == [(5, 10)] * 3
    assert caplog.records == []


def test_many_tasks_warn_once_for_a_cause(from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture) -> None:
    failing = [ReadEnd("unavailable", 5, error=UNAVAILABLE)]
    worker = Worker(*[failing] * 5)
    for _ in range(4):
        worker.read()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    worker.clock.now += 61
    worker.read()
    assert "3 more since the last warning" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([block(5), ReadEnd("unavailable", 6, error=UNAVAILABLE)], r"t-3 at offset 6 .*store\.example answered 503"),
        ([NO_ANSWER], r"t-3 at offset 5 .*timed out \(location-unavailable\)"),
        ([RemoteStorageTimeoutError("nothing came")], r"t-3 at offset 5 .*nothing came \(timeout\)"),
        ([ReadEnd("aborted-unknown", 5)], r"t-3 at offset 5 .*aborted-unknown"),
    ],
)
def test_a_task_fails_where_it_would_fall_back(
    from_broker: list[tuple[int, int]], items: Sequence[RecordBlock | ReadEnd | Exception], text: str
) -> None:
    worker = Worker(items, ALL, **{"remote.onFallback": "fail"})
    with pytest.raises(TierUnavailableError, match=text):
        worker.read()
    assert from_broker == []
    assert worker.read() == [5, 6, 7, 8, 9]  # another attempt asks again


class Shortened(FakeEngine):
    """An engine of a log that starts at ``log_start``. Its first reader finds no offset, the next one finds ``items``."""

    def __init__(self, log_start: int | LocationError, *items: RecordBlock | ReadEnd) -> None:
        super().__init__([ReadEnd("out-of-range", 5, out_of_range=True)])
        self._later = items
        self._log_start = log_start
        self.source = self

    def reader(self, request: ReadRequest) -> FakeEngine:
        if self.requests:
            self._items = self._later
        return super().reader(request)

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        assert (topic, partition, deadline.remaining()) == (*TP, 120.0)
        if isinstance(self._log_start, LocationError):
            raise self._log_start
        return PartitionOffsets(log_start=self._log_start)


@pytest.mark.parametrize("on_fallback", ["broker", "fail"])
def test_after_deleted_offsets_the_tier_continues_at_the_logs_start(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture, on_fallback: str
) -> None:
    engine = Shortened(7, block(7, 9), ReadEnd("end", 10))
    assert offsets(engine, **{"remote.onFallback": on_fallback, "failOnDataLoss": "false"}) == [7, 9]
    assert [request.start_offset for request in engine.requests] == [5, 7]
    assert from_broker == []
    (told,) = caplog.messages
    assert told.startswith("t-3: the offsets 5 to 6 were deleted; the log starts at 7")


@pytest.mark.parametrize("on_fallback", ["broker", "fail"])
def test_deleted_offsets_fail_a_query_that_may_not_lose_data(from_broker: list[tuple[int, int]], on_fallback: str) -> None:
    with pytest.raises(DataLossError, match="t-3: the offsets 5 to 9 were deleted; the log starts at 12"):
        offsets(Shortened(12), **{"remote.onFallback": on_fallback})
    assert from_broker == []


def test_a_split_whose_offsets_were_all_deleted_has_no_record(from_broker: list[tuple[int, int]]) -> None:
    assert offsets(Shortened(12), failOnDataLoss="false") == []
    assert from_broker == []


@pytest.mark.parametrize("log_start", [-1, 0, 5])
def test_the_broker_tells_what_else_is_out_of_range(from_broker: list[tuple[int, int]], log_start: int) -> None:
    assert offsets(Shortened(log_start), **{"remote.onFallback": "fail"}) == [5, 6, 7, 8, 9]
    assert from_broker == [(5, 10)]


def test_a_query_that_may_not_fall_back_fails_if_the_logs_start_is_unknown(from_broker: list[tuple[int, int]]) -> None:
    unknown = LocationError("shim:9192 timed out")
    with pytest.raises(TierUnavailableError, match=r"t-3 at offset 5 .*shim:9192 timed out"):
        offsets(Shortened(unknown), **{"remote.onFallback": "fail"})
    assert from_broker == []
    assert offsets(Shortened(unknown)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("reason", ["local", "not-granted", "nothing-tiered"])
def test_what_is_not_tiered_is_no_fallback(from_broker: list[tuple[int, int]], reason: str) -> None:
    worker = Worker([block(5, 6), ReadEnd(reason, 7)], **{"remote.onFallback": "fail"})
    assert worker.read() == [5, 6, 7, 8, 9]
    assert from_broker == [(7, 10)]


def test_a_tiered_offset_that_is_not_granted_is_a_fallback(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    refused = [block(5, 6), ReadEnd("not-granted", 7)]
    for tiered_end, fallbacks in ((7, 0), (8, 1)):
        worker = Worker(refused)
        assert worker.read(attrs.evolve(SPLIT, tiered_end=tiered_end)) == [5, 6, 7, 8, 9]
        assert len(caplog.records) == fallbacks
    assert caplog.records[0].levelno == logging.WARNING
    assert "the shim grants no location of t-3 at offset 7, although that offset is tiered" in caplog.text
    error = NoSegmentsError("found no segments of topic t; the store has no objects there")
    absent = [ReadEnd("nothing-tiered", 7, error=error)]
    for tiered_end, fallbacks in ((7, 1), (8, 2)):
        Worker(absent).read(attrs.evolve(SPLIT, start=7, tiered_end=tiered_end))
        assert len(caplog.records) == fallbacks
    assert "found no segments of topic t; the store has no objects there; the broker continues at offset 7" in caplog.text
    with pytest.raises(TierUnavailableError, match=r"cannot read t-3 at offset 7 from the tier: .*\(not-granted\)"):
        Worker(refused, **{"remote.onFallback": "fail"}).read(attrs.evolve(SPLIT, tiered_end=8))


def test_direct_fetch_that_cannot_work_is_a_fallback(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    def cannot(_options: object, _clock: object) -> Any:
        raise DirectFetchOffError("the extra is not installed")

    def read(**more: str) -> int:
        reader = SplitReader(parse_options(BASE | more), **own(), engines=TaskEngines(cannot))
        return sum(batch.num_rows for batch in reader.read(SPLIT))

    assert read() == 5
    assert "the extra is not installed" in caplog.text
    with pytest.raises(TierUnavailableError, match="the extra is not installed"):
        read(**{"remote.onFallback": "fail"})


def test_direct_fetch_that_is_turned_off_is_no_fallback(
    from_broker: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    assert offsets(None, **{"fetch.remote.enabled": "false", "remote.onFallback": "fail"}) == [5, 6, 7, 8, 9]
    assert not caplog.records


def test_a_task_hands_on_no_more_broker_bytes_than_its_share(from_broker: list[tuple[int, int]]) -> None:
    tier = [block(5, 6), ReadEnd("local", 7)]
    limited = attrs.evolve(SPLIT, max_broker_bytes=6)  # three records with a key and a value of one byte each
    assert Worker(tier).read(limited) == [5, 6, 7, 8, 9]
    with pytest.raises(BrokerBytesError, match="t-3 before offset 10: more than 5 bytes came from the broker"):
        Worker(tier).read(attrs.evolve(SPLIT, max_broker_bytes=5))


def test_reading_a_split_again_counts_its_broker_bytes_again(from_broker: list[tuple[int, int]]) -> None:
    engines = TaskEngines(lambda _options, _clock: None)
    reader = SplitReader(parse_options(BASE | {"fetch.remote.enabled": "false"}), **own(), engines=engines)
    limited = attrs.evolve(SPLIT, max_broker_bytes=15)
    assert len(list(reader.messages(limited))) == 5
    assert len(list(reader.messages(attrs.evolve(limited, start=6)))) == 4  # another split
    with pytest.raises(BrokerBytesError):
        list(reader.messages(limited))
