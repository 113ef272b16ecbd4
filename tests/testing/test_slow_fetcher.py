from __future__ import annotations

import threading

from kafka_remote_fetchers.memory import MemoryFetcher

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.testing import SlowFetcher, read_all, segment_metadata
from tests.support.closing import check_closing_refuses

METADATA = segment_metadata(LocationMetadata(object_key="key").encode())


def test_waits_before_each_fetch() -> None:
    waits: list[float] = []

    class Recording(SystemClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            waits.append(seconds)
            return False

    fetcher = SlowFetcher(MemoryFetcher({"key": b"bytes"}), 0.5, Recording())
    fetcher.configure({})
    assert read_all(fetcher.fetch_log_segment(METADATA, 0, -1)) == b"bytes"
    fetcher.seconds = 0.25
    assert read_all(fetcher.fetch_log_segment(METADATA, 1, 3)) == b"yt"
    assert waits == [0.5, 0.25]


def test_closing_ends_the_wait() -> None:
    fetcher = SlowFetcher(MemoryFetcher({"key": b"bytes"}), 60.0)
    check_closing_refuses(lambda: fetcher.fetch_log_segment(METADATA, 0, -1), fetcher.close)
