"""Signed URLs of the shim's own object origin: one object, one byte range, one moment of expiry, method GET only.

::

    http://127.0.0.1:9000/topic-uuid/0-uuid/00000000000000000000.log?expires=1795000000000&range=0-8388607&signature=9f…
    └────── base_url ────┘ └────────── key, percent-encoded ────────┘

    parameter | value
    expires   | Unix time in milliseconds, decimal
    range     | first and last byte, both inclusive, as in the Range header
    signature | HMAC-SHA256, 64 hex digits, over five lines: the version, method, key (UTF-8, not encoded), range, expires

A request has to carry ``Range: bytes=`` and the signed range, so that a URL opens the granted bytes and nothing else; what
DeleteRecords hid in the same segment stays hidden.

References: KIP-1254 "Authentication" (presigned URLs), RFC 9110 section 14.2 (Range), RFC 2104 (HMAC).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from enum import Enum
from urllib.parse import quote, unquote_to_bytes

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import ObjectSigner, SignedUrl
from kafka_remote_client.safe_open import check_object_key

__all__ = [
    "ObjectSigner",
    "SignatureRefusal",
    "SignatureRefusedError",
    "SignedRequest",
    "SignedUrl",
    "SigningKeys",
    "UrlSigner",
]

_VERSION = "kafka-remote-1"
_MIN_SECRET = 16
_BASE_URL = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_QUERY = re.compile(
    r"expires=(?P<expires>[0-9]{1,15})&range=(?P<range>[0-9]{1,18}-[0-9]{1,18})&signature=(?P<signature>[0-9a-f]{64})"
)


class SignatureRefusal(Enum):
    """Why a request is refused. The values are the codes that S3 gives for the same."""

    UNSIGNED = "AccessDenied"
    WRONG_SIGNATURE = "SignatureDoesNotMatch"
    EXPIRED = "RequestHasExpired"
    WRONG_RANGE = "RangeNotSigned"


class SignatureRefusedError(Exception):
    """The request may not be served. ``reason`` says why; nothing here repeats the request."""

    def __init__(self, reason: SignatureRefusal) -> None:
        super().__init__(reason.name)
        self.reason = reason


@attrs.frozen
class SignedRequest:
    """What a verified request may read."""

    key: str
    range: ByteRange


class SigningKeys:
    """The key that signs, and each earlier one for as long as URLs live that it has signed. Thread safe.

    Raises ValueError for a key of less than 16 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        self._keys: tuple[tuple[bytes, int | None], ...] = ((_checked(secret), None),)
        self._needed_until = 0

    @property
    def current(self) -> bytes:
        return self._keys[0][0]

    def valid(self, now_ms: int) -> list[bytes]:
        """The keys whose signatures are valid at ``now_ms``, Unix time in milliseconds."""
        return [key for key, until in self._keys if until is None or now_ms < until]

    def rotate(self, secret: bytes | None, now_ms: int, life_ms: int) -> None:
        """Signs with ``secret`` from now on; ``None`` = the same key. URLs that were signed until now live ``life_ms`` at most.

        The previous key stays valid for as long as any such URL lives, of this call or of an earlier one with its key.
        """
        needed_until = max(self._needed_until, now_ms + life_ms)
        if secret is None or secret == self.current:
            self._needed_until = needed_until
            return
        earlier = ((key, needed_until if until is None else until) for key, until in self._keys)
        self._keys = ((_checked(secret), None), *((key, until) for key, until in earlier if until > now_ms))
        self._needed_until = 0


class UrlSigner:
    """The ObjectSigner of the shim's own origin, which also verifies. Instances with the same key (16 bytes or more) accept
    each other's URLs.

    ``base_url`` is scheme, host and port as clients reach the origin. Raises ValueError for a short secret or a base URL with
    anything more in it.
    """

    binds_ranges = True

    def __init__(self, keys: bytes | SigningKeys, base_url: str, clock: Clock) -> None:
        if not _BASE_URL.fullmatch(base_url):
            raise ValueError("the base URL must be http(s)://host[:port]")
        self._keys = SigningKeys(keys) if isinstance(keys, bytes) else keys
        self._base_url = base_url
        self._clock = clock

    @property
    def base_url(self) -> str:
        return self._base_url

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        """A URL that opens those bytes of that object for ``ttl_seconds``. Raises ValueError as check_object_key does."""
        check_object_key(object_key)
        arguments.duration(ttl_seconds, "ttl_seconds")
        expires = self._clock.time_ms() + int(ttl_seconds * 1000)
        wanted = f"{byte_range.start}-{byte_range.end - 1}"
        signature = _signature(self._keys.current, "GET", object_key, wanted, str(expires))
        query = f"expires={expires}&range={wanted}&signature={signature}"
        return SignedUrl(f"{self._base_url}/{quote(object_key, safe='/')}?{query}")

    def verify(self, method: str, target: str, headers: Mapping[str, str]) -> SignedRequest:
        """What a request may read. ``target`` is the request line's path and query, ``headers`` have lower-case names.

        Raises SignatureRefusedError. The signature is judged first, so that a caller without one learns nothing else.
        """
        path, _, query = target.partition("?")
        parameters = _QUERY.fullmatch(query)
        key = _key_of(path)
        if parameters is None or key is None:
            raise SignatureRefusedError(SignatureRefusal.UNSIGNED)
        wanted, expires = parameters["range"], parameters["expires"]
        now = self._clock.time_ms()
        signatures = [_signature(secret, method, key, wanted, expires) for secret in self._keys.valid(now)]
        if not any(hmac.compare_digest(one, parameters["signature"]) for one in signatures):
            raise SignatureRefusedError(SignatureRefusal.WRONG_SIGNATURE)
        if now >= int(expires):
            raise SignatureRefusedError(SignatureRefusal.EXPIRED)
        if headers.get("range") != f"bytes={wanted}":
            raise SignatureRefusedError(SignatureRefusal.WRONG_RANGE)
        first, _, last = wanted.partition("-")
        return SignedRequest(key, ByteRange(int(first), int(last) + 1))

    def __repr__(self) -> str:
        return f"UrlSigner({self._base_url!r})"


def _signature(secret: bytes, method: str, key: str, wanted: str, expires: str) -> str:
    canonical = f"{_VERSION}\n{method}\n{key}\n{wanted}\n{expires}".encode()
    return hmac.new(secret, canonical, hashlib.sha256).hexdigest()


def _checked(secret: bytes) -> bytes:
    if len(secret) < _MIN_SECRET:
        raise ValueError(f"the signing secret needs at least {_MIN_SECRET} bytes")
    return secret


def _key_of(path: str) -> str | None:
    if not path.startswith("/"):
        return None
    try:
        key = unquote_to_bytes(path[1:]).decode()
        check_object_key(key)
    except ValueError:  # also UnicodeDecodeError
        return None
    return key
