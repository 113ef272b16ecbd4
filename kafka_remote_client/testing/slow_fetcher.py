"""A wrapper that delays each fetch. It wraps a real fetcher directly, which does not see the delay."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteStorageUnavailableError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import ReadableStream, RemoteStorageFetcher

__all__ = ["SlowFetcher"]


class SlowFetcher:
    """Waits ``seconds`` before each fetch. Closing it ends the waits, and their fetches fail."""

    def __init__(self, inner: RemoteStorageFetcher, seconds: float, clock: Clock | None = None) -> None:
        self.seconds = arguments.duration(seconds, "seconds")
        self._inner = inner
        self._clock = clock or SystemClock()
        self._closed = threading.Event()

    def configure(self, configs: Mapping[str, object]) -> None:
        self._inner.configure(configs)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        if self._clock.wait(self._closed, self.seconds):
            raise RemoteStorageUnavailableError("the fetcher is closed")
        return self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)

    def close(self) -> None:
        self._closed.set()
        self._inner.close()
