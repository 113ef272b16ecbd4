"""Maps errors of boto3 to the kinds of errors.py. Texts of boto3 are left out: they repeat URLs, and S3 repeats signatures.

::

    boto3                                                 | error
    an answer of the store (ClientError)                  | by status and code, as every store's (kafka_remote_fetchers._http)
    no credentials, or the provider fails; what it gives  | RemoteStorageAccessError
    has expired, or is invalid (RuntimeError, ValueError) |
    connecting or reading takes too long                  | RemoteStorageTimeoutError
    connection refused, cut, short                        | RemoteStorageUnavailableError
    certificate refused, TLS with a port without it       | RemoteStorageError
    anything else                                         | RemoteStorageError
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, ParamSpec, TypeVar

from botocore import exceptions as boto
from urllib3.exceptions import HTTPError

from kafka_remote_client.errors import (
    DirectFetchError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_fetchers._http import BUCKET_REGION, ELSEWHERE_CODES, ErrorDocument, classify
from kafka_remote_fetchers._transport_errors import tls_failure

__all__ = ["refuse_redirects", "s3_error", "s3_guarded"]

P = ParamSpec("P")
T = TypeVar("T")

_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.SSOError,
    boto.NoAuthTokenError,
    boto.MetadataRetrievalError,
)
_REDIRECTS = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT})
_TIMEOUTS = (boto.ConnectTimeoutError, boto.ReadTimeoutError)
_CUT = (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError, boto.ResponseStreamingError, HTTPError, OSError)


def s3_guarded(host: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's result; what boto3 raises becomes a RemoteStorageError that names ``host``.

    Raised outside of the handler, so that not even ``__context__`` leads to boto3's text.
    """
    try:
        return call(*args, **kwargs)
    except DirectFetchError:  # also ConfigurationError, which is a ValueError
        raise
    except (boto.BotoCoreError, boto.ClientError, HTTPError, OSError, RuntimeError, ValueError) as error:
        failure = s3_error(error, host)
    raise failure


def refuse_redirects(response: tuple[Any, Mapping[str, Any]] | None = None, operation: Any = None, **_: object) -> None:
    """A handler of boto3's event ``needs-retry``: raises ClientError where boto3 would repeat the request in another region.

    boto3 does not sign URLs for that other region, so ranges and the shim's URLs fail where listings would succeed.
    """
    if response is None:
        return
    answer, parsed = response
    if answer.status_code in _REDIRECTS or parsed.get("Error", {}).get("Code") in ELSEWHERE_CODES:
        raise boto.ClientError(parsed, operation.name)


def s3_error(error: Exception, host: str) -> RemoteStorageError:
    """The table above."""
    if isinstance(error, boto.ClientError):
        return _answered(error, host)
    if isinstance(error, _NO_CREDENTIALS):
        return _no_credentials(error, host)
    if isinstance(error, _TIMEOUTS):
        return RemoteStorageTimeoutError(f"{host} timed out")
    if isinstance(error, boto.SSLError):
        return tls_failure(error, host) or RemoteStorageError(
            f"cannot verify the certificate of {host}; remote.storage.fetcher.ssl.ca.location must name the CA that signed it"
        )
    if isinstance(error, _CUT):
        return RemoteStorageUnavailableError(f"cannot reach {host}, or it closed the connection ({type(error).__name__})")
    if not isinstance(error, boto.BotoCoreError):  # renewed credentials that have expired, or the text of a credential process
        return _no_credentials(error, host)
    return RemoteStorageError(f"the request to {host} failed ({type(error).__name__})")


def _no_credentials(error: Exception, host: str) -> RemoteStorageError:
    return RemoteStorageAccessError(
        f"no usable credentials for {host} ({type(error).__name__}); set them in the environment, a profile or a role"
    )


def _answered(error: boto.ClientError, host: str) -> RemoteStorageError:
    told = error.response.get("Error", {})
    answer = error.response.get("ResponseMetadata", {})
    region = f"<Region>{told.get('Region', '')}</Region>"
    document = ErrorDocument.parse(f"<Code>{told.get('Code', '')}</Code>{region}{told.get('Message', '')}".encode())
    sent = answer.get("HTTPHeaders", {})
    headers = {"Retry-After": str(sent.get("retry-after", "")), BUCKET_REGION: str(sent.get(BUCKET_REGION, ""))}
    return classify(int(answer.get("HTTPStatusCode", 0)) or 500, headers, document, host)
