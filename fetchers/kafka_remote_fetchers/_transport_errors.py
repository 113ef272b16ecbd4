"""What goes wrong below HTTP, as RemoteStorageError kinds, with nothing of the request left in them.

::

    cause                                        | error
    a time-out anywhere, DNS and TLS included    | RemoteStorageTimeoutError
    no address; refused, reset, short; the       | RemoteStorageUnavailableError
    connection ends in the head or in the body   |
    certificate refused, TLS fails otherwise     | RemoteStorageError: the broker's turn, never a downgrade
    not HTTP                                     | InvalidStorageResponseError
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kafka_remote_client.errors import (
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)

__all__ = ["NameNotResolvedError", "guarded", "tls_failure", "transport_error"]

P = ParamSpec("P")
T = TypeVar("T")


_WITHOUT_TLS = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's reasons for bytes that are no TLS record."""
_UNTRUSTED = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's X509_V_ERR codes for a certificate whose CA is not known. Another CA file does not help with the others."""


class NameNotResolvedError(OSError):
    """The host name has no address. The error has no text, because the resolver's text says no more."""


def guarded(host: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's result; its transport errors become RemoteStorageErrors that name ``host``.

    They are raised outside of the handler, so that not even ``__context__`` leads to a text with the URL in it.
    """
    try:
        return call(*args, **kwargs)
    except (OSError, http.client.HTTPException, ValueError) as error:
        failure = transport_error(error, host)
    raise failure


def tls_failure(error: BaseException, host: str) -> RemoteStorageError | None:
    """The error of a handshake that failed, from a library's error; None if the CA of the store's certificate is not known.

    urllib3 may compare the names itself. Then no error of OpenSSL is behind the library's error.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return _invalid_certificate(host, "it is not valid for this host")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return None if _is_untrusted(cause) else _invalid_certificate(host, cause.verify_message)
    return _handshake_failed(cause, host)


def _is_untrusted(error: ssl.SSLCertVerificationError) -> bool:
    return error.verify_code in _UNTRUSTED


def _invalid_certificate(host: str, reason: str) -> RemoteStorageError:
    checks = "check the store's certificate, and the host in its URL"
    return RemoteStorageError(f"cannot verify the certificate of {host}: {reason.rstrip('.')}; {checks}")


def _handshake_failed(error: ssl.SSLError, host: str) -> RemoteStorageError:
    if error.reason in _WITHOUT_TLS:
        return RemoteStorageError(f"{host} does not answer with TLS; its URL must begin with http:// or name the port with TLS")
    return RemoteStorageError(f"the TLS handshake with {host} failed: {error.reason}")


def transport_error(error: Exception, host: str) -> RemoteStorageError:
    """The table above."""
    if isinstance(error, TimeoutError):
        return RemoteStorageTimeoutError(f"{host} timed out")
    if isinstance(error, NameNotResolvedError):
        return RemoteStorageUnavailableError(f"cannot resolve the host name of {host}; check the store's host and the DNS")
    if isinstance(error, ssl.SSLCertVerificationError):
        if not _is_untrusted(error):
            return _invalid_certificate(host, error.verify_message)
        return RemoteStorageError(
            f"cannot verify the certificate of {host} ({error.verify_message}); "
            "remote.storage.fetcher.ssl.ca.location must name the CA that signed it"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _handshake_failed(error, host)
    if isinstance(error, http.client.IncompleteRead | ConnectionResetError | BrokenPipeError | ssl.SSLError):
        return RemoteStorageUnavailableError(f"{host} closed the connection before the end of its answer")
    if isinstance(error, OSError):
        why = "the connection was cut" if error.errno is None else os.strerror(error.errno).lower()
        return RemoteStorageUnavailableError(f"cannot connect to {host}: {why}")
    return InvalidStorageResponseError(f"{host} did not answer with HTTP")
