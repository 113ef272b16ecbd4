"""The survey of a tier for a plan: with metadata, and from its listing alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from kafka_remote_client.errors import ConfigurationError, NoSegmentsError, RemoteLogError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.fetch.broker_log import BrokerLog
from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.protocol.metadata import MetadataPartition, MetadataTopic
from kafka_remote_client.scanning.broker_part import BrokerPart
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.scan_plan import TieredPartition, plan_scan
from kafka_remote_client.scanning.tier_survey import partitions_of
from kafka_remote_client.scanning.tier_survey import survey as survey_of
from tests.support.golden import golden_local
from tests.support.round_store import RoundStore
from tests.support.scanned import expected_rows
from tests.support.tier import LAYOUT, TIP, Tier

FIRST_UNDECIDED = 2455


def _kind(key: str) -> str:
    """A segment's start offset, and the kind of the object."""
    base, kind = key.rpartition("/")[2].split("-")[0], key.rpartition(".")[2]
    return f"{int(base)}.{kind}"


def survey(tier: TierReader, scan: Scan, brokers: BrokerPart | None = None, *, prepared: int = 0) -> list[TieredPartition]:
    """The survey of all partitions of the scan."""
    return survey_of(tier, scan, partitions_of(tier, scan, brokers), brokers, prepared=prepared)


def test_committed_records_end_at_an_open_transaction(golden: TierReader) -> None:
    (committed,) = survey(golden, Scan(topics="txn"))
    (all_records,) = survey(golden, Scan(topics="txn", isolation_level="read_uncommitted"))
    assert (committed.start, committed.end) == (0, FIRST_UNDECIDED)
    assert all_records.end > FIRST_UNDECIDED
    assert committed.segments == all_records.segments
    assert [one.end for one in committed.segments][:-1] == [one.start for one in committed.segments][1:]


def test_segments_have_the_tiers_sizes_and_times(golden: TierReader) -> None:
    (known,) = survey(golden, Scan(topics="codec-zstd-rdk"))
    rows = expected_rows("codec-zstd-rdk", 0, "read_uncommitted")
    for span in known.segments:
        times = [row["timestamp"] for row in rows if span.start <= row["offset"] < span.end]
        assert span.max_timestamp == max(times)
        assert span.size_in_bytes > 1000


def test_only_required_times_are_looked_up(rising: TierReader) -> None:
    def found(**scan: object) -> tuple[int | None, int | None]:
        (known,) = survey(rising, Scan(topics="orders", **scan))
        return known.first_young_enough, known.first_too_young

    ordered = timedelta(0)
    assert found() == (None, None)
    assert found(since=1500, until=2500) == (500, None)
    assert found(since=1500, until=2500, out_of_order=ordered) == (500, 1500)
    assert found(since=1500, until=2500, out_of_order=timedelta(milliseconds=7)) == (500, 1507)
    assert found(since=1500, start_offset=700) == (700, None)
    assert found(since=10**9, until=2 * 10**9, out_of_order=ordered) == (3000, 3000)
    assert found(since=0, until=0, out_of_order=ordered) == (None, None)


def test_times_and_transactions_are_looked_up_at_the_same_time(rising_tier: Tier) -> None:
    store = RoundStore(rising_tier.store, [9, 3, 5, 2, 2], _kind)
    with TierReader(store, ListingLocationSource(store, LAYOUT)) as tier:
        (known,) = survey(tier, Scan(topics="orders", since=1500, until=2500, out_of_order=timedelta(0)))
    assert (known.first_young_enough, known.first_too_young) == (500, 1500)
    _, _, look_ups, headers, batches = store.rounds
    assert look_ups == ["0.index", "0.timeindex", "1000.index", "1000.timeindex", "2000.snapshot"]
    assert [one.partition("@")[0] for one in headers] == [one.partition("@")[0] for one in batches] == ["0.log", "1000.log"]


def test_the_first_partition_is_prepared_while_transactions_are_looked_up(rising_tier: Tier) -> None:
    store = RoundStore(rising_tier.store, [9, 3, 4], _kind)
    with TierReader(store, ListingLocationSource(store, LAYOUT)) as tier:
        survey(tier, Scan(topics="orders", start_offset=1200), prepared=1)
    assert store.rounds[2:] == [["1000.index", "1000.snapshot", "2000.snapshot", "etag of 1000.log"]]


@pytest.mark.parametrize("limit", [None, 1])
def test_a_stream_prepares_its_first_location_and_a_plan_does_not(rising_tier: Tier, limit: int | None) -> None:
    wanted = Scan(topics="orders", start_offset=1200, limit=limit)
    store = RoundStore(rising_tier.store, [9, 3, 4], _kind)
    with OpenScan(wanted, TierReader(store, ListingLocationSource(store, LAYOUT)), threads=1) as opened:
        assert len(next(opened.stream()))
    assert "etag of 1000.log" in store.rounds[2]
    store.expect([9, 3, 1])
    with OpenScan(wanted, TierReader(store, ListingLocationSource(store, LAYOUT)), threads=1) as opened:
        assert opened.plan.splits
    assert store.rounds[2:] == [["2000.snapshot"]]


