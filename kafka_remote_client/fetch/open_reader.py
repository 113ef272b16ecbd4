"""A bounded reader from a client's settings: the tiered records of one partition, with a separate engine.

It is for a tool or a task with one bounded read. It reads only the tier: at the tier's end, the
reader's ``end`` has the reason, and the offset at which a consumer continues.

References: docs/sources.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.assemble import required_engine
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.metrics import FetchMetrics

__all__ = ["open_reader"]


@contextmanager
def open_reader(
    config: Mapping[str, object],
    topic: str,
    partition: int,
    start_offset: int = OFFSET_BEGINNING,
    end_offset: int | None = None,
    *,
    metrics: FetchMetrics | None = None,
    clock: Clock | None = None,
) -> Iterator[RemoteReader]:
    """Reads the tiered part of ``[start_offset, end_offset)``; leaving the context stops everything that this started.

    ``config``: as a Consumer's, without the need for ``fetch.remote.enabled``. ``isolation.level`` applies, groups and offset
    resets do not. ``metrics``: the object that counts, under the names of docs/metrics.md.

    Raises ConfigurationError for invalid settings, for bounds that are no offsets or in the wrong order, and where direct fetch
    cannot work with these settings.
    """
    remote, inner = split_config(config)
    used = clock or SystemClock()
    level = arguments.isolation_level(inner.get("isolation.level", "read_committed"), "isolation.level")  # type: ignore[arg-type] # checked there
    first, stop = arguments.bounds(start_offset, end_offset, lowest=OFFSET_BEGINNING)
    if first is None or first == OFFSET_END:
        raise ConfigurationError("start_offset must be an offset or OFFSET_BEGINNING")
    engine = required_engine(attrs.evolve(remote, enabled=True), inner, used, metrics or FetchMetrics(used))
    try:
        yield engine.reader(ReadRequest(topic, partition, first, end_offset=stop, isolation_level=level))
    finally:
        engine.close()
