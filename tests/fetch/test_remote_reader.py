"""The reader and the engine together on the golden tier: each failure is handled and loses no record."""

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import (
    CorruptRecordError,
    DirectFetchError,
    ForbiddenLocationError,
    LocationError,
    LocationExpiredError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead, RangeStatus
from kafka_remote_client.fetch.partition_read import PartitionRead
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.model import NotRemote, PartitionOffsets, RemoteLogSegmentMetadata, SegmentLocation
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_client.records import RecordBlock, read_batches
from tests.support.batches import Rec, batch
from tests.support.golden_tier import CutStream, FlippedStream, GoldenTierSource, HangingStream, ScriptedFetcher
from tests.support.locations import ManualClock
from tests.support.reader_rig import (
    COMMITTED,
    CONFIG,
    TIERED_END,
    TOPIC,
    UNCOMMITTED,
    assert_equal,
    drain,
    expected,
    range_starts,
    rig,
    whole,
)
from tests.support.waiting import wait_until


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("topic", [TOPIC, "codec-zstd-java", "codec-gzip-rdk", "epochs", "logappend", "txn"])
def test_reads_a_partition_across_segments_as_the_real_consumer_did(topic: str, isolation: str) -> None:
    with rig() as made:
        rows, end = made.read(
            topic,
            isolation_level=COMMITTED if isolation == "read_committed" else UNCOMMITTED,
            end_offset=2400 if topic == "txn" else None,
        )
        opened = made.metrics.snapshot()
        assert 1 <= opened["remote-fetch-segment-total"] <= opened["remote-fetch-location-request-total"]
        assert opened["remote-fetch-segment-bytes-total"] >= opened["remote-fetch-bytes-total"]
    assert end.reason in {"local", "end"}
    assert_equal(rows, expected(topic, isolation, end.next_offset))
    assert len(made.source.asked) > 1


def test_reports_where_the_broker_continues_and_the_leader_epoch() -> None:
    with rig() as made:
        rows, end = made.read("epochs")
    assert end.next_offset == rows[-1][0] + 1
    assert end.leader_epoch == rows[-1][3]
    assert end.error is None


def test_starts_and_ends_inside_batches() -> None:
    with rig() as made:
        rows, end = made.read(start=1234, end_offset=2345)
    assert_equal(rows, expected(TOPIC, "read_uncommitted", 2345, start=1234))
    assert (end.reason, end.next_offset) == ("end", 2345)


def test_beginning_is_the_logs_start() -> None:
    with rig(GoldenTierSource(PartitionOffsets(log_start=4100))) as made:
        rows, end = made.read(start=-2)
    assert rows[0][0] == 4100
    assert end.next_offset == TIERED_END


def test_beginning_without_a_known_log_start_goes_to_the_broker() -> None:
    with rig(GoldenTierSource(PartitionOffsets())) as made:
        rows, end = made.read(start=-2)
    assert (rows, end.reason, end.next_offset) == ([], "log-start-unknown", -1)


def test_stops_where_the_local_log_begins() -> None:
    with rig(GoldenTierSource(PartitionOffsets(log_start=0, earliest_local=2000))) as made:
        rows, end = made.read(stop_at_local=True)
    assert end.reason == "local"
    assert end.offsets.earliest_local == 2000
    assert end.next_offset >= 2000
    assert_equal(rows, expected(TOPIC, "read_uncommitted", end.next_offset))


def test_a_local_offset_requests_no_location() -> None:
    with rig(GoldenTierSource(PartitionOffsets(log_start=0, earliest_local=2000))) as made:
        rows, end = made.read(start=3000, stop_at_local=True)
        assert made.source.asked == []
    assert (rows, end.reason, end.next_offset) == ([], "local", 3000)


def test_an_offset_out_of_range_is_passed_on() -> None:
    source = GoldenTierSource()
    source.answers.append(NotRemote("out-of-range", out_of_range=True))
    with rig(source) as made:
        _, end = made.read(start=7)
    assert (end.reason, end.next_offset, end.out_of_range) == ("out-of-range", 7, True)


def test_a_refused_location_ends_the_read_with_its_reason() -> None:
    source = GoldenTierSource()
    source.answers.append(lambda found: attrs.evolve(found, format="Iceberg"))
    with rig(source) as made:
        rows, end = made.read()
    assert (rows, end.reason, end.next_offset) == ([], "unsupported-format", 0)


def test_a_failed_location_request_ends_the_read_with_its_cause() -> None:
    source = GoldenTierSource()
    source.answers.append(LocationError("gone"))
    with rig(source) as made:
        rows, end = made.read()
    assert (rows, end.reason, end.next_offset) == ([], "location-unavailable", 0)
    assert isinstance(end.error, LocationError)
    assert made.metrics.snapshot()["remote-fetch-errors-total"] == {"location-unavailable": 1}


def test_a_location_request_that_failed_early_is_repeated_when_needed() -> None:
    source, asked_ahead = GoldenTierSource(), threading.Event()

    def fail(_: SegmentLocation) -> SegmentLocation:
        asked_ahead.set()
        raise LocationError("gone")

    def wait(stream: ReadableStream) -> ReadableStream:
        assert asked_ahead.wait(60)
        return stream

    source.answers.extend([lambda found: found, fail])
    with rig(source, ScriptedFetcher({range_starts()[-1]: [wait]})) as made:
        rows, end = made.read()
    assert end.reason == "local"
    assert_equal(rows, whole())


def test_the_next_location_is_requested_while_ranges_wait() -> None:
    source, starts = GoldenTierSource(), range_starts()

    def wait(stream: ReadableStream) -> ReadableStream:
        wait_until(lambda: len(source.asked) > 1, "the next location to be asked for", pause=0.001)
        return stream

    # Two ranges are in flight, and they end only after that request: the last range is not requested before.
    config = attrs.evolve(CONFIG, max_in_flight=2, read_timeout_ms=120_000)
    with rig(source, ScriptedFetcher({starts[-3]: [wait], starts[-2]: [wait]}), config) as made:
        rows, end = made.read()
    assert end.reason == "local"
    assert_equal(rows, whole())


Fault = DirectFetchError | Exception | Callable[[ReadableStream], ReadableStream]


@pytest.mark.parametrize(
    "faults",
    [
        [RemoteStorageUnavailableError("refused")],
        [RemoteStorageUnavailableError("refused"), RemoteStorageUnavailableError("refused")],
        [lambda stream: CutStream(stream, 5000)],
        [lambda stream: CutStream(stream, 1)],
        [
            lambda stream: CutStream(stream, 9000, RemoteStorageUnavailableError("reset")),
            lambda stream: CutStream(stream, 3000),
        ],
        [lambda stream: FlippedStream(stream, 100)],
        [lambda stream: FlippedStream(stream, 5)],
        [LocationExpiredError("expired")],
        [SegmentNotFoundError("404")],
    ],
    ids=[
        "refused",
        "refused-twice",
        "cut",
        "cut-in-header",
        "reset-then-cut",
        "flip-body",
        "flip-offset",
        "expired",
        "not-found",
    ],
)
def test_failures_with_a_cure_need_no_broker(faults: list[Fault]) -> None:
    start = range_starts()[1]
    with rig(fetcher=ScriptedFetcher({start: list(faults)})) as made:
        rows, end = made.read()
        assert made.fetcher.faults_left == 0
    assert end.reason == "local"
    assert_equal(rows, whole())


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ([RemoteStorageUnavailableError("refused")] * 3, "unavailable"),
        ([RemoteStorageTimeoutError("slow")], "timeout"),
        ([LocationExpiredError("expired")] * 2, "expired"),
        ([ForbiddenLocationError("redirect")], "forbidden-location"),
        ([ValueError("a plugin's own, with https://host/?signature=secret")], "storage-error"),
        ([lambda stream: FlippedStream(stream, 100)] * 2, "corrupt"),
        ([lambda stream: CutStream(stream, 7000, RemoteStorageTimeoutError("slow"))], "timeout"),
    ],
    ids=["refused", "timeout", "expired", "redirect", "plugin", "damaged", "timeout-in-body"],
)
def test_a_permanent_failure_goes_to_the_broker_at_the_next_offset(faults: list[Fault], reason: str) -> None:
    start = range_starts()[1]
    with rig(fetcher=ScriptedFetcher({start: list(faults)})) as made:
        rows, end = made.read()
        assert made.fetcher.faults_left == 0
    assert end.reason == reason
    assert end.error is not None
    known = end.error.context
    assert (known.topic, known.partition, known.byte_range[0] if known.byte_range else None) == (TOPIC, 0, start)
    assert known.host == "store"
    assert known.attempt is not None
    assert end.next_offset == rows[-1][0] + 1
    assert_equal(rows, expected(TOPIC, "read_uncommitted", end.next_offset))
    assert end.error is not None
    assert "secret" not in repr(end)