@pytest.mark.parametrize("wanted", [{"start_offset": 9000}, {"since": 1500}])
def test_nothing_is_prepared_without_a_first_offset(rising_tier: Tier, wanted: dict[str, Any]) -> None:
    store = RoundStore(rising_tier.store, name=_kind)
    with TierReader(store, ListingLocationSource(store, LAYOUT)) as tier:
        survey(tier, Scan(topics="orders", **wanted), prepared=1)
    asked = {one for asked in store.rounds for one in asked}
    assert not {"etag of 0.log", "etag of 1000.log", "etag of 2000.log", "0.snapshot", "1000.snapshot"} & asked


def test_topics_are_found_by_name_or_pattern(golden: TierReader) -> None:
    names = [(tip.topic, tip.partition) for tip in partitions_of(golden, Scan(topic_pattern="codec-(zstd|lz4)-rdk|epochs"))]
    assert names == [("codec-lz4-rdk", 0), ("codec-zstd-rdk", 0), ("epochs", 0), ("epochs", 1)]
    (one,) = survey(golden, Scan(topics="epochs", partitions=[1]))
    assert one.topic_partition == TopicPartition("epochs", 1)
    assert survey(golden, Scan(topic_pattern="none-such.*")) == []


def test_a_partition_of_unfinished_segments_is_empty(tmp_path: Path) -> None:
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").glob("logappend-0-*"):
        shutil.copytree(directory, tmp_path / "kafka-tiered-storage" / directory.name)
    for index in tmp_path.glob("*/*/*.timeindex"):
        index.unlink()
    with open_tier(tmp_path.as_uri()) as tier:
        assert survey(tier, Scan(topics="logappend")) == [TieredPartition(TopicPartition("logappend", 0), 0, 0)]


def damaged_tier(tmp_path: Path, *logs: int) -> Path:
    """A copy of a topic whose logs of these numbers are cut off. Returns the tier's folder."""
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").glob("logappend-0-*"):
        shutil.copytree(directory, tmp_path / "kafka-tiered-storage" / directory.name)
    found = sorted(tmp_path.glob("*/*/*.log"))
    for number in logs or range(len(found)):
        found[number].write_bytes(found[number].read_bytes()[:100])
    return tmp_path


def test_a_damaged_beginning_is_not_taken_for_deleted_records(tmp_path: Path) -> None:
    with open_tier(damaged_tier(tmp_path, 0).as_uri()) as tier:
        (first, *_) = tier.segments(tier.partitions("logappend")[0])
        lost = (
            rf"cannot read logappend-0 at offset 0 from the tier: segment .* is damaged: .*; a start_offset of {first.start} "
        )
        with pytest.raises(TierUnavailableError, match=lost) as told:
            survey(tier, Scan(topics="logappend"))
        assert (told.value.topic, told.value.partition, told.value.offset) == ("logappend", 0, 0)
        with pytest.raises(TierUnavailableError, match="at offset 0"):
            survey(tier, Scan(topics="logappend", start_offset=first.start - 1))
        (known,) = survey(tier, Scan(topics="logappend", start_offset=first.start))
        assert known.start == first.start
        (nothing,) = survey(tier, Scan(topics="logappend", end_offset=0))
        assert plan_scan(Scan(topics="logappend", end_offset=0), [nothing], range_bytes=1000).splits == ()
        brokers = Scan(topics="logappend", on_fallback="broker")
        (replaced,) = survey(tier, brokers, BrokerPart(cast("BrokerLog", Log()), brokers, tier))
        assert replaced.start == 0


def test_a_damaged_end_is_not_taken_for_the_end_of_the_tier(tmp_path: Path) -> None:
    with open_tier(damaged_tier(tmp_path, -1).as_uri()) as tier:
        end = tier.segments(tier.partitions("logappend")[0])[-1].end
        lost = (
            rf"cannot read logappend-0 at offset {end} from the tier: segment .* is damaged: .*; an end_offset of {end} leaves"
        )
        brokers = Scan(topics="logappend", on_fallback="broker")
        for scan in (Scan(topics="logappend"), Scan(topics="logappend", end_offset=end + 1), brokers):
            part = BrokerPart(cast("BrokerLog", Log()), scan, tier) if scan.needs_brokers else None
            with pytest.raises(TierUnavailableError, match=lost) as told:
                survey(tier, scan, part)
            assert (told.value.topic, told.value.partition, told.value.offset) == ("logappend", 0, end)
        (known,) = survey(tier, Scan(topics="logappend", end_offset=end))
        assert known.end == end


def test_a_partition_without_a_readable_segment_is_not_taken_for_empty(tmp_path: Path) -> None:
    with open_tier(damaged_tier(tmp_path).as_uri()) as tier:
        for scan in (Scan(topics="logappend"), Scan(topics="logappend", on_fallback="broker")):
            brokers = BrokerPart(cast("BrokerLog", Log()), scan, tier) if scan.needs_brokers else None
            with pytest.raises(TierUnavailableError, match=r"at offset 0 from the tier: segment .* is damaged"):
                survey(tier, scan, brokers)


