"""A program that interrupts calls of a consumer with direct fetch, one after the other, and prints the result of each.

``python -m tests.consumer.interrupts``. Calls wait ten minutes or for ever, so a line comes in time only where an interrupt
ends its call. The signal is sent once the main thread is seen inside the call, or from a callback that the call serves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import direct_settings, fill_topic, small_cluster, take

__all__ = ["CASES"]

TOPIC = "orders"
COUNT = 100
LONG = 600.0
HERE = [TopicPartition(TOPIC, 0)]
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "fetch.remote.bootstrap.servers": "127.0.0.1:1"}

_PAUSE = threading.Event()

Case = Callable[[EmbeddedCluster], str]
CALLS: dict[str, tuple[Callable[[Consumer], object], str]] = {
    "poll()": (lambda consumer: consumer.poll(), "_direct_poll"),
    "poll(t)": (lambda consumer: consumer.poll(LONG), "_direct_poll"),
    "consume(n)": (lambda consumer: consumer.consume(5), "consume"),
    "consume(n, t)": (lambda consumer: consumer.consume(5, LONG), "consume"),
}
"""Each call and the function of ours that it waits in."""


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def inside(function: str, thread: threading.Thread | None = None) -> bool:
    """Whether the main thread, or any thread, runs one of our functions of that name."""
    frame = sys._current_frames().get((thread or threading.main_thread()).ident or 0)
    while frame is not None:
        if frame.f_code.co_name == function and "kafka_remote_client" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def interrupted(call: Callable[[], object], function: str) -> str:
    """Calls ``call``, interrupts it once it runs ``function``, and returns the outcome."""

    def watch() -> None:
        while not inside(function):
            _PAUSE.wait(0.01)
        interrupt()

    threading.Thread(target=watch, daemon=True).start()
    return outcome(call)


def outcome(call: Callable[[], object]) -> str:
    try:
        return f"returned {call()}"
    except KeyboardInterrupt:
        return "interrupted"


def at_the_end(cluster: EmbeddedCluster, **more: Any) -> Consumer:
    """A consumer that has read everything, the last records from the broker: its calls return nothing."""
    callbacks = {name: value for name, value in more.items() if callable(value)}
    settings = direct_settings(cluster, enable_partition_eof=False, **{k: v for k, v in more.items() if k not in callbacks})
    consumer = Consumer(settings | callbacks)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    take(consumer, COUNT)
    return consumer


def unreachable(cluster: EmbeddedCluster) -> Consumer:
    """A consumer whose brokers do not answer. librdkafka gives up a commit after the session's time-out."""
    consumer = Consumer(direct_settings(cluster, session_timeout_ms=1_000, heartbeat_interval_ms=300) | NOBODY)
    consumer.subscribe([TOPIC])
    return consumer


def waits(make: Callable[[EmbeddedCluster], Consumer], name: str) -> Case:
    call, function = CALLS[name]

    def case(cluster: EmbeddedCluster) -> str:
        consumer = make(cluster)
        result = interrupted(lambda: call(consumer), function)
        consumer.close()
        return result

    return case


def interrupted_in_callback(name: str) -> Case:
    """The signal's handler raises inside the callback: librdkafka sees an exception of a callback."""
    call, function = CALLS[name]

    def case(cluster: EmbeddedCluster) -> str:
        sent: list[bool] = []

        ready: list[bool] = []

        def stats_cb(_: str) -> None:
            if ready and not sent and inside(function):
                sent.append(True)
                interrupt()

        consumer = at_the_end(cluster, stats_cb=stats_cb, statistics_interval_ms=50)
        ready.append(True)
        result = outcome(lambda: call(consumer))
        consumer.close()
        return result

    return case


def another_thread_polls(cluster: EmbeddedCluster) -> str:
    """Another thread is in poll(), so position() waits for it."""
    consumer = at_the_end(cluster)
    other = threading.Thread(target=lambda: consumer.poll(LONG))
    other.start()
    while not inside("_gather_slice", other):
        _PAUSE.wait(0.01)
    result = interrupted(lambda: consumer.position(HERE), "position")
    consumer.close()
    other.join()
    return result


def closing(cluster: EmbeddedCluster) -> str:
    """The consumer is closed before the interrupt is raised."""
    consumer = Consumer(direct_settings(cluster, enable_partition_eof=False))
    consumer.subscribe([TOPIC], on_revoke=lambda *_: interrupt())
    take(consumer, 1)
    result = outcome(consumer.close)
    assert outcome(consumer.close) == "returned None"
    try:
        consumer.poll(0)
    except RuntimeError as error:
        return f"{result}, {error}"
    return f"{result}, still open"


def committing(cluster: EmbeddedCluster) -> str:
    """librdkafka waits for the answer or gives it up. Then the interrupt is raised, and the consumer continues."""
    consumer = unreachable(cluster)

    def commit() -> None:
        while True:
            with contextlib.suppress(KafkaException):  # there is no coordinator
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=False)

    result = interrupted(commit, "commit")
    assert consumer.assignment() == []
    consumer.close()
    return result


def asking_for_committed(cluster: EmbeddedCluster) -> str:
    consumer = unreachable(cluster)
    consumer.assign(HERE)
    result = interrupted(lambda: consumer.poll(LONG), "starts")
    consumer.close()
    return result


CASES: dict[str, Case] = {
    **{f"{name} at the end": waits(at_the_end, name) for name in CALLS},
    **{f"{name} without a broker": waits(unreachable, name) for name in ("poll()", "consume(n, t)")},
    **{f"{name} and a callback": interrupted_in_callback(name) for name in CALLS},
    "position() beside poll()": another_thread_polls,
    "close()": closing,
    "commit(asynchronous=False)": committing,
    "poll() before the committed offset is known": asking_for_committed,
}


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with TemporaryDirectory() as directory, small_cluster(Path(directory)) as cluster:
        fill_topic(cluster, TOPIC, COUNT)
        for name, case in CASES.items():
            print(f"{name}: {case(cluster)}", flush=True)


if __name__ == "__main__":
    main()
