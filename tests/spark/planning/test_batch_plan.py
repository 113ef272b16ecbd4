from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError, DirectFetchError, LocationError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.fetch.assemble import DirectFetchOffError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import NotRemote, PartitionOffsets, TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, Split
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.planning.batch_plan import batch_ranges, learn_requests, learn_segments, plan_batch
from kafka_remote_client.spark.planning.filters import Narrowing
from kafka_remote_client.spark.reading.task_engine import TaskEngines
from kafka_remote_client.spark.reading.tier_health import TierHealth
from tests.support.locations import ManualClock, location, segment
from tests.support.one_by_one import OneByOne
from tests.support.spark_cluster import A0, A1, FakeCluster


def ranges(**more: str) -> list[tuple[int, int]]:
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "a", **more})
    found = batch_ranges(options, FakeCluster())
    assert [one.topic_partition for one in found] == [A0, A1]
    return [(one.start, one.end) for one in found]


def test_the_whole_log_is_read_by_default() -> None:
    assert ranges() == [(10, 100), (20, 200)]


def test_offsets_by_partition_may_name_the_ends_by_number() -> None:
    both = ranges(startingOffsets='{"a":{"0":-2,"1":50}}', endingOffsets='{"a":{"0":60,"1":-1}}')
    assert both == [(10, 60), (50, 200)]


def test_offsets_must_name_every_partition() -> None:
    with pytest.raises(
        ConfigurationError, match="startingOffsets must name all partitions that are read, and it leaves out a-1"
    ):
        ranges(startingOffsets='{"a":{"0":11}}')


def test_timestamps_apply_to_all_or_single_partitions() -> None:
    assert ranges(startingTimestamp="50", endingTimestamp="80") == [(50, 80), (50, 80)]
    found = ranges(startingOffsetsByTimestamp='{"a":{"0":30,"1":40}}', endingOffsetsByTimestamp='{"a":{"0":90,"1":999}}')
    assert found == [(30, 90), (40, 200)]


def test_a_start_without_a_record_fails_or_is_the_end() -> None:
    with pytest.raises(ConfigurationError, match="startingTimestamp: no record at or after the timestamp in a-0"):
        ranges(startingTimestamp="150")
    assert ranges(startingTimestamp="150", startingOffsetsByTimestampStrategy="latest") == [(100, 100), (150, 200)]


def test_an_end_without_a_record_is_the_end_of_the_log() -> None:
    assert ranges(endingTimestamp="150") == [(10, 100), (20, 150)]


def test_deleted_offsets_fail_by_default() -> None:
    with pytest.raises(DataLossError):
        ranges(startingOffsets='{"a":{"0":5,"1":50}}')
    with pytest.raises(DataLossError):
        ranges(endingOffsets='{"a":{"0":101,"1":50}}')
    given = {"startingOffsets": '{"a":{"0":5,"1":50}}', "endingOffsets": '{"a":{"0":101,"1":60}}'}
    assert ranges(failOnDataLoss="false", **given) == [(10, 100), (50, 60)]


def test_splits_follow_from_known_segments_and_options() -> None:
    def learn(found: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        return [OffsetRange(one.topic_partition, one.start, one.end, [SegmentSpan(0, 50, 500)]) for one in found]

    base = {"kafka.bootstrap.servers": "b:1", "subscribe": "a", "remote.splitBytes": "500"}
    splits = plan_batch(parse_options(base), FakeCluster(), learn)
    assert [(split.start, split.end) for split in splits] == [(10, 50), (50, 100), (20, 50), (50, 100), (100, 150), (150, 200)]
    splits = plan_batch(parse_options(base | {"maxRecordsPerPartition": "40"}), FakeCluster(), learn)
    assert [(split.start, split.end) for split in splits][:5] == [(10, 50), (50, 75), (75, 100), (20, 50), (50, 75)]
    assert len(plan_batch(parse_options(base | {"minPartitions": "9"}), FakeCluster(), learn)) == 9


def test_a_start_after_the_end_fails() -> None:
    given = {"startingOffsets": '{"a":{"0":50,"1":50}}', "endingOffsets": '{"a":{"0":50,"1":49}}'}
    with pytest.raises(
        ConfigurationError, match=r"a-1: startingOffsets begins at offset 50, after the end at 49 \(endingOffsets\)"
    ):
        ranges(failOnDataLoss="false", **given)


def test_a_record_newer_than_the_query_is_past_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "at_times", lambda self, times: dict.fromkeys(times, 250))
    assert ranges(startingTimestamp="5", endingTimestamp="6") == [(100, 100), (200, 200)]


