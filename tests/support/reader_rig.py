"""A reader and its engine over the golden tier, and the records of a real consumer."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, SegmentLocation
from tests.support.golden import read_jsonl
from tests.support.golden_tier import GoldenTierSource, ScriptedFetcher, golden_path
from tests.support.questions import question

__all__ = [
    "COMMITTED",
    "CONFIG",
    "TIERED_END",
    "TOPIC",
    "UNCOMMITTED",
    "Rig",
    "assert_equal",
    "drain",
    "expected",
    "range_starts",
    "rig",
    "whole",
]

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
TOPIC = "codec-none-rdk"
TIERED_END = 4200
CONFIG = RemoteFetchConfig(enabled=True, retries=2, read_timeout_ms=5000, location_timeout_ms=60_000, hedge_max_percent=0)
"""Without hedges, because a busy machine would add GETs and bytes to those that tests count."""


class Rig:
    def __init__(self, source: GoldenTierSource, fetcher: ScriptedFetcher, config: RemoteFetchConfig, clock: Clock) -> None:
        self.source, self.fetcher = source, fetcher
        self.metrics = FetchMetrics(clock)
        self.engine = FetchEngine(source, fetcher, config, clock=clock, metrics=self.metrics)

    def read(self, topic: str = TOPIC, start: int = 0, **options: Any) -> tuple[list[tuple[Any, ...]], ReadEnd]:
        reader = self.engine.reader(ReadRequest(topic, 0, start, **{"isolation_level": UNCOMMITTED, **options}))
        return drain(reader)


def drain(reader: RemoteReader) -> tuple[list[tuple[Any, ...]], ReadEnd]:
    rows: list[tuple[Any, ...]] = []
    for item in reader.blocks(timeout=60):
        if isinstance(item, ReadEnd):
            return rows, item
        rows.extend(item.rows())
    raise AssertionError("no end")


@contextmanager
def rig(
    source: GoldenTierSource | None = None,
    fetcher: ScriptedFetcher | None = None,
    config: RemoteFetchConfig = CONFIG,
    clock: Clock | None = None,
) -> Iterator[Rig]:
    made = Rig(source or GoldenTierSource(), fetcher or ScriptedFetcher(), config, clock or SystemClock())
    before = set(threading.enumerate())
    try:
        yield made
    finally:
        made.engine.close()
        assert made.engine.memory.held == 0
        left = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("pytest")]
        assert not left, left
        assert all(stream.closed for stream in made.fetcher.streams)
        assert (made.source.closed, made.fetcher.closed) == (1, 1)


def expected(topic: str, isolation: str, end: int, start: int = 0) -> list[dict[str, Any]]:
    path = golden_path("expected", f"{topic}-0.{isolation}.jsonl.gz")
    if not path.exists():
        path = golden_path("expected", f"{topic}-0.read_uncommitted.jsonl.gz")
    return [line for line in read_jsonl(path) if start <= line["offset"] < end]


def assert_equal(rows: list[tuple[Any, ...]], lines: list[dict[str, Any]]) -> None:
    assert [row[0] for row in rows] == [line["offset"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        offset, timestamp, timestamp_type, epoch, key, value, headers = row
        assert timestamp == line["timestamp"]
        assert ("CreateTime", "LogAppendTime")[timestamp_type] == line["timestamp_type"]
        assert epoch == line["leader_epoch"]
        assert text(key) == line["key"]
        if "value_sha256" in line:
            assert hashlib.sha256(value).hexdigest() == line["value_sha256"]
        else:
            assert text(value) == line["value"], offset
        assert [[name, text(content)] for name, content in headers] == line["headers"]


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def whole() -> list[dict[str, Any]]:
    return expected(TOPIC, "read_uncommitted", TIERED_END)


def range_starts(range_bytes: int = 20_000) -> list[int]:
    """Start positions of the ranges of the first segment."""
    deadline = Deadline(SystemClock(), 60.0)
    found = locate_one(
        GoldenTierSource(range_bytes=range_bytes),
        question(TOPIC, 0, 0, isolation_level=UNCOMMITTED, max_bytes=1 << 20),
        deadline,
    )
    assert isinstance(found, SegmentLocation)
    return [granted.range.start for granted in found]