def test_records_verified_before_a_time_out_are_delivered() -> None:
    second = range_starts(100_000)[1]
    source = GoldenTierSource(range_bytes=100_000)
    with rig(source, ScriptedFetcher({second: [RemoteStorageTimeoutError("slow")]})) as made:
        without, _ = made.read()
    cut = [lambda stream: CutStream(stream, 60_000, RemoteStorageTimeoutError("slow"))]
    source = GoldenTierSource(range_bytes=100_000)
    with rig(source, ScriptedFetcher({second: cut})) as made:
        rows, end = made.read()
    assert len(rows) > len(without)
    assert_equal(rows, expected(TOPIC, "read_uncommitted", end.next_offset))


def test_a_retried_range_continues_with_the_saved_filter() -> None:
    with rig() as made:
        made.read("txn", isolation_level=COMMITTED, end_offset=2400)
        starts = {start for start, _ in made.fetcher.fetched}
    faults: dict[int, list[Fault]] = {start: [lambda stream: CutStream(stream, 9000)] for start in starts}
    with rig(fetcher=ScriptedFetcher(faults)) as made:
        rows, _ = made.read("txn", isolation_level=COMMITTED, end_offset=2400)
    assert_equal(rows, expected("txn", "read_committed", 2400))


def test_a_hung_fetcher_blocks_a_thread_and_no_partition() -> None:
    start = range_starts()[1]
    released = threading.Event()
    config = attrs.evolve(CONFIG, read_timeout_ms=1, connect_timeout_ms=1)
    with rig(fetcher=ScriptedFetcher({start: [lambda _: HangingStream(released)]}), config=config) as made:
        rows, end = made.read()
        assert end.reason == "timeout"
        assert_equal(rows, expected(TOPIC, "read_uncommitted", end.next_offset))
        released.set()


