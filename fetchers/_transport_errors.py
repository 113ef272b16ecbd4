"""What goes wrong below HTTP, as RemoteStorageError kinds, with nothing of the request left in them.

::

    cause                                        | error
    a time-out anywhere, DNS and TLS included    | RemoteStorageTimeoutError
    no address; refused, reset, cut, short       | RemoteStorageUnavailableError
    certificate refused, TLS fails otherwise     | RemoteStorageError: the broker's turn, never a downgrade
    not HTTP                                     | InvalidStorageResponseError
"""

from __future__ import annotations

import errno
import http.client
import ssl
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kafka_remote_client.errors import (
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)

__all__ = ["NameNotResolvedError", "guarded", "transport_error"]

P = ParamSpec("P")
T = TypeVar("T")


class NameNotResolvedError(OSError):
    """A host's name has no address. Carries no text: the resolver's own is of no use to the caller."""


def guarded(host: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's result; its transport errors become RemoteStorageErrors that name ``host``.

    They are raised outside of the handler, so that not even ``__context__`` leads to a text with the URL in it.
    """
    try:
        return call(*args, **kwargs)
    except (OSError, http.client.HTTPException, ValueError) as error:
        failure = transport_error(error, host)
    raise failure


def transport_error(error: Exception, host: str) -> RemoteStorageError:
    """The table above."""
    if isinstance(error, TimeoutError):
        return RemoteStorageTimeoutError(f"{host} did not answer in time")
    if isinstance(error, NameNotResolvedError):
        return RemoteStorageUnavailableError(f"the name of {host} does not resolve")
    if isinstance(error, ssl.SSLCertVerificationError):
        return RemoteStorageError(f"the certificate of {host} is refused: {error.verify_message}")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return RemoteStorageError(f"TLS with {host} fails: {error.reason}")
    if isinstance(error, OSError):
        return RemoteStorageUnavailableError(f"{host} cannot be reached ({errno.errorcode.get(error.errno or 0, 'cut')})")
    if isinstance(error, http.client.IncompleteRead):
        return RemoteStorageUnavailableError(f"{host} cut its answer short")
    return InvalidStorageResponseError(f"{host} does not answer in HTTP")
