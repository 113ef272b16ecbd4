"""Stores by obstore: which one a URL and its options mean, and what its errors mean.

::

    URL                       | credentials
    gs://BUCKET/PREFIX        | gcs.service.account.file, or Google's application default credentials
    az://CONTAINER/PREFIX     | the environment: AZURE_STORAGE_ACCOUNT_KEY, AZURE_CLIENT_ID …, a managed identity
    s3+obstore://BUCKET/PREFIX| the environment: AWS_ACCESS_KEY_ID …, a web identity, the machine's role

Settings: ``OBSTORE_SETTINGS``, declared in :mod:`kafka_remote_fetchers._settings`. The authorities of ``ssl.ca.location`` are
trusted beside the system's.

obstore's errors are texts that hold URLs. Of each, only the kind, the status and the store's own code are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import attrs
from obstore import exceptions as obstore
from obstore.store import AzureStore, GCSStore, S3Store

from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_fetchers._http import ACCESS_ADVICE, ErrorDocument, classify
from kafka_remote_fetchers._settings import bool_setting, fetcher_settings, text_setting
from kafka_remote_fetchers._store_url import StoreUrl

__all__ = ["OBSTORE_SETTINGS", "SCHEMES", "ConnectedStore", "connected_store", "obstore_error", "obstore_guarded"]

P = ParamSpec("P")
T = TypeVar("T")

SCHEMES = ("gs", "az", "s3+obstore", "s3")
_KEYS = {
    "gcs": ("anonymous", "endpoint.url", "service.account.file"),
    "azure": ("account.name", "anonymous", "endpoint.url"),
    "s3": ("endpoint.url", "path.style", "region"),
}
OBSTORE_SETTINGS = fetcher_settings(
    "allow.http", "ssl.ca.location", *(f"{kind}.{key}" for kind, keys in _KEYS.items() for key in keys)
)
_STATUS = re.compile(r"status code: ([0-9]{3})")
_RANGE_OF_NOTHING = '"bytes 0--1/0"'  # Content-Range of an empty blob, as Azurite has it
_NO_CREDENTIALS = re.compile(r"token request|credential|authorization", re.IGNORECASE)
_TIMED_OUT = re.compile(r"TimedOut|timed out|Timeout\b")


@attrs.frozen
class ConnectedStore:
    """An obstore store, and what is called by in messages. Keys are below ``location``'s prefix."""

    store: Any
    name: str
    location: StoreUrl


def connected_store(
    url: str, options: Mapping[str, object], *, connect_seconds: float, total_seconds: float, idle: int = 16
) -> ConnectedStore:
    """Returns the store of a URL without sending a request. ``total_seconds``: of one request, its body included.

    Raises ConfigurationError for a URL or an option that cannot be.
    """
    scheme = url.partition("://")[0]
    kind = {"gs": "gcs", "az": "azure"}.get(scheme, "s3")
    location = StoreUrl.parse(url, *SCHEMES)
    unknown = [f"{kind}.{name}" for name in _unknown(options, kind)]
    if unknown:
        raise ConfigurationError(
            f"unknown setting {unknown[0]}; known settings: {', '.join(f'{kind}.{key}' for key in _KEYS[kind])}"
        )
    client = _client_options(options, connect_seconds, total_seconds, idle)
    make = {"gcs": _gcs, "azure": _azure, "s3": _s3}[kind]
    try:
        store = make(location.bucket, options, {"client_options": client, "retry_config": {"max_retries": 0}})
    except ConfigurationError:
        raise
    except (obstore.BaseError, ValueError, OSError) as error:
        failure = type(error).__name__
    else:
        return ConnectedStore(store, f"{scheme}://{location.bucket}", location)
    raise ConfigurationError(f"obstore rejected the {scheme} settings ({failure})")


