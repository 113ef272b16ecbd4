"""Bearer tokens for OAUTHBEARER, by librdkafka's settings.

::

    oauth_cb                                        the application makes them
    enable.sasl.oauthbearer.unsecure.jwt=true       made here, unsigned, for tests; sasl.oauthbearer.config names the principal
    sasl.oauthbearer.method=oidc                    requested from sasl.oauthbearer.token.endpoint.url, by client credentials

librdkafka alone calls a consumer's own ``oauth_cb``, at the usual times: :class:`OauthCallback` replaces it,
forwards each call and keeps the token, which is then used here too. The engine has a :class:`WatchedTokens`, because the
callback may refer to the consumer, which would never be freed. Without a consumer, this module calls it.

A token that is requested here is kept for four fifths of its life, so a connection that authenticates again (KIP-368) gets a
new one. If none is available then, the old one is used to its end, as in librdkafka.

References: RFC 6749 section 4.4, RFC 7519, KIP-255, KIP-768, librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import ConfigurationError, SaslAuthenticationError

__all__ = ["ClientCredentials", "OauthCallback", "Token", "TokenSource", "UnsecuredTokens", "WatchedTokens"]

_log = logging.getLogger(__name__)

_LONGEST_ANSWER = 1 << 20
_PIECE = 64 << 10
_FRESH_PART = 0.8
"""The share of a token's life after which librdkafka renews its own."""
_RENEWAL_MS = 10_000
"""After a renewal that failed, until the next one, as in librdkafka."""
_DEFAULT_LIFE_SECONDS = 3600
_EXPIRED = "oauth_cb returned an expired token"
_NO_ANSWER = (OSError, http.client.HTTPException)
_NO_TOKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@attrs.frozen
class Token:
    """A token, its expiry (milliseconds since the Unix epoch), and its attributes."""

    value: str = attrs.field(repr=False)
    expires_ms: int
    extensions: Mapping[str, str] = attrs.field(factory=dict, repr=False)


class TokenSource(Protocol):
    """A source of tokens. Safe to share between threads."""

    def token(self, deadline: Deadline) -> Token:
        """Returns a valid token. Raises SaslAuthenticationError without one before the deadline."""


