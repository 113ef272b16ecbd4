"""Reads a topic from the beginning with one kind of consumer and prints what it took, as one JSON object.

A process of its own per measurement: nothing that an earlier one warmed, and its own CPU time. The task comes on
standard input::

    {"side": "broker" | "direct" | "disabled", "api": "consume" | "poll" | "starts", "config": {...}, "topic": …,
     "partitions": 1, "records": …, "record_bytes": …, "seconds": …, "fill_seconds": 0}

The clock runs from ``assign`` to the last record wanted, the user's loop over ``.value()`` included; CPU time is the process's
in between. "first_seconds" is the time to the first record, which is asked for alone: ``consume(500)`` would wait for more of
them. "positions" are the offsets behind what was taken, by partition. The loop does nothing else, so that the consumer is
measured and not the loop: whether all values came is seen by their bytes afterwards. After ``seconds`` the reading stops early;
rates then count what was read. With ``fill_seconds`` the consumer has so long to fill its queue before the clock runs.

"starts" reads until each partition has given a record, and adds "started_seconds": the time to each one's first record, in
rising order, without those that gave none.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import confluent_kafka

__all__: list[str] = []

_MESSAGES = 500


def _consume(consumer: confluent_kafka.Consumer, records: int, until: float) -> tuple[int, int]:
    count = size = 0
    while count < records and time.perf_counter() < until:
        # consume() waits out its time for a last partial batch, so ask for no more than there is.
        messages = consumer.consume(min(_MESSAGES, records - count), 1.0)
        for message in messages:
            size += len(message.value())
        count += len(messages)
    return count, size


def _poll(consumer: confluent_kafka.Consumer, records: int, until: float) -> tuple[int, int]:
    count = size = 0
    while count < records and time.perf_counter() < until:
        for _ in range(min(_MESSAGES, records - count)):
            message = consumer.poll(1.0)
            if message is None:
                break
            size += len(message.value())
            count += 1
    return count, size


def _first(consumer: confluent_kafka.Consumer, until: float) -> tuple[int, int]:
    while time.perf_counter() < until:
        for message in consumer.consume(1, min(1.0, max(0.0, until - time.perf_counter()))):
            return 1, len(message.value())
    return 0, 0


def _starts(consumer: confluent_kafka.Consumer, partitions: int, until: float) -> tuple[int, int, list[float]]:
    started: dict[int | None, float] = {}
    count = size = 0
    while len(started) < partitions and (now := time.perf_counter()) < until:
        for message in consumer.consume(_MESSAGES, min(0.01, until - now)):
            size += len(message.value())
            count += 1
            if message.partition() not in started:
                started[message.partition()] = time.perf_counter()
    return count, size, sorted(started.values())


def _consumer(side: str, config: dict[str, Any]) -> confluent_kafka.Consumer:
    if side == "broker":
        return confluent_kafka.Consumer(config)
    from kafka_remote_client import Consumer

    return Consumer(config)


def main() -> None:
    task = json.load(sys.stdin)
    consumer = _consumer(task["side"], task["config"])
    partitions = [confluent_kafka.TopicPartition(task["topic"], number, 0) for number in range(task["partitions"])]
    if task["fill_seconds"]:
        consumer.assign(partitions)
        time.sleep(task["fill_seconds"])
    used_before = time.process_time()
    started = time.perf_counter()
    if not task["fill_seconds"]:
        consumer.assign(partitions)
    until = started + task["seconds"]
    starts: list[float] = []
    if task["api"] == "starts":
        records, size, starts = _starts(consumer, len(partitions), until)
        first_seconds = min(starts, default=until) - started
    else:
        first, first_size = _first(consumer, until)
        first_seconds = time.perf_counter() - started
        read = {"consume": _consume, "poll": _poll}[task["api"]]
        records, size = read(consumer, task["records"] - first, until)
        records, size = records + first, size + first_size
    seconds = time.perf_counter() - started
    cpu_seconds = time.process_time() - used_before
    used = resource.getrusage(resource.RUSAGE_SELF)
    if size != records * task["record_bytes"]:
        raise ValueError(f"{records} records with {size} bytes of values: some were errors")
    metrics = getattr(consumer, "metrics", dict)()
    positions = [max(0, one.offset) for one in consumer.position(partitions)]
    consumer.close()
    done = {"records": records, "value_bytes": size, "seconds": seconds, "max_rss_mib": used.ru_maxrss / 1024}
    more = {"first_seconds": first_seconds, "positions": positions, "cpu_seconds": cpu_seconds, "metrics": metrics}
    print(json.dumps({**done, **more, "started_seconds": [start - started for start in starts]}))


if __name__ == "__main__":
    main()