def test_missing_topics_and_partitions_raise(golden: TierReader) -> None:
    with pytest.raises(NoSegmentsError, match="orders"):
        survey(golden, Scan(topics=["epochs", "orders"]))
    with pytest.raises(ConfigurationError, match=r"no records of partitions \[7\] of epochs"):
        survey(golden, Scan(topics="epochs", partitions=[1, 7]))


class Log:
    """Fake leader of ``orders`` with partitions 3 and 7. ``topic_id``: id of the topic in the cluster."""

    def __init__(self, start: int = 0, end: int = 3500, *, topic_id: UUID = TIP.topic_id, diverging: bool = False) -> None:
        self._bounds = start, end
        self._topic_id = topic_id
        self._diverging = diverging
        self.asked: list[tuple[TopicPartition, UUID, int, int]] = []

    def topics(self, names: Sequence[str] | None) -> dict[str, MetadataTopic]:
        partitions = tuple(MetadataPartition(number, 1) for number in (7, 3))
        internal = MetadataTopic("orders-of-kafka", partitions, is_internal=True)
        return {"orders": MetadataTopic("orders", partitions, topic_id=self._topic_id), "orders-of-kafka": internal}

    def bounds(self, partitions: Sequence[TopicPartition], level: IsolationLevel) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(partitions, self._bounds)

    def diverges(self, *asked: Any) -> bool:
        self.asked.append(asked)
        return self._diverging


def live(tier: TierReader, log: Log, **scan: Any) -> list[TieredPartition]:
    wanted = Scan(**{"topics": "orders", "live": True, **scan})
    return survey(tier, wanted, BrokerPart(cast("BrokerLog", log), wanted, tier))


def test_a_live_survey_has_all_partitions_of_the_cluster(rising: TierReader) -> None:
    log = Log(start=10)
    local, tiered = live(rising, log, since=1500, until=2500, out_of_order=timedelta(0))
    assert local == TieredPartition(TopicPartition("orders", 3), 10, 3500, tiered_end=10)
    assert (tiered.topic_partition, tiered.start, tiered.end, tiered.tiered_end) == (("orders", 7), 10, 3500, 3000)
    assert (len(tiered.segments), tiered.first_young_enough, tiered.first_too_young) == (3, 500, 1500)
    assert log.asked == [(("orders", 7), TIP.topic_id, 3000, 0)]
    (one,) = live(rising, Log(), topics=(), topic_pattern="orders.*", partitions=[7])
    assert (one.start, one.end, one.first_too_young) == (0, 3500, None)


def test_a_tier_past_the_leaders_end_is_read_to_that_end(rising: TierReader) -> None:
    _, tiered = live(rising, Log(end=2900))
    assert (tiered.end, tiered.tiered_end) == (2900, 3000)
    assert plan_scan(Scan(topics="orders", live=True), [tiered], range_bytes=1000).broker_bytes == 0


def test_a_tier_that_diverges_from_the_leader_is_refused(rising: TierReader) -> None:
    with pytest.raises(TierUnavailableError, match="ends at offset 3000 of leader epoch 0, which is not in the") as told:
        live(rising, Log(diverging=True))
    assert (told.value.topic, told.value.partition, told.value.offset) == ("orders", 7, 3000)


def test_a_tier_below_the_logs_start_is_not_compared(rising: TierReader) -> None:
    log = Log(start=3000, end=3100, diverging=True)
    assert [(one.start, one.end) for one in live(rising, log)] == [(3000, 3100)] * 2
    assert log.asked == []


def test_the_tier_of_a_recreated_topic_is_refused(rising: TierReader) -> None:
    with pytest.raises(ConfigurationError, match=r"topic orders was created again: .* has the topic id .*, the tier's"):
        live(rising, Log(topic_id=UUID(int=9)))
    unknown = Log(topic_id=UUID(int=0))
    assert len(live(rising, unknown)) == 2
    assert unknown.asked[0][1] == TIP.topic_id


def test_unreadable_segment_metadata_ends_a_live_survey(rising: TierReader, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Any:
        raise RemoteLogError("damaged")

    monkeypatch.setattr(TierReader, "segments", fails)
    with pytest.raises(RemoteLogError, match="damaged"):
        live(rising, Log())
    assert [one.tiered_end for one in live(rising, Log(), on_fallback="broker")] == [0, 0]


@pytest.mark.parametrize("more", [{}, {"on_fallback": "broker"}])
def test_an_ambiguous_topic_name_ends_a_live_survey(
    rising: TierReader, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    def fails(*_: object) -> Any:
        raise ConfigurationError("the store has 2 topics named 'orders'")

    monkeypatch.setattr(TierReader, "partitions", fails)
    with pytest.raises(ConfigurationError, match="2 topics named"):
        live(rising, Log(), **more)
