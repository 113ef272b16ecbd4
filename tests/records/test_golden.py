"""Each golden segment gives the records that a real consumer read from the broker, at both isolation levels."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_remote_client.model import (
    AbortedTransaction,
    EpochEntry,
    IsolationLevel,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from kafka_remote_client.records import CompletedFetch, RecordBlock, read_batches
from tests.support.golden import golden_local, read_jsonl

PARTITIONS = [
    *(f"codec-{codec}-{producer}-0" for codec in ("none", "gzip", "snappy", "lz4", "zstd") for producer in ("rdk", "java")),
    "epochs-0",
    "epochs-1",
    "logappend-0",
    "delrec-0",
    "txn-0",
]
LEVELS = [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED]


@cache
def segments(partition: str) -> list[tuple[RemoteLogSegmentMetadata, Path]]:
    """Returns the partition's segments in order; epochs from the newest leader epoch checkpoint, ends from the next start."""
    (directory,) = (golden_local() / "remote" / "kafka-tiered-storage").glob(f"{partition}-*")
    logs = sorted(directory.glob("*.log"))
    starts = [int(path.name[:20]) for path in logs]
    checkpoint = next(directory.glob(f"{starts[-1]:020d}-*.leader_epoch_checkpoint")).read_text().split("\n")[2:]
    epochs = [tuple(map(int, line.split())) for line in checkpoint if line]
    topic, number = re.fullmatch(r"(.*)-(\d+)", partition).groups()
    tip = TopicIdPartition(UUID(int=0), topic, int(number))
    found = []
    for index, path in enumerate(logs):
        if index + 1 < len(starts):
            end = starts[index + 1] - 1
        else:
            end = list(read_batches(path.read_bytes()).rows())[-1][0]
            end = max(end, read_batches(path.read_bytes()).next_offset - 1)
        own = [EpochEntry(epoch, max(at, starts[index])) for epoch, at in epochs if at <= end]
        while len(own) > 1 and own[1].start_offset == own[0].start_offset:
            own.pop(0)
        size = path.stat().st_size
        identity = RemoteLogSegmentId(tip, UUID(int=index))
        found.append((RemoteLogSegmentMetadata(identity, starts[index], end, 0, 0, 0, tuple(own), size), path))
    return found


@cache
def aborted(partition: str) -> list[tuple[int, int, int]]:
    """Returns (producer, first offset, last offset) of each aborted transaction in the partition's transaction indexes."""
    root = golden_local()
    files = [path.with_suffix(".txnindex") for _, path in segments(partition)]
    files += sorted((root / "local-tail" / partition).glob("*.txnindex"))
    entries = []
    for path in files:
        data = path.read_bytes() if path.exists() else b""
        for at in range(0, len(data), 34):
            entries.append(tuple(int.from_bytes(data[at + k : at + k + 8], "big") for k in (2, 10, 18)))
    return entries


def fetch(partition: str, level: IsolationLevel, start: int = 0, *, chunk: int | None = None) -> Iterator[RecordBlock]:
    """Returns all blocks of the partition's tier from ``start`` on. Each segment is fed whole or in ``chunk`` bytes."""
    offset = max(start, segments(partition)[0][0].start_offset)
    for metadata, path in segments(partition):
        if metadata.end_offset < offset:
            continue
        entries = [AbortedTransaction(p, f) for p, f, last in aborted(partition) if last >= offset and f <= metadata.end_offset]
        completed = CompletedFetch(metadata, offset, level, entries, at_segment_start=True)
        data = path.read_bytes()
        pending = b""
        for at in range(0, len(data), chunk or len(data)):
            pending += data[at : at + (chunk or len(data))]
            block, used = completed.feed(pending)
            pending = pending[used:]
            yield block
        assert pending == b""
        assert completed.next_fetch_offset == metadata.end_offset + 1
        offset = completed.next_fetch_offset


def as_expected(row: tuple[Any, ...]) -> dict[str, Any]:
    """Converts one of our rows to the format of the expected files."""
    offset, timestamp, timestamp_type, epoch, key, value, headers = row

    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    line: dict[str, Any] = {
        "offset": offset,
        "timestamp": timestamp,
        "timestamp_type": ("CreateTime", "LogAppendTime")[timestamp_type],
        "leader_epoch": epoch,
        "key": text(key),
        "headers": [[name, text(data)] for name, data in headers],
    }
    if value is not None and len(value) > 1024:
        line["value_sha256"] = hashlib.sha256(value).hexdigest()
        line["value_len"] = len(value)
    else:
        line["value"] = text(value)
    return line


@cache
def expected(partition: str, level: IsolationLevel) -> list[dict[str, Any]]:
    """Returns the records that the real consumer read, cut to the tier."""
    name = "read_committed" if level == IsolationLevel.READ_COMMITTED else "read_uncommitted"
    path = golden_local() / "expected" / f"{partition}.{name}.jsonl.gz"
    if not path.exists():
        path = golden_local() / "expected" / f"{partition}.read_uncommitted.jsonl.gz"
    end = segments(partition)[-1][0].end_offset
    return [line for line in read_jsonl(path) if line["offset"] <= end]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_tier_gives_what_a_real_consumer_read(partition: str, level: IsolationLevel) -> None:
    lines = expected(partition, level)
    rows = [as_expected(row) for block in fetch(partition, level, lines[0]["offset"]) for row in block.rows()]
    # the segments end below the last stable offset, so they have no record of an open transaction
    assert rows == lines


@pytest.mark.parametrize("level", LEVELS)
def test_pieces_of_any_size_give_the_same_records(level: IsolationLevel) -> None:
    rows = [as_expected(row) for block in fetch("txn-0", level, chunk=1777) for row in block.rows()]
    assert rows == expected("txn-0", level)


@pytest.mark.parametrize("start", [1, 300, 437, 999, 1500, 2000, 2454, 2600])
def test_read_committed_restarts_at_any_offset_with_its_own_list(start: int) -> None:
    rows = [as_expected(row) for block in fetch("txn-0", IsolationLevel.READ_COMMITTED, start) for row in block.rows()]
    assert rows == [line for line in expected("txn-0", IsolationLevel.READ_COMMITTED) if line["offset"] >= start]


def test_messages_and_arrow_have_the_same_records_as_rows() -> None:
    for partition in ("codec-lz4-java-0", "logappend-0"):
        for block in fetch(partition, IsolationLevel.READ_UNCOMMITTED):
            rows = list(block.rows())
            messages = block.messages("t", 3)
            assert [
                (m.offset(), m.timestamp()[1], m.timestamp()[0] - 1, m.leader_epoch(), m.key(), m.value(), m.headers() or [])
                for m in messages
            ] == rows
            assert {(m.topic(), m.partition(), m.latency(), m.error()) for m in messages} == {("t", 3, None, None)}
            table = block.to_arrow("t", 3).to_pydict()
            assert [
                (o, round(at.timestamp() * 1000), kind, key, value, [(h["key"], h["value"]) for h in headers])
                for o, at, kind, key, value, headers in zip(
                    *(table[name] for name in ("offset", "timestamp", "timestampType", "key", "value", "headers")), strict=True
                )
            ] == [(row[0], row[1], row[2], *row[4:]) for row in rows]
            assert set(table["topic"]) == {"t"}
            assert set(table["partition"]) == {3}
