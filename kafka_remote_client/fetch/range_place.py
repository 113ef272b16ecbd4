"""Where a range lies, as far as it may be told: the host that its health is counted by, and the context of its errors. Pure.

Of a URL that is the host and the path. Its query holds the signature, so it is never part of an error.
"""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import unquote, urlsplit

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import GrantedRange, SegmentLocation, uuid_to_text

__all__ = ["located", "store_host"]

_E = TypeVar("_E", bound=DirectFetchError)


def located(error: _E, location: SegmentLocation, granted: GrantedRange) -> _E:
    """The error, with the context that the range's location tells. Of a URL that is the host and nothing else."""
    segment = location.metadata.remote_log_segment_id
    partition = segment.topic_id_partition
    return error.with_context(
        topic=partition.topic,
        partition=partition.partition,
        segment_id=uuid_to_text(segment.id),
        object_key=_object_key(granted),
        host=store_host(granted),
        byte_range=(granted.range.start, granted.range.end),
    )


def store_host(granted: GrantedRange) -> str:
    """The host that health is counted by: the URL's authority, or "store" for locations without a URL."""
    try:
        url = LocationMetadata.decode(granted.custom_metadata).url
        return urlsplit(url).netloc.rpartition("@")[2] if url else "store"
    except (DirectFetchError, ValueError):
        return "store"


def _object_key(granted: GrantedRange) -> str | None:
    """The key of the location, or the path of its URL: the query, which holds the signature, is left out."""
    try:
        location = LocationMetadata.decode(granted.custom_metadata)
        return location.object_key or (unquote(urlsplit(location.url).path).lstrip("/") if location.url else None)
    except (DirectFetchError, ValueError):
        return None
