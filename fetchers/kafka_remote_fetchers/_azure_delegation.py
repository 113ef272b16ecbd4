"""User delegation keys of Azure: what signs URLs of an account whose own key the shim does not have.

A key is signed by Azure for the identity that asks, is valid for at most seven days, and opens no more than that identity may
read. One is kept and used until a URL would outlive it, so that there is one request a day.

References: Azure "Create a user delegation SAS", "Get User Delegation Key".
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.storage.blob import BlobServiceClient, UserDelegationKey

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import RemoteStorageAccessError, RemoteStorageError, RemoteStorageUnavailableError

__all__ = ["DelegationKeys"]

_LIFE = timedelta(days=1)
_SKEW = timedelta(minutes=15)
"""A key counts from this long ago: Azure's clock may be behind."""
_REQUEST: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 10, "retry_total": 0}
"""No retry: the next look-up is one, and Azure's client would wait 15 s before it."""
_REFUSED = (401, 403)


class DelegationKeys:
    """The keys of one account, by a credential of azure-identity. Thread safe: one thread asks, the others wait for its key."""

    def __init__(self, endpoint: str, credential: Any, clock: Clock) -> None:
        self._endpoint = endpoint
        self._credential = credential
        self._clock = clock
        self._lock = threading.Lock()
        self._key: UserDelegationKey | None = None
        self._until = datetime.min.replace(tzinfo=UTC)

    def until(self, expiry: datetime) -> UserDelegationKey:
        """A key that is valid at ``expiry``, and before.

        Raises RemoteStorageAccessError if Azure refuses the identity, RemoteStorageUnavailableError if it does not answer.
        """
        with self._lock:
            if self._key is None or expiry > self._until:
                now = datetime.fromtimestamp(self._clock.time_ms() // 1000, UTC)
                until = max(now + _LIFE, expiry)
                self._key = self._ask(now - _SKEW, until)
                self._until = until
            return self._key

    def _ask(self, start: datetime, end: datetime) -> UserDelegationKey:
        try:
            with BlobServiceClient(self._endpoint, credential=self._credential, **_REQUEST) as client:
                return client.get_user_delegation_key(start, end)
        except AzureError as error:
            failed = _failure(error)
        raise failed  # without Azure's error: it has URLs


def _failure(error: AzureError) -> RemoteStorageError:
    status = error.status_code if isinstance(error, HttpResponseError) else None
    told = type(error).__name__ if status is None else f"status {status}"
    if isinstance(error, ClientAuthenticationError) or status in _REFUSED:
        return RemoteStorageAccessError(
            f"Azure refuses a user delegation key ({told}); give the identity the role Storage Blob Delegator"
        )
    return RemoteStorageUnavailableError(f"Azure gives no user delegation key ({told})")
