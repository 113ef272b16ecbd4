"""CPU time of one call in the application's thread, compared with confluent-kafka, on topics without tiered records.

Both consumers read the same records of one embedded cluster, in turns within one run; a figure is the median of the rounds.
Prints a table on standard error and JSON on standard output.

===============================  =============================================================================================
row                              is
===============================  =============================================================================================
``consume_one``                  ``consume(1)`` where 1,000 partitions are assigned
``position``                     ``position()`` of the partition after each ``poll()``; the ``poll()`` is not counted
``poll_with_position``           both of them
``assign, silent shim``          ``assign()`` at the committed offset, while the shim accepts connections and never answers
``seek, silent shim``            ``seek()`` of that partition
``incremental_assign, silent``   ``incremental_assign()`` of another partition at its beginning
``markers, tier``                seeing which of 1,000 partitions passed transaction markers, while readers deliver them: ten
                                 times a second. ``plain`` asks each reader, as was done before
``markers, brokers``             the same while the inner consumer delivers them
===============================  =============================================================================================

Those with the silent shim are time on the clock, because such a call may wait; the others are processor time of the thread that
calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.passed_markers import PassedMarkers
from kafka_remote_client.consumer.route_state import RouteEvent
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.benchmarks.running import machine
from tests.support.embedded_topics import direct_settings, plain_settings, small_cluster
from tests.support.silent_peer import SilentPeer

__all__: list[str] = []

_TOPIC_PARTITIONS = 4
_PATIENCE_SECONDS = 60.0
_LOCATION_TIMEOUT_MS = 5_000
"""The default of ``fetch.remote.location.timeout.ms``: the longest wait of a call that would ask the shim itself."""

_LOOKS = 50
Measure = Callable[[confluent_kafka.Consumer, int], dict[str, float]]
"""Makes ``calls`` calls. Returns the CPU time per call in microseconds."""


def consume_one(consumer: confluent_kafka.Consumer, calls: int) -> dict[str, float]:
    began = time.thread_time()
    taken = 0
    while taken < calls:
        taken += len(consumer.consume(1, _PATIENCE_SECONDS))
    return {"consume_one": (time.thread_time() - began) / calls * 1e6}


def position_of_each(consumer: confluent_kafka.Consumer, calls: int) -> dict[str, float]:
    asked = [TopicPartition("long", 0)]
    inside = 0.0
    began = time.thread_time()
    for _ in range(calls):
        message = consumer.poll(_PATIENCE_SECONDS)
        assert message is not None
        before = time.thread_time()
        (told,) = consumer.position(asked)
        inside += time.thread_time() - before
        assert told.offset == (message.offset() or 0) + 1
    both = time.thread_time() - began
    return {"position": inside / calls * 1e6, "poll_with_position": both / calls * 1e6}


def while_the_shim_is_silent(consumer: confluent_kafka.Consumer) -> dict[str, float]:
    """One call each, on a consumer that has just been made; microseconds on the clock."""
    consumer.commit(offsets=[TopicPartition("long", 0, 7)], asynchronous=False)
    found = {"assign, silent shim": _seconds(lambda: consumer.assign([TopicPartition("long", 0, OFFSET_STORED)]))}
    consumer.consume(1, 0.3)  # the plain consumer can seek once it fetches; the direct one has no record yet
    found["seek, silent shim"] = _seconds(lambda: consumer.seek(TopicPartition("long", 0, 3)))
    beginning = TopicPartition("wide-0", 0, OFFSET_BEGINNING)
    found["incremental_assign, silent"] = _seconds(lambda: consumer.incremental_assign([beginning]))
    return {row: seconds * 1e6 for row, seconds in found.items()}


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@contextmanager
def _made(kind: str, cluster: EmbeddedCluster, **more: object) -> Iterator[confluent_kafka.Consumer]:
    named = {"group_id": f"group-{uuid4()}", "enable_partition_eof": False}
    consumer: confluent_kafka.Consumer
    if kind == "direct":
        consumer = Consumer(direct_settings(cluster, **named, **more))
    else:
        consumer = confluent_kafka.Consumer(plain_settings(cluster, **named))
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def _assigned(kind: str, cluster: EmbeddedCluster, partitions: list[TopicPartition]) -> Iterator[confluent_kafka.Consumer]:
    with _made(kind, cluster) as consumer:
        consumer.assign(partitions)
        _fill_queue(consumer)
        yield consumer


def _fill_queue(consumer: confluent_kafka.Consumer) -> None:
    """Waits for a first record, and then until librdkafka has fetched all records."""
    deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
    while not consumer.consume(1, 0.1):
        assert not deadline.expired(), "no record arrived"
    time.sleep(3.0)


def _run(
    cluster: EmbeddedCluster, partitions: list[TopicPartition], measure: Measure, calls: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    with _assigned("plain", cluster, partitions) as plain, _assigned("direct", cluster, partitions) as direct:
        for _ in range(rounds):
            for kind, consumer in (("plain", plain), ("direct", direct)):
                for row, cost in measure(consumer, calls).items():
                    found.setdefault(row, {}).setdefault(kind, []).append(cost)
    return found


def _run_beside_a_silent_shim(cluster: EmbeddedCluster, rounds: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for kind in ("plain", "direct"):
            with SilentPeer() as silent:
                peer = {
                    "fetch_remote_bootstrap_servers": silent.address,
                    "fetch_remote_location_timeout_ms": _LOCATION_TIMEOUT_MS,
                }
                with _made(kind, cluster, **peer) as consumer:
                    for row, cost in while_the_shim_is_silent(consumer).items():
                        found.setdefault(row, {}).setdefault(kind, []).append(cost)
    return found


class _IdleReader:
    """A reader without passed markers, with a lock like the engine's."""

    has_ready = False

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock

    def passed(self) -> tuple[int, int]:
        with self._lock:
            return 0, 0


