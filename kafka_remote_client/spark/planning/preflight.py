"""The driver's test before any task starts: one location and one byte, so that a mistake is found once and early.

::

    request                            | cause of a failure
    the bounds of the tiers            | nothing listens, or answers, at fetch.remote.bootstrap.servers
    one location of a tiered offset    | the peer is a broker, or a shim that grants nothing; no right to read the topic
    the first byte that it names       | allowed.hosts or allow.http are wrong; the store is unreachable, or denies access

A success does not cover other partitions, brokers and hosts, nor the network of the executors.

References: docs/spark.md.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import (
    Action,
    DirectFetchError,
    InvalidStorageResponseError,
    LocationNotGrantedError,
    RemoteStorageError,
)
from kafka_remote_client.fetch.range_place import located
from kafka_remote_client.fetch.range_sizes import MIN_RANGE_BYTES
from kafka_remote_client.fetch.storage_formats import fetcher_for
from kafka_remote_client.location.source import LocationSource, locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.plugin import RemoteStorageFetcher
from kafka_remote_client.scanning.splits import OffsetRange
from kafka_remote_client.spark.planning.segment_probes import TierOffsets

__all__ = ["ATTEMPTS", "preflight", "unanswered"]

ATTEMPTS = 3
"""How often to request a byte, if the error permits a retry."""
_PAUSE_SECONDS = 0.2


def preflight(
    source: LocationSource,
    fetcher: RemoteStorageFetcher,
    ranges: Sequence[OffsetRange],
    offsets: TierOffsets,
    *,
    clock: Clock,
    timeout: float,
) -> DirectFetchError | None:
    """Returns why the tier of ``ranges`` cannot be read; ``None`` if it can, or if no tiered range is known.

    ``offsets``: the source's bounds of their tiers. ``timeout``: of one location, in seconds.
    """
    tiered = next((found for found in ranges if _is_tiered(found, offsets[found.topic_partition])), None)
    if tiered is None:
        return None
    topic, partition = tiered.topic_partition
    question = LocationQuestion(
        topic=topic,
        partition=partition,
        offset=tiered.start,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        max_bytes=MIN_RANGE_BYTES,
    )
    left = ATTEMPTS
    while True:
        left -= 1
        try:
            location = locate_one(source, question, Deadline(clock, timeout))
            if isinstance(location, NotRemote):
                if location.reason == LocationNotGrantedError.cause:
                    raise LocationNotGrantedError(*tiered.topic_partition, tiered.start)
                return location.error
            _read_a_byte(fetcher, location)
        except DirectFetchError as error:
            if not left or error.action not in {Action.RETRY, Action.RELOCATE}:
                return error
        else:
            return None
        clock.wait(threading.Event(), _PAUSE_SECONDS)


def unanswered(offsets: TierOffsets) -> DirectFetchError | None:
    """Returns the error if the source has no bounds of any tier; else ``None``."""
    errors = [error for error in offsets.values() if isinstance(error, DirectFetchError)]
    return errors[0] if errors and len(errors) == len(offsets) else None


def _is_tiered(found: OffsetRange, offsets: PartitionOffsets | DirectFetchError) -> bool:
    """Whether the range begins in the tier; unknown ranges are not tested."""
    return found.start < found.end and isinstance(offsets, PartitionOffsets) and found.start <= offsets.latest_tiered


def _read_a_byte(fetcher: RemoteStorageFetcher, location: SegmentLocation) -> None:
    """Raises RemoteStorageError kinds, with the host."""
    granted = location.ranges[0]
    try:
        reading = fetcher_for(fetcher, location)
        stream = reading.fetch_log_segment(location.metadata_for(granted), granted.range.start, granted.range.end)
        try:
            if stream.readinto(bytearray(1)) != 1:
                raise InvalidStorageResponseError(f"the store sent nothing of {granted.range}")
        finally:
            stream.close()
    except RemoteStorageError as error:
        located(error, location, granted)
        raise
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and its text may hold a URL
        kind = type(error).__name__
    else:
        return
    raise located(RemoteStorageError(f"the fetcher raised {kind} for bytes {granted.range}"), location, granted)