def test_without_direct_fetch_no_segment_is_requested() -> None:
    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "a", "fetch.remote.enabled": "false"})
    ranges = [OffsetRange(A0, 1, 5)]
    assert learn_segments(options, ranges) is ranges


def test_filters_leave_out_partitions_offsets_and_segments() -> None:
    learnt: list[tuple[int, int]] = []

    def learn(found: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        learnt.extend((one.start, one.end) for one in found)
        spans = (SegmentSpan(0, 60, 5, 70), SegmentSpan(60, 80, 5, 30))
        return [attrs.evolve(one, segments=spans) for one in found]

    def splits(narrowing: Narrowing) -> list[tuple[TopicPartition, int, int]]:
        found = plan_batch(options, FakeCluster(), learn, narrowing)
        return [(split.topic_partition, split.start, split.end) for split in found]

    options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "a"})
    assert splits(Narrowing(tests=(lambda partition: partition == A1,), end_offset=50)) == [(A1, 20, 50)]
    assert learnt == [(20, 50)]
    # The first offset with a timestamp is the timestamp, in this cluster.
    assert splits(Narrowing(youngest=40)) == [(A0, 40, 60), (A0, 80, 100), (A1, 40, 60), (A1, 80, 200)]
    assert splits(Narrowing(youngest=150)) == [(A1, 150, 200)]
    assert splits(Narrowing(nothing=True, youngest=5)) == []


# -- the tier is tested before any task ------------------------------------------------------------------------------------

BASE = {"kafka.bootstrap.servers": "b:1", "subscribe": "a"}
FAILURE = LocationError("shim:9192 did not answer")


class FakeTier(OneByOne):
    """An engine whose source knows one segment, or answers with ``error``."""

    def __init__(self, error: DirectFetchError | None = None) -> None:
        self.error = error
        self.asked_for_offsets = 0
        self.located: list[int] = []
        self.read = 0
        self.source = self.fetcher = self

    def offsets_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> dict[tuple[str, int], Any]:
        self.asked_for_offsets += 1
        return dict.fromkeys(partitions, self.error or PartitionOffsets(latest_tiered=99))

    def answer(self, question: LocationQuestion, deadline: object) -> Any:
        self.located.append(question.offset)
        return location(metadata=segment(start_offset=0, end_offset=99, segment_size_in_bytes=1000), next_offset=100)

    def fetch_log_segment(self, *_: object) -> Any:
        self.read += 1
        return self

    def readinto(self, buffer: bytearray) -> int:
        return 1

    def close(self) -> None:
        """As a stream, and as an engine."""


def learn(
    tier: FakeTier, health: TierHealth | None = None, *, again: bool = True, reads: bool = True, **more: str
) -> Sequence[OffsetRange]:
    given: Any = tier
    return learn_segments(
        parse_options(BASE | more),
        [OffsetRange(A0, 0, 100)],
        again=again,
        reads=reads,
        engines=TaskEngines(lambda _options, _clock: given),
        health=health or TierHealth(ManualClock()),
        clock=ManualClock(),
    )


def test_one_byte_is_read_before_segments_are_requested() -> None:
    tier = FakeTier()
    (found,) = learn(tier)
    assert [(span.start, span.end) for span in found.segments] == [(0, 100)]
    assert (found.tiered_end, found.tier_failure) == (100, None)
    assert (tier.asked_for_offsets, tier.read) == (1, 1)


