"""Makes the TLS contexts of both sides of a shim from its configuration.

::

    client ──(listener)── shim ──(brokers)── broker          fetcher ──(origin)── object origin

The shim does not forward client certificates: a certificate that clients must present (``ssl_client_ca``) authenticates them to
the shim only. With a certificate of the shim, a broker that takes identities from certificates sees the same identity for all
clients. So the shim refuses such a certificate unless ``allow_shared_identity`` is set.
"""

from __future__ import annotations

import ssl
from asyncio.sslproto import SSLProtocol
from pathlib import Path

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.protocol.tls import client_context, security_protocol, server_context
from kafka_remote_client.shim.config import ShimConfig

__all__ = [
    "TLS_BUFFER_BYTES",
    "broker_context",
    "limit_tls_buffers",
    "listener_context",
    "origin_context",
]

TLS_BUFFER_BYTES = 64 << 10
"""For which asyncio keeps memory on each connection with TLS, in place of its own 256 KiB. A TLS record has 16 KiB at most."""

_PROTOCOLS = {"plaintext": False, "sasl_plaintext": False, "ssl": True, "sasl_ssl": True}
_VERIFY = "enable.ssl.certificate.verification"
_IDENTITY = ("ssl.certificate.", "ssl.key.", "ssl.keystore.")


def limit_tls_buffers() -> None:
    """Makes asyncio's connections with TLS hold less, in this process and from now on. Idle ones are most of the memory."""
    SSLProtocol.max_size = min(SSLProtocol.max_size, TLS_BUFFER_BYTES)


def listener_context(config: ShimConfig) -> ssl.SSLContext | None:
    """The context of the listeners; ``None`` = plaintext. Raises ConfigurationError, like all functions here."""
    return _server_context(config, client_ca=config.ssl_client_ca)


def origin_context(config: ShimConfig) -> ssl.SSLContext | None:
    """The context of the object origin. Fetchers have signed URLs and need no certificate."""
    return _server_context(config, client_ca=None) if config.origin_https else None


def broker_context(config: ShimConfig) -> ssl.SSLContext | None:
    """The context of connections to brokers; ``None`` = plaintext. The shim forwards the clients' SASL unchanged."""
    settings = config.broker_settings
    for name in settings:
        if not name.startswith("ssl.") and name not in ("security.protocol", _VERIFY):
            raise ConfigurationError(
                f"{name} is not a supported broker setting; set TLS here, SASL passes through from clients"
            )
        if name.startswith(_IDENTITY) and not config.allow_shared_identity:
            raise ConfigurationError(
                f"{name} would present the shim's certificate for every client; see --allow-shared-identity"
            )
    given = (settings.get(_VERIFY), config.follower_settings.get(_VERIFY))
    unverified = any(value is not None and _is_false(value) for value in given)
    if unverified and not config.allow_unverified_brokers:
        raise ConfigurationError(f"{_VERIFY}=false would let any host impersonate brokers; see --allow-unverified-brokers")
    protocol = security_protocol(settings)
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(f"unknown security.protocol: {protocol}")
    return client_context(settings) if _PROTOCOLS[protocol] else None


def _is_false(value: object) -> bool:
    return arguments.boolean(str(value)) is False


def _server_context(config: ShimConfig, client_ca: str | None) -> ssl.SSLContext | None:
    if config.ssl_certificate is None:
        if config.ssl_key is not None or config.ssl_client_ca is not None or config.origin_https:
            raise ConfigurationError("TLS needs a certificate: set ssl_certificate")
        return None
    return server_context(
        Path(config.ssl_certificate),
        None if config.ssl_key is None else Path(config.ssl_key),
        key_password=config.ssl_key_password,
        client_ca=None if client_ca is None else Path(client_ca),
    )
