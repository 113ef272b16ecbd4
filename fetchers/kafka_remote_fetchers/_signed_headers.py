"""The headers that a signed location asks for, as far as it may. Pure.

References: KIP-1254 "Authentication", promise S18.
"""

from __future__ import annotations

import re

from kafka_remote_client.errors import ForbiddenLocationError
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_fetchers._allow_list import StoreTarget
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._range_client import quoted_etag, range_header

__all__ = ["signed_headers"]

_MAX_HEADERS = 32
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]{0,4094}[!-~])?", re.ASCII)
_SIGNED_HEADER = re.compile(r"if-match|x-(?:amz|goog|ms)-[a-z0-9-]{1,64}", re.ASCII)


def signed_headers(location: LocationMetadata, target: StoreTarget, wanted: WantedRange) -> dict[str, str]:
    """All headers but Host and Range. Raises ForbiddenLocationError for a signed header that is not of a store's kind."""
    headers: dict[str, str] = {}
    if len(location.signed_headers) > _MAX_HEADERS:
        raise ForbiddenLocationError("the location has too many signed headers")
    for name, value in location.signed_headers:
        lower = name.lower()
        if lower == "host" and value.lower() in target.host_headers:
            continue
        if lower == "range" and value == range_header(wanted):
            continue
        if lower in headers or not _SIGNED_HEADER.fullmatch(lower) or not _HEADER_VALUE.fullmatch(value):
            raise ForbiddenLocationError("the location has a signed header that is not allowed")
        headers[lower] = value
    if location.etag is not None:
        headers.setdefault("if-match", quoted_etag(location.etag))
    return headers
