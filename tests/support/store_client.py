"""A presigned fetcher for tests on loopback, and reads through it."""

from __future__ import annotations

from pathlib import Path

from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_client.testing import ScriptedOrigin, read_all, segment_metadata

__all__ = ["CERTIFICATES", "DATA", "KEY", "fetch", "open_range", "presigned_fetcher", "url_metadata"]

KEY = "topic/segment.log"
CERTIFICATES = Path(__file__).parents[1] / "fetchers" / "tls"
DATA = bytes(range(256)) * 1024


def presigned_fetcher(*authorities: str, **options: object) -> PresignedFetcher:
    """Configured for plain http on those places. ``options``: constructor arguments, or settings under their dotted names."""
    arguments = {name: options.pop(name) for name in ("clock", "resolver") if name in options}
    fetcher = PresignedFetcher(**arguments)
    fetcher.configure(
        {
            "remote.storage.fetcher.allowed.hosts": ",".join(authorities),
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
            "remote.storage.fetcher.ssl.ca.location": str(CERTIFICATES / "ca.pem"),
            **options,
        }
    )
    return fetcher


def url_metadata(origin: ScriptedOrigin, key: str = KEY) -> bytes:
    """Custom metadata with a URL of that origin."""
    return LocationMetadata(url=origin.url_for(key)).encode()


def open_range(fetcher: PresignedFetcher, origin: ScriptedOrigin, start: int = 0, end: int = 1000) -> ReadableStream:
    return fetcher.fetch_log_segment(segment_metadata(url_metadata(origin)), start, end)


def fetch(fetcher: PresignedFetcher, origin: ScriptedOrigin, start: int = 0, end: int = 1000) -> bytes:
    """The whole range."""
    return read_all(open_range(fetcher, origin, start, end))
