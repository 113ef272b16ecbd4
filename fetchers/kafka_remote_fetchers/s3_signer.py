"""Signs GETs of S3 objects with boto3: for the shim's grants, and for the fetcher ``s3`` itself.

::

    https://bucket.s3.region.amazonaws.com/key?X-Amz-…&X-Amz-SignedHeaders=host;if-match;range&X-Amz-Signature=…

Signature version 4 as query parameters. Range is among the signed headers, and If-Match where the version is known: the URL
opens those bytes of that version and nothing else. Signing needs no request, unless credentials have to be fetched first.

References: AWS "Authenticating Requests: Using Query Parameters", KIP-1254 "Authentication".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.safe_open import check_object_key
from kafka_remote_fetchers._range_client import quoted_etag
from kafka_remote_fetchers._s3_client import S3_SETTINGS, S3Client, S3Clients, S3Settings
from kafka_remote_fetchers._s3_errors import s3_guarded
from kafka_remote_fetchers._store_url import StoreUrl

__all__ = ["S3Signer", "signed_get"]


def signed_get(
    client: S3Client, bucket: str, name: str, byte_range: str, *, ttl_seconds: float, etag: str | None = None
) -> SignedUrl:
    """A GET of one range. ``byte_range``: the value of its Range header. Raises RemoteStorageError kinds."""
    parameters = {"Bucket": bucket, "Key": name, "Range": byte_range}
    headers: tuple[tuple[str, str], ...] = ()
    if etag is not None:
        headers = (("if-match", quoted_etag(etag)),)
        parameters["IfMatch"] = headers[0][1]
    life = s3_guarded(client.host, client.life, ttl_seconds)
    url = s3_guarded(
        client.host,
        client.boto.generate_presigned_url,
        "get_object",
        Params=parameters,
        ExpiresIn=max(1, math.ceil(life)),
    )
    return SignedUrl(url, headers, life)


class S3Signer:
    """The signer of ``s3://BUCKET/PREFIX``. Options: :mod:`kafka_remote_fetchers._s3_client`."""

    binds_ranges = True

    settings: ClassVar[frozenset[str]] = S3_SETTINGS

    def __init__(self, url: str, options: Mapping[str, object] | None = None, clock: Clock | None = None) -> None:
        """Raises ConfigurationError for a URL or an option that cannot be."""
        self._location = StoreUrl.parse(url, "s3")
        self._clients = S3Clients(S3Settings.parse(options or {}), clock or SystemClock())

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        check_object_key(object_key)
        arguments.duration(ttl_seconds, "ttl_seconds")
        wanted = f"bytes={byte_range.start}-{byte_range.end - 1}"
        name = self._location.name(object_key)
        client = self._clients.to_sign_with()
        return signed_get(client, self._location.bucket, name, wanted, ttl_seconds=ttl_seconds, etag=etag)

    def __repr__(self) -> str:
        return f"S3Signer({self._location.bucket!r})"
