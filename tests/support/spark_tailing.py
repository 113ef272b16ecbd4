"""Jobs of :class:`tests.support.spark.SparkDriver` for one stream that goes on between them: begin, advance, end."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer

__all__ = ["CLIENT_ID", "advance", "begin", "end"]

CLIENT_ID = "tailing-producer"
"""Of the producer, which is no part of the stream."""
_EACH = 5
_running: list[Any] = []
_rows: list[int] = []
"""The number of rows of each micro-batch."""


def begin(spark: Any, options: dict[str, str], checkpoint: str) -> Any:
    """Starts the stream, and waits until it has read what there is. Returns the rows of each batch."""

    def count(frame: Any, _number: int) -> None:
        _rows.append(frame.count())

    read = spark.readStream.format("kafka-remote").options(**options).load()
    _running.append(read.writeStream.foreachBatch(count).option("checkpointLocation", checkpoint).start())
    return _read()


def advance(spark: Any, bootstrap_servers: str, topic: str, times: int, seconds: float = 0.0) -> Any:
    """Produces ten records to two partitions and waits until they are read, several times, and for ``seconds`` or longer.

    Returns the rows of each batch.
    """
    producer = Producer({"bootstrap.servers": bootstrap_servers, "client.id": CLIENT_ID, "log_level": 0})
    until, found = time.monotonic() + seconds, list[int]()
    for left in reversed(range(times)):
        for partition in (0, 1):
            for _ in range(_EACH):
                producer.produce(topic, b"v", partition=partition)
        assert producer.flush(60) == 0, "the broker did not take all records"
        found += _read()
        time.sleep(max(0.0, until - time.monotonic()) / (left + 1))
    return found


def end(spark: Any) -> Any:
    """Stops the stream."""
    _running.pop().stop()


def _read() -> list[int]:
    _running[-1].processAllAvailable()
    found = list(_rows)
    _rows.clear()
    return found
