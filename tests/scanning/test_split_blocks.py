"""Record blocks of a split: all its records, or an error with the offset where it ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pytest

from kafka_remote_client.errors import RemoteStorageUnavailableError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.records.tally import Tally
from kafka_remote_client.scanning.split_blocks import growing_parts, split_blocks, tally_of
from kafka_remote_client.scanning.splits import Split
from tests.support.golden import golden_local
from tests.support.scanned import expected_rows

ZSTD = TopicPartition("codec-zstd-rdk", 0)


@pytest.mark.parametrize("borrow", [False, True])
def test_a_split_gives_the_records_between_its_bounds(golden: TierReader, borrow: bool) -> None:
    split = Split(ZSTD, 100, 2000, 0)
    blocks = split_blocks(golden, split, IsolationLevel.READ_COMMITTED, borrow=borrow)
    offsets = [row[0] for block in blocks for row in block.rows()]
    rows = expected_rows("codec-zstd-rdk", 0, "read_uncommitted")
    assert offsets == [row["offset"] for row in rows if 100 <= row["offset"] < 2000]


def test_a_split_that_ends_early_raises(tmp_path: Path) -> None:
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").glob("codec-zstd-rdk-0-*"):
        shutil.copytree(directory, tmp_path / "kafka-tiered-storage" / directory.name)
    with open_tier(tmp_path.as_uri()) as tier:
        end = tier.bounds(*ZSTD).high_watermark
        last = max(tmp_path.glob("*/*/*.log"))
        last.write_bytes(bytes(len(last.read_bytes())))
        found = []
        with pytest.raises(TierUnavailableError, match="cannot read codec-zstd-rdk-0 at offset") as raised:
            found.extend(split_blocks(tier, Split(ZSTD, 0, end, 0), IsolationLevel.READ_COMMITTED))
        assert found
        assert raised.value.offset == found[-1].next_offset
        assert (raised.value.topic, raised.value.partition) == ZSTD


def test_a_missing_first_segment_of_a_split_raises(tmp_path: Path) -> None:
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").glob("codec-zstd-rdk-0-*"):
        shutil.copytree(directory, tmp_path / "kafka-tiered-storage" / directory.name)
    first, *_, last = sorted((path.name[:20], path.name.split(".")[0]) for path in tmp_path.glob("*/*/*.log"))
    for path in tmp_path.glob(f"*/*/{first[1]}.*"):
        path.unlink()
    with open_tier(tmp_path.as_uri()) as tier:
        start = tier.bounds(*ZSTD).log_start
        assert 0 < start < int(last[0])
        told = f"cannot read codec-zstd-rdk-0 at offset 5 from the tier: the tier begins at offset {start}"
        with pytest.raises(TierUnavailableError, match=told) as raised:
            list(split_blocks(tier, Split(ZSTD, 5, start + 5, 0), IsolationLevel.READ_COMMITTED))
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == (*ZSTD, 5)


def test_a_tier_error_is_raised_unchanged_without_brokers(golden: TierReader, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RemoteStorageUnavailableError("the store is down")

    monkeypatch.setattr(TierReader, "bounds", fails)
    with pytest.raises(RemoteStorageUnavailableError, match="the store is down"):
        list(split_blocks(golden, Split(ZSTD, 0, 10, 0), IsolationLevel.READ_COMMITTED))


def test_a_tally_of_a_split_counts_its_records(golden: TierReader) -> None:
    rows = [row for row in expected_rows("codec-zstd-rdk", 0, "read_uncommitted") if 100 <= row["offset"] < 2000]
    times = [row["timestamp"] for row in rows]
    split = Split(ZSTD, 100, 2000, 0)
    expected = Tally(len(rows), rows[0]["offset"], rows[-1]["offset"], None, max(times))
    assert tally_of(golden, split, IsolationLevel.READ_COMMITTED) == expected
    found = tally_of(golden, split, IsolationLevel.READ_COMMITTED, oldest=True)
    assert found == attrs.evolve(expected, oldest=min(times))


def test_growing_parts_cover_a_split() -> None:
    split = Split(ZSTD, 100, 1000, 900, gets=4)
    parts = list(growing_parts(split, 10))
    assert [(part.start, part.end) for part in parts] == [(100, 110), (110, 190), (190, 1000)]
    assert [part.gets for part in parts] == [None, None, None]
    assert list(growing_parts(split, 10_000)) == [split]
    assert next(growing_parts(split, 10_000)).gets == 4
    assert next(growing_parts(split, 0)).end == 101