def obstore_guarded(name: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's result; what obstore raises becomes a RemoteStorageError that names the store.

    Raised outside of the handler, so that not even ``__context__`` leads to obstore's text.
    """
    try:
        return call(*args, **kwargs)
    except (obstore.BaseError, OSError, ValueError) as error:
        failure = obstore_error(error, name)
    raise failure


def obstore_error(error: Exception, name: str) -> RemoteStorageError:
    """The kind of an error of obstore's."""
    text = str(error)
    status = _STATUS.search(text)
    if status is not None:
        return classify(int(status[1]), {}, ErrorDocument.parse(text.encode(errors="replace")), name)
    if isinstance(error, FileNotFoundError):
        return classify(404, {}, ErrorDocument(), name)
    if isinstance(error, obstore.PermissionDeniedError | obstore.UnauthenticatedError):
        return RemoteStorageAccessError(f"{name} refuses the request; {ACCESS_ADVICE}")
    if "Wanted range starting at" in text or _RANGE_OF_NOTHING in text:
        return RangeNotSatisfiableError(f"the object in {name} ends before the range")
    if isinstance(error, ValueError):
        return ForbiddenLocationError(f"invalid object name in {name}")
    if _TIMED_OUT.search(text):
        return RemoteStorageTimeoutError(f"{name} timed out")
    if "HTTP error" in text or "reqwest" in text:
        return RemoteStorageUnavailableError(f"cannot reach {name}, or it closed the connection")
    if _NO_CREDENTIALS.search(text):
        return RemoteStorageAccessError(f"no usable credentials for {name}; set them in the environment, a file or a role")
    return RemoteStorageError(f"the request to {name} failed ({type(error).__name__})")


def _unknown(options: Mapping[str, object], kind: str) -> list[str]:
    own = (name.removeprefix(f"{kind}.") for name in options if name.startswith(f"{kind}."))
    return sorted(name for name in own if name not in _KEYS[kind])


def _client_options(options: Mapping[str, object], connect: float, total: float, idle: int) -> dict[str, object]:
    made: dict[str, object] = {
        "connect_timeout": timedelta(seconds=connect),
        "timeout": timedelta(seconds=total),
        "pool_max_idle_per_host": str(idle),
        "allow_http": bool_setting(options, "allow.http"),
    }
    ca_file = text_setting(options, "ssl.ca.location")
    if ca_file is not None:
        try:
            made["root_certificate"] = Path(ca_file).read_bytes()
        except OSError:
            raise ConfigurationError("ssl.ca.location cannot be read") from None
    return made


def _gcs(bucket: str, options: Mapping[str, object], more: dict[str, Any]) -> GCSStore:
    given = {
        "base_url": _endpoint(options, "gcs.endpoint.url"),
        "service_account": text_setting(options, "gcs.service.account.file"),
        "skip_signature": bool_setting(options, "gcs.anonymous") or None,
    }
    return GCSStore(bucket, config=_present(given), **more)  # type: ignore[arg-type] # obstore checks the names itself


def _azure(container: str, options: Mapping[str, object], more: dict[str, Any]) -> AzureStore:
    given = {
        "account_name": text_setting(options, "azure.account.name"),
        "endpoint": _endpoint(options, "azure.endpoint.url"),
        "skip_signature": bool_setting(options, "azure.anonymous") or None,
    }
    return AzureStore(container, config=_present(given), **more)  # type: ignore[arg-type] # as above


def _s3(bucket: str, options: Mapping[str, object], more: dict[str, Any]) -> S3Store:
    given = {
        "endpoint": _endpoint(options, "s3.endpoint.url"),
        "region": text_setting(options, "s3.region"),
        "virtual_hosted_style_request": not bool_setting(options, "s3.path.style"),
    }
    return S3Store(bucket, config=_present(given), **more)  # type: ignore[arg-type] # as above


def _endpoint(options: Mapping[str, object], name: str) -> str | None:
    url = text_setting(options, name)
    if url is not None and url.startswith("http://") and not bool_setting(options, "allow.http"):
        raise ConfigurationError(f"{name} is plain http; set remote.storage.fetcher.allow.http=true to permit it")
    return url


def _present(given: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None}
