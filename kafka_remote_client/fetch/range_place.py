"""The place of a range without secrets: the host for its health, and the context of its errors. Pure.

For a URL that is the host and the path. Its query has the signature, so it is never part of an error.
"""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import unquote, urlsplit

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import GrantedRange, SegmentLocation, uuid_to_text

__all__ = ["UNNAMED_HOST", "located", "store_host"]

UNNAMED_HOST = "store"
"""The host of locations without a URL."""

_E = TypeVar("_E", bound=DirectFetchError)


def located(error: _E, location: SegmentLocation, granted: GrantedRange) -> _E:
    """Returns the error with the context of the range's location. For a URL that is only the host."""
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
    """Returns the host for the health: the URL's authority, or UNNAMED_HOST for locations without a URL."""
    try:
        url = LocationMetadata.decode(granted.custom_metadata).url
        return urlsplit(url).netloc.rpartition("@")[2] if url else UNNAMED_HOST
    except (DirectFetchError, ValueError):
        return UNNAMED_HOST


def _object_key(granted: GrantedRange) -> str | None:
    """Returns the key of the location, or the path of its URL without the query, which has the signature."""
    try:
        location = LocationMetadata.decode(granted.custom_metadata)
        return location.object_key or (unquote(urlsplit(location.url).path).lstrip("/") if location.url else None)
    except (DirectFetchError, ValueError):
        return None