def _run_markers(cluster: EmbeddedCluster, partitions: list[TopicPartition], rounds: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    with _made("plain", cluster) as inner:
        inner.assign(partitions)
        for row, event in (("markers, tier", RouteEvent.TIER_CHOSEN), ("markers, brokers", RouteEvent.BROKER_CHOSEN)):
            flows = _flows(partitions, event)
            look = partial(PassedMarkers(flows, DeliveryQueue(None), inner.position, None).look, [])
            for _ in range(rounds):
                for kind, call in (("plain", partial(_look_at_each, flows, inner)), ("direct", look)):
                    began = time.thread_time()
                    for _ in range(_LOOKS):
                        call()
                    cost = (time.thread_time() - began) / _LOOKS * 1e6
                    found.setdefault(row, {}).setdefault(kind, []).append(cost)
    return found


def _flows(partitions: list[TopicPartition], event: RouteEvent) -> SubscriptionState:
    flows, lock = SubscriptionState(), threading.RLock()
    for tp in partitions:
        flow = PartitionFlow(tp.topic, tp.partition, 0)
        flow.change_route(event)
        if event is RouteEvent.TIER_CHOSEN:
            reader: Any = _IdleReader(lock)
            flow.reader = reader
        flows.add(flow)
    return flows


def _look_at_each(flows: SubscriptionState, inner: confluent_kafka.Consumer) -> None:
    """The previous implementation: asks each reader, and creates an object for each partition."""
    for flow in flows:
        flow.pass_over()
    asked = [flow.bare for flow in flows if flow.delivered_by_broker]
    for tp in inner.position(asked) if asked else ():
        flow = flows.get(tp.topic, tp.partition)
        assert flow is not None
        flow.inner_stands_at(tp)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=1_000, help="calls a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    needed = options.calls * options.rounds + 100
    topics = -(-options.partitions // _TOPIC_PARTITIONS)
    wide = [TopicPartition(f"wide-{topic}", number, 0) for topic in range(topics) for number in range(_TOPIC_PARTITIONS)]
    with tempfile.TemporaryDirectory() as directory, small_cluster(Path(directory)) as cluster:
        for tp in wide:
            cluster.produce(tp.topic, [(None, b"value")] * (needed // len(wide) + 1), partition=tp.partition)
        cluster.produce("long", [(None, b"value")] * needed)
        costs = _run(cluster, wide, consume_one, options.calls, options.rounds)
        costs |= _run(cluster, [TopicPartition("long", 0, 0)], position_of_each, options.calls, options.rounds)
        costs |= _run_beside_a_silent_shim(cluster, options.rounds)
        costs |= _run_markers(cluster, wide, options.rounds)
    rows = []
    for row, of in costs.items():
        plain, direct = statistics.median(of["plain"]), statistics.median(of["direct"])
        rows.append({"row": row, "plain_us": plain, "direct_us": direct, "ratio": direct / plain, "more_us": direct - plain})
        print(f"{row:26} plain {plain:8.1f} us  direct {direct:8.1f} us  ratio {direct / plain:6.2f}", file=sys.stderr)
    json.dump({"machine": machine("confluent-kafka"), "options": vars(options), "rows": rows}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