def test_open_breaker_sends_every_partition_to_the_broker() -> None:
    start = range_starts()[0]
    config = attrs.evolve(CONFIG, retries=0, breaker_failures=1, breaker_reset_ms=600_000)
    with rig(fetcher=ScriptedFetcher({start: [RemoteStorageUnavailableError("dead")]}), config=config) as made:
        _, first = made.read()
        asked = len(made.source.asked)
        _, second = made.read()
        assert (first.reason, second.reason) == ("unavailable", "breaker-open")
        assert len(made.source.asked) == asked


def test_a_stopped_reader_delivers_nothing() -> None:
    with rig() as made:
        reader = made.engine.reader(ReadRequest(TOPIC, 0, 0, isolation_level=UNCOMMITTED))
        assert made.engine.wait(30)
        reader.stop()
        assert reader.take() is None
        assert reader.state is ReaderState.STOPPED
        assert not reader.has_ready
        reader.stop()


def test_a_reader_stopped_between_two_ranges_releases_both(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = GrantRead.decode
    both_landed, stopped = threading.Event(), threading.Event()

    def stop_at_the_end(grant: GrantRead, read: RangeRead, *, borrow: bool) -> Iterator[RecordBlock]:
        assert both_landed.wait(60)
        yield from decode(grant, read, borrow=borrow)
        reader.stop()
        stopped.set()

    with rig(GoldenTierSource(range_bytes=20_000)) as made:
        landed = PartitionRead.landed

        def count(read: PartitionRead, *arguments: Any) -> None:
            landed(read, *arguments)
            if sum(one.status is RangeStatus.LANDED for grant in read._grants for one in grant.ranges) >= 2:
                both_landed.set()

        monkeypatch.setattr(PartitionRead, "landed", count)
        monkeypatch.setattr(GrantRead, "decode", stop_at_the_end)
        with made.engine.lock:
            reader = made.engine.reader(ReadRequest(TOPIC, 0, 0, isolation_level=UNCOMMITTED))
        assert stopped.wait(60)


@pytest.mark.fault("F72")
def test_memory_limits_the_read_ahead() -> None:
    config = attrs.evolve(CONFIG, buffer_memory=30_000)
    with rig(GoldenTierSource(range_bytes=5000), config=config) as made:
        reader = made.engine.reader(ReadRequest("epochs", 0, 0, isolation_level=UNCOMMITTED))
        seen = 0
        for item in reader.blocks(timeout=60):
            seen = max(seen, made.engine.memory.held)
            if isinstance(item, ReadEnd):
                assert item.reason == "local"
        # Decoded bytes are counted beside the range they came from, so one range may be added.
        assert 0 < seen <= 30_000 + 2 * 10_000


def test_readers_that_wait_for_a_take_hold_no_memory_from_others() -> None:
    """There are more readers than ranges that fit the memory: the last block that each one took must not fill it."""
    config = attrs.evolve(CONFIG, buffer_memory=60_000)
    with rig(GoldenTierSource(range_bytes=20_000), config=config) as made:
        readers = [made.engine.reader(ReadRequest(TOPIC, 0, 0, isolation_level=UNCOMMITTED, borrow=True)) for _ in range(8)]
        counts, deadline = dict.fromkeys(readers, 0), Deadline(SystemClock(), 60.0)
        going = list(readers)
        while going:
            assert made.engine.wait(deadline.remaining()), f"nothing comes any more, {made.engine.memory.held} bytes are held"
            for reader in list(going):
                item = reader.take()
                if isinstance(item, RecordBlock):
                    counts[reader] += len(item)
                    reader.release()
                elif item is not None:
                    going.remove(reader)
        assert set(counts.values()) == {TIERED_END}


def test_a_waiting_reader_is_notified_of_new_items() -> None:
    told: list[bool] = []
    with rig() as made:
        reader = made.engine.reader(
            ReadRequest(TOPIC, 0, 0, isolation_level=UNCOMMITTED), on_ready=lambda: told.append(made.engine.wait(0))
        )
        while not isinstance(item := reader.take(), ReadEnd):
            with made.engine.lock:
                seen, empty = len(told), not reader.has_ready
            if empty and item is None:
                assert made.engine.wait(60)
                assert len(told) == seen + 1
    assert told
    assert all(told)


def test_an_owner_is_notified_when_reading_passes_markers() -> None:
    told: list[int] = []
    with rig() as made:
        reader = made.engine.reader(ReadRequest("txn", 0, 0, isolation_level=COMMITTED), on_passed=lambda: told.append(1))
        assert isinstance([*reader.blocks(60.0)][-1], ReadEnd)
    assert told


def test_many_partitions_share_one_engine() -> None:
    with rig() as made:
        topics = [TOPIC, "codec-lz4-rdk", "logappend", "delrec", "txn"]
        readers = {topic: made.engine.reader(ReadRequest(topic, 0, 437, isolation_level=UNCOMMITTED)) for topic in topics}
        for topic, reader in readers.items():
            rows, end = drain(reader)
            assert_equal(rows, expected(topic, "read_uncommitted", end.next_offset, start=437))


def test_a_closed_engine_delivers_nothing() -> None:
    with rig() as made:
        reader = made.engine.reader(ReadRequest(TOPIC, 0, 0))
        made.engine.close()
        assert reader.state is ReaderState.STOPPED
        with pytest.raises(RuntimeError):
            made.engine.reader(ReadRequest(TOPIC, 0, 0))
        with pytest.raises(RemoteStorageTimeoutError):
            made.engine.wait_for(reader, 1.0)


def test_a_grant_that_ends_inside_a_batch_is_damage() -> None:
    def shortened(found: Any) -> Any:
        last = found.ranges[-1]
        cut = attrs.evolve(last, range=attrs.evolve(last.range, end=last.range.end - 10))
        return attrs.evolve(found, ranges=(*found.ranges[:-1], cut))

    source = GoldenTierSource()
    source.answers.append(shortened)
    with rig(source) as made:
        rows, end = made.read()
    assert isinstance(end.error, CorruptRecordError)
    assert_equal(rows, expected(TOPIC, "read_uncommitted", end.next_offset))


def test_a_range_may_end_inside_a_batch_if_the_next_one_continues() -> None:
    def uneven(found: Any) -> Any:
        ranges, at = [], found.span.start
        for granted in found.ranges[:-1]:
            end = granted.range.end - 17
            ranges.append(attrs.evolve(granted, range=attrs.evolve(granted.range, start=at, end=end)))
            at = end
        ranges.append(attrs.evolve(found.ranges[-1], range=attrs.evolve(found.ranges[-1].range, start=at)))
        return attrs.evolve(found, ranges=tuple(ranges))

    source = GoldenTierSource()
    source.answers.extend([uneven] * 20)
    with rig(source) as made:
        rows, end = made.read()
    assert end.reason == "local"
    assert_equal(rows, whole())


def test_a_grant_with_fewer_offsets_than_promised_is_an_error() -> None:
    source = GoldenTierSource()
    # All of them: after the first one the read asks again, because compaction may have left the rest out.
    source.answers.extend([lambda found: attrs.evolve(found, ranges=found.ranges[: max(1, len(found.ranges) - 1)])] * 100)
    with rig(source) as made:
        rows, end = made.read()
    assert end.reason == "bad-location"
    assert_equal(rows, expected(TOPIC, "read_uncommitted", end.next_offset))


def test_undecided_records_are_not_delivered() -> None:
    source = GoldenTierSource()
    source.answers.append(lambda found: attrs.evolve(found, last_stable_offset=30, high_watermark=5000))
    with rig(source) as made:
        rows, end = made.read(isolation_level=COMMITTED)
    assert (end.reason, end.next_offset) == ("undecided", 30)
    assert_equal(rows, expected(TOPIC, "read_committed", 30))


# All other time-outs are longer than the time that passes in these tests.
ONE_AT_A_TIME = attrs.evolve(CONFIG, max_in_flight=1, read_timeout_ms=600_000, location_timeout_ms=60_000)
LIFE = 1.0


class AgeingFetcher(ScriptedFetcher):
    """A fetcher whose reads take time. It records the ETag of each location, which identifies the location."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds
        self.etags: list[str | None] = []

    def fetch_log_segment(self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        self.etags.append(LocationMetadata.decode(remote_log_segment_metadata.custom_metadata).etag)
        stream = super().fetch_log_segment(remote_log_segment_metadata, start, end)
        self._clock.now += self._seconds
        return stream


def ageing(clock: ManualClock, name: str, **changes: Any) -> Callable[[SegmentLocation], SegmentLocation]:
    """Gives each location LIFE seconds and ``name`` as its ETag."""

    def answer(found: SegmentLocation) -> SegmentLocation:
        where = [LocationMetadata.decode(granted.custom_metadata) for granted in found]
        ranges = [
            attrs.evolve(granted, custom_metadata=attrs.evolve(old, etag=name).encode())
            for granted, old in zip(found, where, strict=True)
        ]
        return attrs.evolve(found, ranges=tuple(ranges), expires_at=clock.now + LIFE, **changes)

    return answer


def test_ranges_get_a_new_url_after_half_of_its_life() -> None:
    clock, source = ManualClock(), GoldenTierSource()
    source.answers.extend([ageing(clock, "first"), ageing(clock, "second")])
    fetcher = AgeingFetcher(clock, LIFE / 4)
    with rig(source, fetcher, ONE_AT_A_TIME, clock) as made:
        rows, end = made.read()
    assert_equal(rows, whole())
    assert end.reason == "local"
    assert fetcher.etags[:4] == ["first", "first", "second", "second"]
    assert made.metrics.snapshot()["remote-fetch-over-read-bytes-total"] == 0
    assert [asked.offset for asked in source.asked[:2]] == [0, 0]
    assert source.asked[0] == source.asked[1], "the same question, so that the same ranges are cut"
    assert made.metrics.snapshot()["remote-fetch-location-refresh-total"] != 0


@pytest.mark.parametrize(
    "answer",
    [
        LocationError("gone"),
        NotRemote("not-granted"),
        lambda found: attrs.evolve(found, ranges=found.ranges[:1]),
        lambda found: attrs.evolve(found, metadata=attrs.evolve(found.metadata, segment_size_in_bytes=1 << 30)),
    ],
    ids=["failed", "refused", "cut-otherwise", "another-segment"],
)
def test_a_refresh_that_does_not_match_keeps_the_old_urls(answer: Any) -> None:
    clock, source = ManualClock(), GoldenTierSource()
    source.answers.extend([ageing(clock, "first"), answer])
    fetcher = AgeingFetcher(clock, LIFE / 10)
    with rig(source, fetcher, ONE_AT_A_TIME, clock) as made:
        rows, _ = made.read()
    assert_equal(rows, whole())
    assert fetcher.etags.count("first") == len(range_starts()) > 5, "the sixth range begins at half of their life"
    assert [asked.offset for asked in source.asked].count(0) == 2


def test_a_range_in_flight_keeps_its_url() -> None:
    clock, source = ManualClock(), GoldenTierSource()
    source.answers.extend([ageing(clock, "first"), ageing(clock, "second")])
    fetcher = AgeingFetcher(clock, LIFE / 2)
    with rig(source, fetcher, ONE_AT_A_TIME, clock) as made:
        made.read()
    assert fetcher.etags[:2] == ["first", "second"]
    assert made.metrics.snapshot()["remote-fetch-over-read-bytes-total"] == 0


@pytest.mark.fault("F72")
def test_a_thousand_partitions_are_all_read() -> None:
    with rig(config=attrs.evolve(CONFIG, buffer_memory=4 << 20)) as made:
        readers = [
            made.engine.reader(ReadRequest("logappend", 0, 0, end_offset=40, isolation_level=UNCOMMITTED)) for _ in range(1000)
        ]
        left = dict.fromkeys(readers, 0)
        while left:
            assert made.engine.wait(60)
            for reader in [reader for reader in left if reader.has_ready]:
                item = reader.take()
                if isinstance(item, ReadEnd):
                    assert (item.reason, left.pop(reader)) == ("end", 40)
                elif item is not None:
                    left[reader] += len(item)


class KeepingFetcher(ScriptedFetcher):
    """A fetcher that gives the same damaged bytes until they are discarded, like a cache."""

    def discard(self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        self._faults[start].clear()


def test_a_cache_is_not_read_twice_for_damaged_bytes() -> None:
    start = range_starts()[1]
    with rig(fetcher=KeepingFetcher({start: [lambda stream: FlippedStream(stream, 100)] * 9})) as made:
        rows, end = made.read()
    assert end.reason == "local"
    assert_equal(rows, whole())


@pytest.mark.parametrize("borrow", [False, True])
def test_blocks_with_their_own_memory_are_charged_to_the_budget(borrow: bool) -> None:
    with rig() as made:
        reader = made.engine.reader(ReadRequest(TOPIC, 0, 0, end_offset=400, isolation_level=UNCOMMITTED, borrow=borrow))
        wait_until(lambda: reader.state is ReaderState.ENDING, "all ranges are decoded")
        ready = list(reader._read._ready)
        assert ready
        assert all(one.extra <= one.block.nbytes - (one.lease.size if one.lease and one.extra else 0) for one in ready)
        assert [one.lease is not None for one in ready] == [borrow] * len(ready)
        least = sum(one.block.nbytes for one in ready)
        assert made.engine.memory.held >= least if borrow else made.engine.memory.held == least
        assert_equal(drain(reader)[0], expected(TOPIC, "read_uncommitted", 400))


class ExpiringFetcher(ScriptedFetcher):
    """A fetcher whose URL is expired at these numbers of calls."""

    def __init__(self, *calls: int) -> None:
        super().__init__()
        self._calls = calls

    def fetch_log_segment(self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        stream = super().fetch_log_segment(remote_log_segment_metadata, start, end)
        if len(self.fetched) in self._calls:
            raise LocationExpiredError("expired")
        return stream


def test_each_range_may_have_its_location_expire_once() -> None:
    with rig(fetcher=ExpiringFetcher(2, 4, 7), config=ONE_AT_A_TIME) as made:
        rows, end = made.read()
        for stream in made.fetcher.streams:
            stream.close()
    assert end.reason == "local"
    assert_equal(rows, whole())


FORMS_END = ReadEnd("local", 12)


class ListedReader(RemoteReader):
    """A reader with two blocks and an end, without an engine."""

    topic, partition = "t", 3

    def __init__(self) -> None:  # does not initialise the base: no engine reads
        self.end = None
        self.asked: list[float | None] = []
        self.left = 0

    def blocks(self, timeout: float | None = None) -> Generator[RecordBlock | ReadEnd, None, None]:
        self.asked.append(timeout)
        try:
            yield read_batches(batch(7, [Rec(0, b"k", b"a"), Rec(1, None, b"b")]))
            yield read_batches(batch(10, [Rec(0, b"k", None)]))
            yield FORMS_END
        finally:
            self.left += 1


def test_messages_equal_those_of_a_consumer_and_the_end_is_kept() -> None:
    reader = ListedReader()
    assert reader.end is None
    found = [(m.topic(), m.partition(), m.offset(), m.key(), m.value()) for m in reader.messages(5.0)]
    assert found == [("t", 3, 7, b"k", b"a"), ("t", 3, 8, None, b"b"), ("t", 3, 10, b"k", None)]
    assert (reader.end, reader.asked, reader.left) == (FORMS_END, [5.0], 1)


def test_record_batches_hold_the_same_records() -> None:
    reader = ListedReader()
    found = [row for records in reader.record_batches() for row in records.select(["partition", "offset", "value"]).to_pylist()]
    assert [tuple(row.values()) for row in found] == [(3, 7, b"a"), (3, 8, b"b"), (3, 10, None)]
    assert (reader.end, reader.asked, reader.left) == (FORMS_END, [None], 1)


@pytest.mark.parametrize("form", ["messages", "record_batches"])
def test_ending_the_iteration_stops_the_reader(form: str) -> None:
    reader = ListedReader()
    records: Generator[object, None, None] = getattr(reader, form)()
    next(records)
    records.close()
    assert (reader.end, reader.left) == (None, 1)