def requests(tier: FakeTier | None, *splits: Split, **more: str) -> list[tuple[int, int, int]]:
    def make_engine(_options: object, _clock: object) -> Any:
        if tier is None:
            raise DirectFetchOffError("off")
        return tier

    engines = TaskEngines(make_engine)
    found = learn_requests(parse_options(BASE | more), splits, budget=5, engines=engines)
    return [(one.end, one.gets, one.read_bytes) for one in found]


def test_the_driver_sends_the_requests_of_a_task() -> None:
    tier, split = FakeTier(), Split(A0, 0, 80, 800)
    assert requests(tier, split, split) == [(80, 2, 600)] * 2
    assert (tier.located, tier.read, tier.asked_for_offsets) == ([0, 0], 0, 0)


def test_the_driver_sends_no_request_if_tasks_send_none() -> None:
    split = Split(A0, 0, 80, 800)
    assert requests(FakeTier()) == []
    assert requests(FakeTier(), split, **{"fetch.remote.enabled": "false"}) == []
    assert requests(FakeTier(), split, attrs.evolve(split, tier_failure="down")) == []
    assert requests(None, split) == []


def test_plan_reads_no_byte() -> None:
    tier = FakeTier()
    assert learn(tier, reads=False)[0].segments
    assert tier.read == 0


def test_a_stream_reads_a_byte_from_time_to_time() -> None:
    tier, health = FakeTier(), TierHealth(ManualClock())
    for _ in range(3):
        learn(tier, health, again=False)
    assert tier.read == 1
    learn(tier, health)
    assert tier.read == 2


def test_a_tier_without_an_answer_is_asked_once_and_tasks_know_it(caplog: pytest.LogCaptureFixture) -> None:
    tier, health = FakeTier(FAILURE), TierHealth(ManualClock())
    for _ in range(3):
        (found,) = learn(tier, health, again=False)
        assert (found.segments, found.tier_failure) == ((), "shim:9192 did not answer")
    assert (tier.asked_for_offsets, tier.located) == (1, [])
    assert [message.partition(",")[0] for message in caplog.messages] == ["the brokers serve tiered records of this query"]
    learn(tier, health)  # another query
    assert len(caplog.messages) == 2
    splits = plan_batch(parse_options(BASE), FakeCluster(), lambda _: [found])
    assert [split.tier_failure for split in splits] == ["shim:9192 did not answer"]


def test_a_query_that_may_not_fall_back_fails_with_the_reason() -> None:
    tier, health = FakeTier(FAILURE), TierHealth(ManualClock())
    for _ in range(2):  # and asks again each time
        with pytest.raises(TierUnavailableError, match=r"shim:9192 did not answer; remote\.onFallback=broker"):
            learn(tier, health, **{"remote.onFallback": "fail"})
    assert tier.asked_for_offsets == 2
    (found,) = learn(FakeTier(FAILURE), reads=False, **{"remote.onFallback": "fail"})  # plan only
    assert found.tier_failure == "shim:9192 did not answer"


def test_one_refused_location_fails_a_query_that_may_not_fall_back() -> None:
    class Refusing(FakeTier):
        def answer(self, *_: object, **__: object) -> Any:
            return NotRemote("not-granted")

    assert learn(Refusing())[0].tier_failure is None
    with pytest.raises(
        TierUnavailableError, match="the shim grants no location of a-0 at offset 0, although that offset is tiered"
    ):
        learn(Refusing(), **{"remote.onFallback": "fail"})


def test_settings_that_prevent_direct_fetch_are_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    def cannot(_options: object, _clock: object) -> Any:
        raise DirectFetchOffError("the extra is not installed")

    found = learn_segments(
        parse_options(BASE),
        [OffsetRange(A0, 0, 100)],
        engines=TaskEngines(cannot),
        health=TierHealth(ManualClock()),
    )
    assert found[0].tier_failure == "the extra is not installed"
    assert "the extra is not installed" in caplog.text


def test_an_empty_query_sends_no_request() -> None:
    tier: Any = FakeTier()
    ranges = [OffsetRange(A0, 5, 5)]
    assert learn_segments(parse_options(BASE), ranges, engines=TaskEngines(lambda _options, _clock: tier)) is ranges
    assert tier.asked_for_offsets == 0
