"""Builds the authenticator of a SASL mechanism. Only clients whose ``security.protocol`` has SASL import this module.

The table of mechanisms is in sasl_settings.py.

References: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.oauth_tokens import (
    ClientCredentials,
    OauthCallback,
    TokenSource,
    UnsecuredTokens,
    WatchedTokens,
)
from kafka_remote_client.protocol.sasl import SCRAM_MECHANISMS, Conversation, SaslAuthenticator, oauthbearer, plain, scram
from kafka_remote_client.protocol.tls import client_context

__all__ = ["mechanism_authenticator"]

_OAUTH = "sasl.oauthbearer."
_OIDC = frozenset(
    {
        "client.id",
        "client.credentials.client.id",
        "client.credentials.client.secret",
        "client.secret",
        "config",
        "extensions",
        "grant.type",
        "method",
        "scope",
        "token.endpoint.url",
    }
)


def mechanism_authenticator(settings: Mapping[str, object], clock: Clock) -> SaslAuthenticator:
    """Returns the authenticator of ``sasl.mechanism``.

    Raises ConfigurationError for unsupported settings; no message repeats a secret.
    """
    mechanism = (_text(settings, "sasl.mechanism") or _text(settings, "sasl.mechanisms") or "GSSAPI").upper()
    if mechanism == "OAUTHBEARER":
        return SaslAuthenticator(mechanism, _with_tokens(_token_source(settings, clock)))
    if mechanism != "PLAIN" and mechanism not in SCRAM_MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism={mechanism} is not supported for location requests")
    if not _text(settings, "sasl.username"):
        raise ConfigurationError("sasl.username is not set")

    def converse(_: Deadline) -> Conversation:
        username, password = _text(settings, "sasl.username"), _text(settings, "sasl.password")
        return plain(username, password) if mechanism == "PLAIN" else scram(mechanism, username, password)

    return SaslAuthenticator(mechanism, converse)


def _with_tokens(source: TokenSource) -> Callable[[Deadline], Conversation]:
    def converse(deadline: Deadline) -> Conversation:
        token = source.token(deadline)
        return oauthbearer(token.value, token.extensions)

    return converse


def _token_source(settings: Mapping[str, object], clock: Clock) -> TokenSource:
    callback = settings.get("oauth_cb")
    config = _text(settings, f"{_OAUTH}config")
    if isinstance(callback, OauthCallback | WatchedTokens):
        return callback
    if callable(callback):
        return OauthCallback(callback, config, clock, calls_itself=True)
    if arguments.boolean(_text(settings, "enable.sasl.oauthbearer.unsecure.jwt")):
        return UnsecuredTokens(config, clock)
    if _text(settings, f"{_OAUTH}method").lower() != "oidc":
        raise ConfigurationError("sasl.mechanism=OAUTHBEARER needs oauth_cb or sasl.oauthbearer.method=oidc")
    return _client_credentials(settings, clock)


def _client_credentials(settings: Mapping[str, object], clock: Clock) -> ClientCredentials:
    given = {name.removeprefix(_OAUTH): _text(settings, name) for name in settings if name.startswith(_OAUTH)}
    unknown = sorted(name for name, value in given.items() if value and name not in _OIDC)
    if unknown:
        raise ConfigurationError(f"{_OAUTH}{unknown[0]} is not supported by direct fetch")
    if given.get("grant.type", "") not in ("", "client_credentials"):
        raise ConfigurationError("sasl.oauthbearer.grant.type must be client_credentials")
    client_id = given.get("client.id") or given.get("client.credentials.client.id") or ""
    secret = given.get("client.secret") or given.get("client.credentials.client.secret") or ""
    if not client_id or not secret:
        raise ConfigurationError("sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret must be set")
    authority = {f"ssl.{name}": _text(settings, f"https.{name}") for name in ("ca.location", "ca.pem")}
    extensions = (pair.strip().partition("=") for pair in given.get("extensions", "").split(",") if pair.strip())
    return ClientCredentials(
        given.get("token.endpoint.url", ""),
        client_id,
        secret,
        clock,
        scope=given.get("scope", ""),
        extensions={name: value for name, _, value in extensions},
        ssl_context=client_context(authority),
    )


def _text(settings: Mapping[str, object], name: str) -> str:
    value = settings.get(name)
    return "" if value is None else str(value)
