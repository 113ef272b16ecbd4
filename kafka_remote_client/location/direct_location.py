"""Makes a location from the resolver's result, for a reader with its own credentials. Pure except for the layout's look-ups.

Every range has the object's key, and for a chunked segment the data to restore it. Nothing expires, and a range may be
read in parts.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.model import UNKNOWN_OFFSET, AbortedTransaction, GrantedRange, SegmentLocation
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.resolver import ResolvedSegment

__all__ = ["direct_location"]


def direct_location(
    store: RemoteObjectStore,
    layout: ObjectLayout,
    found: ResolvedSegment,
    *,
    aborted: tuple[AbortedTransaction, ...] | None,
    high_watermark: int = UNKNOWN_OFFSET,
    last_stable_offset: int = UNKNOWN_OFFSET,
    log_start_offset: int = UNKNOWN_OFFSET,
    throttle_time_ms: int = 0,
) -> SegmentLocation:
    """``aborted`` is complete for the window, ``None`` if the reader needs none.

    Raises RemoteLogError and RemoteStorageError kinds.
    """
    located = found.located(store, layout)
    return SegmentLocation(
        metadata=found.metadata,
        format=located.format,
        fetch_offset=found.fetch_offset,
        ranges=tuple(
            GrantedRange(one.range, attrs.evolve(one.location, etag=found.etag).encode(), one.first_offset)
            for one in located.ranges
        ),
        next_offset=found.next_offset,
        aborted_transactions=aborted,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        throttle_time_ms=throttle_time_ms,
    )
