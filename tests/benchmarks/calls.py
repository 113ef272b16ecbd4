"""What one call costs the application's thread beside confluent-kafka's, on topics that lie on the brokers alone.

Both consumers read the same records of one embedded cluster, in turns within one run. A call costs the processor time of the
thread that makes it, the median of the rounds. Prints a table on standard error and JSON on standard output.

=====================  =======================================================================================================
row                    is
=====================  =======================================================================================================
``consume_one``        ``consume(1)`` where 1,000 partitions are assigned
``position``           ``position()`` of the partition after each ``poll()``; the ``poll()`` is not counted
``poll_with_position``  both of them
=====================  =======================================================================================================
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import confluent_kafka
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.embedded import EmbeddedCluster
from tests.benchmarks.running import machine
from tests.support.embedded_topics import direct_settings, plain_settings, small_cluster

__all__: list[str] = []

_TOPIC_PARTITIONS = 4
"""As many as the mock broker gives a topic."""
_PATIENCE_SECONDS = 60.0

Measure = Callable[[confluent_kafka.Consumer, int], dict[str, float]]
"""Makes so many calls; gives each row's processor time in microseconds a call."""


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


@contextmanager
def _assigned(kind: str, cluster: EmbeddedCluster, partitions: list[TopicPartition]) -> Iterator[confluent_kafka.Consumer]:
    named = {"group_id": f"group-{uuid4()}", "enable_partition_eof": False}
    consumer: confluent_kafka.Consumer
    if kind == "direct":
        consumer = Consumer(direct_settings(cluster, **named))
    else:
        consumer = confluent_kafka.Consumer(plain_settings(cluster, **named))
    try:
        consumer.assign(partitions)
        _fill_queue(consumer)
        yield consumer
    finally:
        consumer.close()


def _fill_queue(consumer: confluent_kafka.Consumer) -> None:
    """Waits for a first record, and then for librdkafka to have fetched what there is."""
    deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
    while not consumer.consume(1, 0.1):
        assert not deadline.expired(), "nothing came"
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
    rows = []
    for row, of in costs.items():
        plain, direct = statistics.median(of["plain"]), statistics.median(of["direct"])
        rows.append({"row": row, "plain_us": plain, "direct_us": direct, "ratio": direct / plain, "more_us": direct - plain})
        print(f"{row:20} plain {plain:8.1f} us  direct {direct:8.1f} us  ratio {direct / plain:6.2f}", file=sys.stderr)
    json.dump({"machine": machine("confluent-kafka"), "options": vars(options), "rows": rows}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