class _KeptToken:
    """The last token, for most of its life. Not thread safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: Token | None = None
        self._renew_ms = 0

    @property
    def valid(self) -> Token | None:
        """The token, if it has not expired. Any thread may ask."""
        last = self._last
        return None if last is None or self._clock.time_ms() >= last.expires_ms else last

    def keep(self, token: Token) -> None:
        now = self._clock.time_ms()
        self._last = token
        self._renew_ms = now + int((token.expires_ms - now) * _FRESH_PART)

    def renewed(self, ask: Callable[[Deadline], Token], deadline: Deadline) -> Token:
        """The token, which ``ask`` replaces if that is due. Raises its SaslAuthenticationError if there is no valid one.

        With a valid one, ``ask`` has half of the time, because the token must then be sent.
        """
        valid = self.valid
        if valid is not None and self._clock.time_ms() < self._renew_ms:
            return valid
        try:
            new = ask(deadline if valid is None else Deadline(self._clock, deadline.remaining() / 2))
        except SaslAuthenticationError as error:
            if valid is None:
                raise
            self._renew_ms = self._clock.time_ms() + _RENEWAL_MS
            _log.warning("cannot renew an OAUTHBEARER token; the old one is used to its end: %s", error)
            return valid
        self.keep(new)
        return new


class OauthCallback:
    """A wrapper that replaces an application's ``oauth_cb``; also a TokenSource.

    ``calls_itself``: whether this class may request tokens, because no consumer does.
    """

    def __init__(self, callback: Callable[[str], tuple[Any, ...]], config: str, clock: Clock, *, calls_itself: bool) -> None:
        self._callback = callback
        self._config = config
        self._clock = clock
        self._calls_itself = calls_itself
        self._guard = threading.Lock()
        self._kept = _KeptToken(clock)

    def __call__(self, config: str) -> tuple[Any, ...]:
        answer = self._callback(config)
        token = _token_of(answer)
        if token is not None:  # else librdkafka keeps the old one too
            self._kept.keep(token)
        return answer

    def token(self, deadline: Deadline) -> Token:
        """As TokenSource."""
        with self._guard:
            if self._calls_itself:
                return self._kept.renewed(self._ask, deadline)
            valid = self._kept.valid
            if valid is None:
                raise SaslAuthenticationError(_EXPIRED)
            return valid

    def _ask(self, _deadline: Deadline) -> Token:
        try:
            answer = self._callback(self._config)
        except Exception as error:  # noqa: BLE001 - the application's own, of any type; its text may hold the token
            raise SaslAuthenticationError(f"oauth_cb raised {type(error).__name__}") from None
        token = _token_of(answer)
        if token is None or token.expires_ms <= self._clock.time_ms():
            raise SaslAuthenticationError(_EXPIRED)
        return token


def _token_of(answer: tuple[Any, ...]) -> Token | None:
    """Takes ``(token, seconds since the epoch[, principal[, extensions]])``; librdkafka rejects anything else."""
    try:
        extensions = answer[3] if len(answer) > 3 else {}
        return Token(str(answer[0]), int(float(answer[1]) * 1000), dict(extensions or {}))
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


class WatchedTokens:
    """An ``oauth_cb`` and TokenSource that forwards to an OauthCallback while a consumer has it.

    Both raise SaslAuthenticationError after that.
    """

    def __init__(self, callback: OauthCallback) -> None:
        self._callback = weakref.ref(callback)

    def __call__(self, config: str) -> tuple[Any, ...]:
        return self._alive()(config)

    def token(self, deadline: Deadline) -> Token:
        """As TokenSource."""
        return self._alive().token(deadline)

    def _alive(self) -> OauthCallback:
        callback = self._callback()
        if callback is None:
            raise SaslAuthenticationError("the consumer with this oauth_cb was dropped")
        return callback


class UnsecuredTokens:
    """Unsigned tokens (RFC 7519 section 6), as librdkafka makes them from ``sasl.oauthbearer.config``.

    ``principal=NAME`` is needed; ``principalClaimName``, ``scopeClaimName``, ``scope=A,B``, ``lifeSeconds`` and
    ``extension_NAME=VALUE`` may be given. Raises ConfigurationError for anything else.
    """

    def __init__(self, config: str, clock: Clock) -> None:
        self._clock = clock
        pairs = dict(pair.partition("=")[::2] for pair in config.split())
        self._principal = pairs.pop("principal", "")
        self._principal_claim = pairs.pop("principalClaimName", "sub")
        self._scope_claim = pairs.pop("scopeClaimName", "scope")
        self._scopes = [scope for scope in pairs.pop("scope", "").split(",") if scope]
        life = pairs.pop("lifeSeconds", str(_DEFAULT_LIFE_SECONDS))
        self._extensions = {
            name.removeprefix("extension_"): pairs.pop(name) for name in list(pairs) if name.startswith("extension_")
        }
        if not self._principal or pairs or not (life.isascii() and life.isdigit() and 0 < len(life) < 10):
            raise ConfigurationError("sasl.oauthbearer.config must have principal=NAME and only keys that librdkafka documents")
        self._life = int(life)

    def token(self, deadline: Deadline) -> Token:
        """As TokenSource; a new one each time."""
        now = self._clock.time_ms()
        expires = now + self._life * 1000
        claims = {self._principal_claim: self._principal, "iat": now / 1000, "exp": expires / 1000}
        if self._scopes:
            claims[self._scope_claim] = self._scopes
        return Token(f"{_encoded({'alg': 'none'})}.{_encoded(claims)}.", expires, self._extensions)


class ClientCredentials:
    """Tokens of an authorization server (OIDC). One is kept for most of its life, and one thread at a time requests it.

    Redirects are not followed; proxies are those of the environment, as in librdkafka. Raises ConfigurationError for an
    invalid address.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        clock: Clock,
        *,
        scope: str = "",
        extensions: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username is not None:
            raise ConfigurationError("sasl.oauthbearer.token.endpoint.url must be an http(s) address without a user")
        self._name = parts.hostname
        self._clock = clock
        self._extensions = dict(extensions or {})
        fields = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        # Not encoded, like librdkafka and Java's client; RFC 6749 requires percent-encoding.
        pair = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        headers = {
            "Authorization": f"Basic {pair}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        self._request = urllib.request.Request(url, urllib.parse.urlencode(fields).encode(), headers)  # noqa: S310 - seen to above
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl_context or ssl.create_default_context()), _NoRedirects()
        )
        self._turn = threading.Lock()
        self._kept = _KeptToken(clock)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}>"

    def token(self, deadline: Deadline) -> Token:
        """As TokenSource."""
        valid = self._kept.valid
        if not self._turn.acquire(timeout=0.0 if valid is not None else deadline.remaining()):
            if valid is not None:
                return valid  # another thread renews it
            raise SaslAuthenticationError(f"{self._name} timed out getting a token")
        try:
            return self._kept.renewed(self._ask, deadline)
        finally:
            self._turn.release()

    def _ask(self, deadline: Deadline) -> Token:
        asked_ms = self._clock.time_ms()
        try:
            answer = json.loads(self._post(deadline))
            value = answer["access_token"]
            life = answer.get("expires_in")
            expires = _expiry_of(value) if life is None else asked_ms + int(float(life) * 1000)
        except urllib.error.HTTPError as error:
            error.close()
            raise SaslAuthenticationError(f"{self._name} returned no token: HTTP status {error.code}") from None
        except (*_NO_ANSWER, *_NO_TOKEN) as error:
            raise SaslAuthenticationError(f"{self._name} returned no token: {type(error).__name__}") from None
        if not isinstance(value, str) or not value or expires <= asked_ms:
            raise SaslAuthenticationError(f"{self._name} returned an expired token")
        return Token(value, expires, self._extensions)

    def _post(self, deadline: Deadline) -> bytes:
        if deadline.expired():
            raise TimeoutError
        data = b""
        with self._opener.open(self._request, timeout=deadline.remaining()) as response:
            while piece := response.read1(_PIECE):
                data += piece
                if len(data) > _LONGEST_ANSWER:
                    raise ValueError("too long")
                if deadline.expired():
                    raise TimeoutError
        return data


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed, so that the credentials go only to the configured server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _expiry_of(token: str) -> int:
    """Returns the ``exp`` claim of a JWT in milliseconds. Raises ValueError, KeyError or TypeError if it is missing."""
    claims = token.split(".")[1] if token.count(".") == 2 else ""
    return int(float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]) * 1000)


def _encoded(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()
