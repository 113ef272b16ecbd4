"""The librdkafka consumers of a Python worker: one is lent to a task at a time, and kept for the next one with its connections.

A consumer costs three connections to brokers, for metadata, for its group's coordinator and for records. Kept ones cost a task
none. librdkafka drops what a consumer still holds of the task before when its partition is unassigned.

::

    lent out      to one task alone
    idle          without an assignment; at most KEPT, the last ones
    closed        after a task failed with it; older than MAX_AGE_SECONDS (certificates and names are read when it is made)

A process that was forked starts without, as in :mod:`~kafka_remote_client.spark.reading.task_engine`.

References: Spark's KafkaDataConsumer, which keeps consumers for the same reason.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaException

from kafka_remote_client.clock import Clock, SystemClock

__all__ = ["KEPT", "MAX_AGE_SECONDS", "BrokerConsumers", "worker_consumers"]

KEPT = 2
MAX_AGE_SECONDS = 300.0
_MANY = 10_000
_OF_ITS_OWN = "group.id"
"""The setting that differs for each consumer."""


@attrs.frozen(eq=False)
class _Kept:
    settings: Mapping[str, object] = attrs.field(repr=lambda settings: f"<{len(settings)} settings>")
    consumer: Consumer
    made_at: float


class BrokerConsumers:
    """Lends consumers. Thread safe."""

    def __init__(self, make_consumer: Callable[[dict[str, Any]], Consumer] = Consumer, *, clock: Clock | None = None) -> None:
        self._make_consumer = make_consumer
        self._clock = clock or SystemClock()
        self._of_parent: list[_Kept] = []
        self._start_empty()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._idle)} idle)"

    @contextmanager
    def lend(self, settings: Mapping[str, object]) -> Iterator[Consumer]:
        """A consumer with these settings, except perhaps for its group's name, without an assignment.

        Raises KafkaException for settings that librdkafka refuses. An Exception that leaves the context closes the consumer.
        """
        wanted = _shared(settings)
        kept = self._take(wanted)
        if kept is None:
            kept = _Kept(wanted, self._make_consumer(dict(settings)), self._clock.monotonic())
        home = self._idle
        try:
            yield kept.consumer
        except Exception:
            kept.consumer.close()
            raise
        except BaseException:  # the task was left: GeneratorExit
            self._give_back(kept, home)
            raise
        else:
            self._give_back(kept, home)

    def close(self) -> None:
        """Closes idle consumers. Consumers can still be lent afterwards."""
        with self._lock:
            closing = self._removed(lambda _: True)
        _close(closing)

    def forget(self) -> None:
        """In a newly forked process: starts empty, and does not use the parent's objects."""
        self._of_parent += self._idle
        self._start_empty()

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Kept] = []
        """The most recently returned one is last."""

    def _take(self, wanted: Mapping[str, object]) -> _Kept | None:
        now = self._clock.monotonic()
        with self._lock:
            closing = self._removed(lambda kept: now - kept.made_at > MAX_AGE_SECONDS)
            found = next((kept for kept in reversed(self._idle) if kept.settings == wanted), None)
            if found is not None:
                self._idle.remove(found)
        _close(closing)
        return found

    def _give_back(self, kept: _Kept, home: list[_Kept]) -> None:
        """``home``: where it was taken from, which belongs to the parent if the process was forked meanwhile."""
        try:
            kept.consumer.unassign()
            while kept.consumer.consume(_MANY, 0):
                pass  # what came for the last task
        except KafkaException:
            kept.consumer.close()
            return
        with self._lock:
            if home is not self._idle:
                return
            home.append(kept)
            oldest = home[:-KEPT]
            closing = self._removed(lambda kept: kept in oldest)
        _close(closing)

    def _removed(self, unwanted: Callable[[_Kept], bool]) -> list[_Kept]:
        """Takes idle ones out. Under the lock."""
        closing = [kept for kept in self._idle if unwanted(kept)]
        self._idle[:] = [kept for kept in self._idle if kept not in closing]
        return closing


def _shared(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if name != _OF_ITS_OWN}


def _close(closing: list[_Kept]) -> None:
    """Outside of the lock: closing waits for threads."""
    for kept in closing:
        kept.consumer.close()


worker_consumers = BrokerConsumers()
"""The instance of this process."""

atexit.register(worker_consumers.close)
os.register_at_fork(after_in_child=worker_consumers.forget)
