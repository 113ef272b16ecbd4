"""A tier read from its store alone gives the records that a real consumer read, as far as the store shows them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

import kafka_remote_client
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError, RemoteStorageUnavailableError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.model import IsolationLevel
from tests.support.golden import golden_aiven, golden_local, read_jsonl
from tests.support.shaped_tier import PARTITION, Shape, write_tier

PATIENCE = 60.0
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
FIRST_UNDECIDED = 2455


def read(reader: RemoteReader) -> tuple[list[int], ReadEnd]:
    """Returns the offsets and the end of the read."""
    offsets: list[int] = []
    for item in reader.blocks(PATIENCE):
        if isinstance(item, ReadEnd):
            return offsets, item
        offsets += [row[0] for row in item.rows()]
    raise AssertionError("no end")


def expected(topic: str, isolation: str, first: int, end: int) -> list[int]:
    lines = read_jsonl(golden_local() / "expected" / f"{topic}-0.{isolation}.jsonl.gz")
    return [line["offset"] for line in lines if first <= line["offset"] < end]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy of the golden store's transactional topic."""
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").glob("txn-*"):
        shutil.copytree(directory, tmp_path / "kafka-tiered-storage" / directory.name)
    return tmp_path


def opened(store: Path, **options: Any) -> TierReader:
    return open_tier(store.as_uri(), **options)


def test_open_tier_is_exported_at_the_top() -> None:
    assert kafka_remote_client.open_tier is open_tier
    assert kafka_remote_client.TierReader is TierReader


@pytest.mark.parametrize("snapshots", ["sound", "missing", "damaged"])
def test_committed_records_end_at_the_first_undecided_transaction(store: Path, snapshots: str) -> None:
    for snapshot in store.glob("*/*/*.snapshot"):
        if snapshots == "missing":
            snapshot.unlink()
        elif snapshots == "damaged":
            snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"x")
    with opened(store) as tier:
        bounds = tier.bounds("txn", 0)
        offsets, end = read(tier.read("txn", 0))
        assert offsets == expected("txn", "read_committed", bounds.log_start, FIRST_UNDECIDED)
        assert (end.reason, end.next_offset) == ("undecided", FIRST_UNDECIDED)
        offsets, end = read(tier.read("txn", 0, isolation_level=UNCOMMITTED))
        assert offsets == expected("txn", "read_uncommitted", bounds.log_start, bounds.high_watermark)
        assert (end.reason, end.next_offset) == ("end", bounds.high_watermark)


def test_committed_records_are_refused_if_a_scan_cannot_decide_either(store: Path) -> None:
    for snapshot in store.glob("*/*/*.snapshot"):
        snapshot.unlink()
    log = sorted(store.glob("*/*/*.log"))[5]
    damaged = bytearray(log.read_bytes())
    damaged[200] ^= 1
    log.write_bytes(damaged)
    with opened(store) as tier:
        offsets, end = read(tier.read("txn", 0))
        assert (offsets, end.reason) == ([], "transactions-unknown")


def test_bounds_are_clipped_to_the_tier(store: Path) -> None:
    with opened(store, topic="txn") as tier:
        (tip,) = tier.partitions("txn")
        bounds = tier.bounds("txn", 0)
        assert bounds.latest_tiered + 1 == bounds.high_watermark == bounds.earliest_local
        offsets, end = read(tier.read("txn", 0, 0, 400))
        assert offsets == expected("txn", "read_committed", bounds.log_start, 400)
        assert end.reason == "end"
        assert tier.remarks(tip) == []
        for start, stop in ((bounds.high_watermark, None), (7, 7)):
            with pytest.raises(ConfigurationError, match=r"none of these offsets of txn-0; it has offsets \d+ to \d+"):
                tier.read("txn", 0, start, stop)


def test_segments_are_listed_in_order_and_found_by_time(store: Path) -> None:
    with opened(store) as tier:
        (tip,) = tier.partitions("txn")
        bounds, segments = tier.bounds("txn", 0), tier.segments(tip)
        assert tier.topics() == ["txn"]
        assert [one.start for one in segments] == [bounds.log_start, *(one.end for one in segments[:-1])]
        assert segments[-1].end == bounds.high_watermark
        assert tier.first_undecided_offset(tip) == FIRST_UNDECIDED
        rows = list(read_jsonl(golden_local() / "expected" / "txn-0.read_uncommitted.jsonl.gz"))
        time = sorted(row["timestamp"] for row in rows)[1500]
        first = tier.offset_for_time(tip, time, 40)
        young = [row["offset"] for row in rows if row["offset"] >= 40 and row["timestamp"] >= time]
        assert first is not None
        assert 40 <= first <= young[0]
        assert tier.offset_for_time(tip, 2**60) is None
        assert tier.absence("txn") is None
        assert "other" in str(tier.absence("other"))


def test_a_missing_partition_is_refused(store: Path) -> None:
    with opened(store) as tier:
        assert tier.partitions("other") == []
        with pytest.raises(ConfigurationError, match="the store has no segment of other-0"):
            tier.read("other", 0)


def test_unreadable_segments_are_named(store: Path) -> None:
    next(iter(sorted(store.glob("*/*/*.timeindex")))).unlink()
    with opened(store) as tier:
        (tip,) = tier.partitions("txn")
        (remark,) = tier.remarks(tip)
        assert "time index" in remark


