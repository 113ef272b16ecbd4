"""The ranges in flight, each with the time by which its fetcher has to return. Pure (no I/O).

A fetcher that does not return in time keeps its thread, and may write to its buffer at any later moment. So the range is given
up without the buffer, and the thread counts as stuck until it comes back.

References: docs/design.md, "Failure".
"""

from __future__ import annotations

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.fetch.range_place import located, store_host

__all__ = ["Flights"]

_GRACE_SECONDS = 0.5


class Flights:
    """Not thread-safe: the engine's lock guards it. Times are seconds on the monotonic clock."""

    def __init__(self, config: RemoteFetchConfig) -> None:
        self._seconds = (config.read_timeout_ms + config.connect_timeout_ms) / 1000 + _GRACE_SECONDS
        self._overdue_at: dict[Fetch, float] = {}
        self.stuck = 0
        """Threads that hang in a fetcher whose range was given up."""

    def __len__(self) -> int:
        return len(self._overdue_at)

    def begin(self, task: Fetch, now: float) -> None:
        """A thread begins to read the range."""
        self._overdue_at[task] = now + self._seconds

    def end(self, task: Fetch) -> bool:
        """The thread is back. False when the range was given up before: nobody waits for its bytes."""
        if self._overdue_at.pop(task, None) is not None:
            return True
        self.stuck -= 1
        return False

    def discard(self, task: Fetch) -> None:
        """The range is not read after all."""
        self._overdue_at.pop(task, None)

    def give_up(self, now: float) -> tuple[Fetch, RemoteStorageTimeoutError] | None:
        """One range that is overdue, with its error; it is in flight no more. ``None`` where none is."""
        overdue = next(((task, at) for task, at in self._overdue_at.items() if at < now), None)
        if overdue is None:
            return None
        task, at = overdue
        del self._overdue_at[task]
        self.stuck += 1
        if task.range.lease is not None:
            task.range.lease.buffer = None  # the thread that hangs may still write to it
        granted, elapsed = task.range.granted, now - at + self._seconds
        where = f"bytes {granted.range} of {store_host(granted)}"
        error = RemoteStorageTimeoutError(f"the fetcher did not return {where} in time")
        located(error, task.grant.location, granted).with_context(attempt=task.range.attempts, elapsed_seconds=elapsed)
        return task, error
