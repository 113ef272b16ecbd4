"""The ranges in flight, each with the time by which its fetcher has to return. Pure (no I/O).

A fetcher that does not return in time keeps its thread, and may write to its buffer at any later moment. So the range is given
up without the buffer, and the thread counts as stuck until it comes back.

References: docs/design.md, "Failure".
"""

from __future__ import annotations

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.reader_values import RangeTask

__all__ = ["Flights"]

_GRACE_SECONDS = 0.5


class Flights:
    """Not thread-safe: the engine's lock guards it. Times are seconds on the monotonic clock."""

    def __init__(self, config: RemoteFetchConfig) -> None:
        self._seconds = (config.read_timeout_ms + config.connect_timeout_ms) / 1000 + _GRACE_SECONDS
        self._overdue_at: dict[RangeTask, float] = {}
        self.stuck = 0
        """Threads that hang in a fetcher whose range was given up."""

    def __len__(self) -> int:
        return len(self._overdue_at)

    def begin(self, task: RangeTask, now: float) -> None:
        """A thread begins to read the range."""
        self._overdue_at[task] = now + self._seconds

    def end(self, task: RangeTask) -> bool:
        """The thread is back. False when the range was given up before: nobody waits for its bytes."""
        if self._overdue_at.pop(task, None) is not None:
            return True
        self.stuck -= 1
        return False

    def discard(self, task: RangeTask) -> None:
        """The range is not read after all."""
        self._overdue_at.pop(task, None)

    def give_up(self, now: float) -> list[tuple[RangeTask, RemoteStorageTimeoutError]]:
        """The ranges that are overdue, each with its error; they are in flight no more."""
        overdue = [task for task, at in self._overdue_at.items() if at < now]
        given_up = []
        for task in overdue:
            del self._overdue_at[task]
            self.stuck += 1
            if task.read.lease is not None:
                task.read.lease.buffer = None  # the thread that hangs may still write to it
            given_up.append(
                (task, RemoteStorageTimeoutError(f"the fetcher did not return for bytes {task.read.granted.range}"))
            )
        return given_up