def test_a_tier_in_chunks_is_opened_with_its_keys() -> None:
    root = golden_aiven("aiven-zstd-aes")
    keys = {"key1": str(root / "keys" / "key1.private.der")}
    with opened(root / "remote", layout="aiven", key_prefix="some-prefix/", encryption_keys=keys) as tier:
        _, end = read(tier.read("epochs", 0))
        assert end.reason == "end"


def test_an_unknown_layout_or_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        open_tier("file:///tier", layout="none-such")
    with pytest.raises(ConfigurationError):
        open_tier("none-such://tier")


def test_a_failing_store_is_not_read_while_its_breaker_is_open(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = opened(store, config=RemoteFetchConfig(enabled=True, breaker_failures=3, breaker_reset_ms=600_000))
    requested: list[object] = []

    def fails(_: DirectoryStore, *what: object) -> None:
        requested.append(what)
        raise RemoteStorageUnavailableError("the store is down")

    for name in ("get", "get_range", "size"):
        monkeypatch.setattr(DirectoryStore, name, fails)
    with tier:
        (partition,) = tier.partitions("txn")
        with pytest.raises(RemoteStorageUnavailableError):
            tier.segments(partition)
        before = len(requested)  # three, and those that were under way when the third one failed
        assert before >= 3
        for _ in range(10):
            with pytest.raises(RemoteStorageUnavailableError):
                tier.segments(partition)
    assert len(requested) == before


def test_close_is_idempotent(store: Path) -> None:
    tier = opened(store)
    tier.close()
    tier.close()


def test_the_isolation_level_is_exported_at_the_top() -> None:
    assert kafka_remote_client.IsolationLevel is IsolationLevel


@pytest.mark.parametrize("level", ["read_committed", "Read_Committed", "READ_COMMITTED", COMMITTED])
def test_read_committed_by_name_drops_aborted_and_undecided_records(store: Path, level: Any) -> None:
    with opened(store) as tier:
        first = tier.bounds("txn", 0).log_start
        offsets, end = read(tier.read("txn", 0, isolation_level=level))
    assert offsets == expected("txn", "read_committed", first, FIRST_UNDECIDED)
    assert end.reason == "undecided"


@pytest.mark.parametrize("level", ["read_uncommitted", "READ_UNCOMMITTED", UNCOMMITTED])
def test_read_uncommitted_by_name_gives_all_records(store: Path, level: Any) -> None:
    with opened(store) as tier:
        bounds = tier.bounds("txn", 0)
        offsets, _ = read(tier.read("txn", 0, isolation_level=level))
    assert offsets == expected("txn", "read_uncommitted", bounds.log_start, bounds.high_watermark)


@pytest.mark.parametrize("level", ["committed", "", "read-committed", 0, 1, 7, None, True, 1.0])
def test_refuses_other_isolation_levels(store: Path, level: Any) -> None:
    with opened(store) as tier, pytest.raises(ConfigurationError, match="isolation_level must be"):
        tier.read("txn", 0, isolation_level=level)


@pytest.mark.parametrize(
    ("start", "end"), [(10, 5), (-1, None), (None, -1), (True, None), (None, True), (1.5, None), ("1", None), (2**63, None)]
)
def test_refuses_bounds_that_are_no_interval_of_offsets(store: Path, start: Any, end: Any) -> None:
    with opened(store) as tier, pytest.raises(ConfigurationError, match="_offset"):
        tier.read("txn", 0, start, end)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), True, "1"])
def test_refuses_invalid_time_outs(store: Path, timeout: Any) -> None:
    with opened(store) as tier:
        reader = tier.read("txn", 0)
        for form in (reader.blocks, reader.messages, reader.record_batches):
            with pytest.raises(ConfigurationError, match="timeout must be"):
                next(iter(form(timeout)))


CHUNK, RECORDS_OF_A_BATCH = 100_000, 16


@pytest.fixture(scope="module", params=[None, CHUNK], ids=["as they are", "in chunks"])
def bounded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int, int]:
    """Returns the tier's URL, a batch's size, and the extra bytes allowed at each end of a read: a chunk or a batch."""
    directory = tmp_path_factory.mktemp("tier")
    shape = Shape(chunk_size=request.param, batch_records=RECORDS_OF_A_BATCH)
    tier = write_tier(directory, shape)
    batch = shape.segment_bytes * shape.segments // (tier.end // RECORDS_OF_A_BATCH)
    return directory.as_uri(), batch, request.param or batch


@pytest.mark.parametrize(
    ("start", "count", "gets"), [(1000, 10, 2), (1003, 10, 2), (1000, 1000, 12), (2995, 3, 2), (3100, 50, 4)]
)
def test_a_bounded_read_receives_little_more_than_its_records(
    bounded: tuple[str, int, int], start: int, count: int, gets: int
) -> None:
    url, batch, most = bounded
    layout = "local-tiered-storage" if most == batch else "aiven"
    config = RemoteFetchConfig(enabled=True, hedge_max_percent=0)
    with open_tier(url, layout=layout, config=config) as tier:
        offsets, end = read(tier.read(PARTITION.topic, PARTITION.partition, start, start + count))
        counted = tier.metrics.snapshot()
    assert offsets == list(range(start, start + count))
    assert end.reason == "end"
    batches = (start + count - 1) // RECORDS_OF_A_BATCH - start // RECORDS_OF_A_BATCH + 1
    assert counted["remote-fetch-bytes-total"] <= 1.02 * batches * batch + 2 * most
    assert counted["remote-fetch-request-total"] <= gets
    if count == 10:
        assert counted["remote-fetch-bytes-total"] <= 256 * 1024
