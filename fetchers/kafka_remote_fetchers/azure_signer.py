"""Signs GETs of Azure blobs with azure-storage-blob, for the shim's grants: ``az://CONTAINER/PREFIX``.

::

    https://account.blob.core.windows.net/container/key?se=…&sp=r&spr=https&sv=…&sr=b&sig=…

A shared access signature of one blob, to read it, until ``se``. With an endpoint of https, ``spr=https`` makes the store refuse
it over plain http. It cannot be bound to a range or a version: the URL opens the whole blob. A shim grants such URLs only where
that is permitted (``--whole-object-urls``). If-Match goes along unsigned.

Options, declared in :mod:`kafka_remote_fetchers._settings`: ``azure.account.name``, and
``azure.endpoint.url``, where URLs lead, with the account's name where that is part of the path.

The account's key comes from the environment: AZURE_STORAGE_ACCOUNT_KEY. It signs here, without a request. Without it, the
identity that azure-identity finds gets a user delegation key, about once a day (_azure_delegation.py).

References: Azure "Create a service SAS", "Create a user delegation SAS", KIP-1254 "Authentication".
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar
from urllib.parse import quote

from azure.core.credentials import TokenCredential
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobSasPermissions, generate_blob_sas

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.safe_open import check_object_key
from kafka_remote_fetchers._azure_delegation import DelegationKeys
from kafka_remote_fetchers._range_client import quoted_etag
from kafka_remote_fetchers._settings import bool_setting, fetcher_settings, text_setting
from kafka_remote_fetchers._store_url import StoreUrl

__all__ = ["AzureSigner"]


class AzureSigner:
    """The signer of ``az://``. ``clock`` and ``credential`` are for tests."""

    binds_ranges = False

    settings: ClassVar[frozenset[str]] = fetcher_settings("azure.account.name", "azure.endpoint.url", "allow.http")

    def __init__(
        self,
        url: str,
        options: Mapping[str, object] | None = None,
        clock: Clock | None = None,
        credential: TokenCredential | None = None,
    ) -> None:
        """Raises ConfigurationError for a URL or option that cannot be, and for an account that is not told."""
        options = options or {}
        self._location = StoreUrl.parse(url, "az")
        self._clock = clock or SystemClock()
        self._account = text_setting(options, "azure.account.name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        self._key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY", "")
        if not self._account:
            raise ConfigurationError("signing Azure URLs needs azure.account.name")
        endpoint = text_setting(options, "azure.endpoint.url") or f"https://{self._account}.blob.core.windows.net"
        if not endpoint.startswith("https://") and not bool_setting(options, "allow.http"):
            raise ConfigurationError(
                "azure.endpoint.url is plain http; set remote.storage.fetcher.allow.http=true to permit it"
            )
        self._endpoint = endpoint.rstrip("/")
        self._protocol = "https" if endpoint.startswith("https://") else None
        self._delegation: DelegationKeys | None = None
        if not self._key:
            if self._protocol is None:
                raise ConfigurationError(
                    "signing Azure URLs of a plain http endpoint needs the environment variable AZURE_STORAGE_ACCOUNT_KEY"
                )
            self._delegation = DelegationKeys(self._endpoint, credential or DefaultAzureCredential(), self._clock)

    def sign(
        self,
        object_key: str,
        byte_range: ByteRange,
        ttl_seconds: float,
        etag: str | None = None,
    ) -> SignedUrl:
        """As :class:`~kafka_remote_client.plugin.ObjectSigner`. Raises as :meth:`DelegationKeys.until` too."""
        check_object_key(object_key)
        arguments.duration(ttl_seconds, "ttl_seconds")
        name = self._location.name(object_key)
        # Whole seconds count; no start, so that clocks may differ
        expiry = datetime.fromtimestamp(self._clock.time_ms() / 1000, UTC) + timedelta(seconds=ttl_seconds)
        by_identity = None if self._delegation is None else self._delegation.until(expiry)
        try:
            signature = generate_blob_sas(
                self._account,
                self._location.bucket,
                name,
                account_key=self._key or None,
                user_delegation_key=by_identity,
                permission=BlobSasPermissions(read=True),
                expiry=expiry,
                protocol=self._protocol,
            )
        except (binascii.Error, ValueError):
            signature = None
        if signature is None:
            raise ConfigurationError("AZURE_STORAGE_ACCOUNT_KEY is not a valid key")
        headers = () if etag is None else (("if-match", quoted_etag(etag)),)
        return SignedUrl(f"{self._endpoint}/{self._location.bucket}/{quote(name, safe='/')}?{signature}", headers)

    def __repr__(self) -> str:
        return f"AzureSigner({self._location.bucket!r})"
