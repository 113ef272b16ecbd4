"""Signs GETs of GCS objects with google-cloud-storage, for the shim's grants: ``gs://BUCKET/PREFIX``.

::

    https://storage.googleapis.com/bucket/key?X-Goog-…&X-Goog-SignedHeaders=host;if-match;range&X-Goog-Signature=…

Version 4. Range is among the signed headers, and If-Match where the version is known. A service account's key signs here;
a machine's own credentials have Google sign each URL (iam.serviceAccounts.signBlob), which is a request each.

Options, declared in :mod:`kafka_remote_fetchers._settings`: ``gcs.service.account.file`` signs, URLs lead to
``gcs.endpoint.url``.

References: Google Cloud "V4 signing process", KIP-1254 "Authentication".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import google.auth
from google.auth.credentials import Signing
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from google.oauth2 import service_account

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError, RemoteStorageAccessError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.safe_open import check_object_key
from kafka_remote_fetchers._range_client import quoted_etag
from kafka_remote_fetchers._settings import fetcher_settings, text_setting
from kafka_remote_fetchers._store_url import StoreUrl

__all__ = ["GcsSigner"]

_T = TypeVar("_T")
_ENDPOINT = "https://storage.googleapis.com"
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_only",)


class GcsSigner:
    """The signer of ``gs://``."""

    binds_ranges = True

    settings: ClassVar[frozenset[str]] = fetcher_settings("gcs.endpoint.url", "gcs.service.account.file")

    def __init__(self, url: str, options: Mapping[str, object] | None = None) -> None:
        """Raises ConfigurationError for a URL or option that cannot be, and for credentials that cannot sign."""
        self._location = StoreUrl.parse(url, "gs")
        self._endpoint = (text_setting(options or {}, "gcs.endpoint.url") or _ENDPOINT).rstrip("/")
        file = text_setting(options or {}, "gcs.service.account.file")
        credentials = _quietly(_credentials, file)
        if not isinstance(credentials, Signing):
            raise ConfigurationError("signing GCS URLs needs a service account: gcs.service.account.file")
        self._bucket = storage.Client(project="-", credentials=credentials).bucket(self._location.bucket)

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        check_object_key(object_key)
        arguments.duration(ttl_seconds, "ttl_seconds")
        headers = () if etag is None else (("if-match", quoted_etag(etag)),)
        blob = self._bucket.blob(self._location.name(object_key))
        bound = {"range": f"bytes={byte_range.start}-{byte_range.end - 1}", **dict(headers)}
        return SignedUrl(self._signed(blob, bound, ttl_seconds), headers)

    def _signed(self, blob: Any, headers: dict[str, str], ttl_seconds: float) -> str:
        life = timedelta(seconds=max(1, round(ttl_seconds)))
        try:
            return str(
                blob.generate_signed_url(
                    version="v4", expiration=life, method="GET", headers=headers, api_access_endpoint=self._endpoint
                )
            )
        except GoogleAuthError as error:
            kind = type(error).__name__
        raise RemoteStorageAccessError(f"gs://{self._location.bucket}: signing failed ({kind})")

    def __repr__(self) -> str:
        return f"GcsSigner({self._location.bucket!r})"


def _credentials(file: str | None) -> Any:
    if file is not None:
        return service_account.Credentials.from_service_account_file(file, scopes=_SCOPES)  # type: ignore[no-untyped-call] # google-auth's
    return google.auth.default(scopes=_SCOPES)[0]


def _quietly(load: Callable[[str | None], _T], file: str | None) -> _T:
    """What ``load`` gives; its errors repeat what the file holds."""
    try:
        return load(file)
    except (GoogleAuthError, OSError, ValueError) as error:
        kind = type(error).__name__
    what = "Google's application default credentials" if file is None else "gcs.service.account.file"
    raise ConfigurationError(f"{what} failed to load ({kind})")
