"""A program that interrupts its own calls of a consumer with direct fetch, one after the other, and says after each what came.

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
    "poll()": (lambda consumer: consumer.poll(), "_poll_slowly"),
    "poll(t)": (lambda consumer: consumer.poll(LONG), "_poll_slowly"),
    "consume(n)": (lambda consumer: consumer.consume(5), "consume"),
    "consume(n, t)": (lambda consumer: consumer.consume(5, LONG), "consume"),
}
"""Each call and the function of ours that it waits in."""


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def inside(function: str, thread: threading.Thread | None = None) -> bool:
    """Whether a thread, or the main one, is in one of our functions of that name."""
    frame = sys._current_frames().get((thread or threading.main_thread()).ident or 0)
    while frame is not None:
        if frame.f_code.co_name == function and "kafka_remote_client" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def interrupted(call: Callable[[], object], function: str) -> str:
    """Makes a call and interrupts it once it is seen inside ``function``; what came of it."""

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
    """A consumer that has read everything, the last of it by the broker, so that its calls have nothing to give."""
    callbacks = {name: value for name, value in more.items() if callable(value)}
    settings = direct_settings(cluster, enable_partition_eof=False, **{k: v for k, v in more.items() if k not in callbacks})
    consumer = Consumer(settings | callbacks)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    take(consumer, COUNT)
    return consumer


def nowhere(cluster: EmbeddedCluster) -> Consumer:
    """A consumer whose brokers do not answer; librdkafka gives a commit up after the session's time-out."""
    consumer = Consumer(direct_settings(cluster, session_timeout_ms=1_000, heartbeat_interval_ms=300) | NOBODY)
    consumer.subscribe([TOPIC])
    return consumer


def waits(make: Callable[[EmbeddedCluster], Consumer], name: str) -> Case:
    call, function = CALLS[name]

    def case(cluster: EmbeddedCluster) -> str:
        consumer = make(cluster)
        said = interrupted(lambda: call(consumer), function)
        consumer.close()
        return said

    return case


def falls_into_a_callback(name: str) -> Case:
    """The signal's handler then raises inside the callback, and librdkafka sees an exception of a callback."""
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
        said = outcome(lambda: call(consumer))
        consumer.close()
        return said

    return case


def beside_another_thread(cluster: EmbeddedCluster) -> str:
    """Another thread is in poll(), so position() waits for it."""
    consumer = at_the_end(cluster)
    other = threading.Thread(target=lambda: consumer.poll(LONG))
    other.start()
    while not inside("_gather_slice", other):
        _PAUSE.wait(0.01)
    said = interrupted(lambda: consumer.position(HERE), "position")
    consumer.close()
    other.join()
    return said


def closing(cluster: EmbeddedCluster) -> str:
    """What is to be closed is closed, and then the interrupt comes out."""
    consumer = Consumer(direct_settings(cluster, enable_partition_eof=False))
    consumer.subscribe([TOPIC], on_revoke=lambda *_: interrupt())
    take(consumer, 1)
    said = outcome(consumer.close)
    assert outcome(consumer.close) == "returned None"
    try:
        consumer.poll(0)
    except RuntimeError as error:
        return f"{said}, {error}"
    return f"{said}, still open"


def committing(cluster: EmbeddedCluster) -> str:
    """librdkafka waits for the answer, or gives it up; then the interrupt comes out, and the consumer goes on."""
    consumer = nowhere(cluster)

    def commit() -> None:
        while True:
            with contextlib.suppress(KafkaException):  # there is no coordinator
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=False)

    said = interrupted(commit, "commit")
    assert consumer.assignment() == []
    consumer.close()
    return said


def asking_for_committed(cluster: EmbeddedCluster) -> str:
    consumer = nowhere(cluster)
    consumer.assign(HERE)
    said = interrupted(lambda: consumer.poll(LONG), "starts")
    consumer.close()
    return said


CASES: dict[str, Case] = {
    **{f"{name} at the end": waits(at_the_end, name) for name in CALLS},
    **{f"{name} without a broker": waits(nowhere, name) for name in ("poll()", "consume(n, t)")},
    **{f"{name} and a callback": falls_into_a_callback(name) for name in CALLS},
    "position() beside poll()": beside_another_thread,
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
