"""A wrapper that fails on demand. It wraps a real fetcher directly; everything above it must survive the failures."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import RemoteStorageError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import ReadableStream, RemoteStorageFetcher, WritableBuffer

__all__ = ["FailingFetcher", "Failure"]


@attrs.frozen
class Failure:
    """The failure of one fetch. ``after`` None: opening fails; otherwise the stream raises after that many bytes.

    ``error`` None: the stream ends there without an error, as a store does that cuts its answer short.
    """

    error: RemoteStorageError | None
    after: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.after is not None:
            arguments.whole(self.after, "after", 0)


class FailingFetcher:
    """Takes one :class:`Failure`, or None for success, from its script for each fetch. With an empty script, fetches succeed.

    ``fetches`` records the ``(start_position, end_position)`` of every fetch.
    """

    def __init__(self, inner: RemoteStorageFetcher, *script: Failure | None) -> None:
        self.fetches: list[tuple[int, int]] = []
        self._inner = inner
        self._script = deque(script)
        self._lock = threading.Lock()

    def fail(self, *script: Failure | None) -> None:
        """Appends to the script."""
        with self._lock:
            self._script.extend(script)

    def configure(self, configs: Mapping[str, object]) -> None:
        self._inner.configure(configs)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        with self._lock:
            self.fetches.append((start_position, end_position))
            failure = self._script.popleft() if self._script else None
        if failure is not None and failure.after is None and failure.error is not None:
            raise failure.error
        stream = self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)
        return stream if failure is None else _FailingStream(stream, failure)

    def close(self) -> None:
        self._inner.close()


class _FailingStream:
    def __init__(self, inner: ReadableStream, failure: Failure) -> None:
        self._inner = inner
        self._error = failure.error
        self._left = failure.after or 0

    def readinto(self, buffer: WritableBuffer, /) -> int:
        if self._left:
            with memoryview(buffer) as whole, whole[: self._left] as front:
                count = self._inner.readinto(front)
            self._left -= count
            return count
        if self._error is not None:
            raise self._error
        return 0

    def close(self) -> None:
        self._inner.close()
