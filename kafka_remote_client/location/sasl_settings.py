"""Builds the authenticator of a client's settings, which have librdkafka's names.

::

    sasl.mechanism, sasl.mechanisms   PLAIN, SCRAM-SHA-256, SCRAM-SHA-512   sasl.username, sasl.password
                                      OAUTHBEARER                           see oauth_tokens
                                      anything else                         an error: direct fetch is off

User name and password are looked up whenever a connection authenticates, so a mapping that changes is followed
(``Consumer.set_sasl_credentials``). Only a protocol with SASL imports what the mechanisms need.

References: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.protocol.tls import security_protocol

if TYPE_CHECKING:
    from kafka_remote_client.protocol.sasl import SaslAuthenticator

__all__ = ["authenticator", "with_watched_oauth", "with_watched_tokens"]

_PROTOCOLS = {"plaintext": False, "ssl": False, "sasl_plaintext": True, "sasl_ssl": True}


def authenticator(settings: Mapping[str, object], clock: Clock) -> SaslAuthenticator | None:
    """Returns the authenticator of connections to brokers; ``None`` if security.protocol has no SASL.

    Raises ConfigurationError for unsupported settings; no message repeats a secret.
    """
    protocol = security_protocol(settings)
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(f"unknown security.protocol: {protocol}")
    if not _PROTOCOLS[protocol]:
        return None
    from kafka_remote_client.location.sasl_mechanisms import mechanism_authenticator  # noqa: PLC0415 - see the module

    return mechanism_authenticator(settings, clock)


def with_watched_oauth(settings: Mapping[str, object], clock: Clock) -> dict[str, object]:
    """Returns a consumer's settings with an OauthCallback instead of ``oauth_cb``, if there is one."""
    callback = settings.get("oauth_cb")
    if not callable(callback):
        return dict(settings)
    from kafka_remote_client.location.oauth_tokens import OauthCallback  # noqa: PLC0415 - as above

    config = str(settings.get("sasl.oauthbearer.config") or "")
    return {**settings, "oauth_cb": OauthCallback(callback, config, clock, calls_itself=False)}


def with_watched_tokens(watched: Mapping[str, object]) -> dict[str, object]:
    """Returns the settings of :func:`with_watched_oauth` for an engine, which must not keep the application's callback."""
    callback = watched.get("oauth_cb")
    if not callable(callback):
        return dict(watched)
    from kafka_remote_client.location.oauth_tokens import OauthCallback, WatchedTokens  # noqa: PLC0415 - as above

    assert isinstance(callback, OauthCallback)
    return {**watched, "oauth_cb": WatchedTokens(callback)}
