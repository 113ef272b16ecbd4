"""TLS on either side of a shim, out of its configuration.

::

    client ──(listener)── shim ──(brokers)── broker          fetcher ──(origin)── object origin

A client's identity ends at the listener: a certificate that clients have to show (``ssl_client_ca``) opens the shim and is not
seen by any broker. The other way round a certificate of the shim's own would make every client the shim, in the eyes of a
broker that takes identities from certificates. It is refused unless ``allow_shared_identity`` says that brokers do not.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from pathlib import Path

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.protocol.tls import client_context, security_protocol, server_context
from kafka_remote_client.shim.config import ShimConfig

__all__ = [
    "TLS_BUFFER_BYTES",
    "broker_context",
    "hold_for_traffic",
    "hold_little",
    "limit_tls_buffers",
    "listener_context",
    "measure_handshake",
    "origin_context",
]

TLS_BUFFER_BYTES = 64 << 10
"""For which asyncio keeps memory on each connection with TLS, in place of its own 256 KiB. A TLS record has 16 KiB at most."""

_HANDSHAKE_BUFFER_BYTES = 4 << 10
"""The same during a handshake, which peers may never finish."""

_PROTOCOLS = {"plaintext": False, "sasl_plaintext": False, "ssl": True, "sasl_ssl": True}
_VERIFY = "enable.ssl.certificate.verification"
_IDENTITY = ("ssl.certificate.", "ssl.key.", "ssl.keystore.")


def limit_tls_buffers() -> None:
    """Makes asyncio's connections with TLS hold less, in this process and from now on. Idle ones are most of the memory."""
    SSLProtocol.max_size = min(SSLProtocol.max_size, TLS_BUFFER_BYTES)


def hold_little(transport: asyncio.Transport) -> None:
    """Shrinks the buffer of a transport whose TLS handshake begins. Call it after asyncio has made its protocol."""
    protocol = transport.get_protocol()
    if isinstance(protocol, SSLProtocol):
        buffer = bytearray(_HANDSHAKE_BUFFER_BYTES)
        for name, value in (("max_size", len(buffer)), ("_ssl_buffer", buffer), ("_ssl_buffer_view", memoryview(buffer))):
            setattr(protocol, name, value)


def measure_handshake(transport: asyncio.Transport, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Calls ``begin`` and ``end`` around each step of the TLS handshake that begins on ``transport``."""
    protocol = transport.get_protocol()
    if isinstance(protocol, SSLProtocol):
        step: Callable[[], None] = getattr(protocol, "_do_handshake")  # noqa: B009 - unknown to the type checker

        def measured() -> None:
            begin()
            try:
                step()
            finally:
                end()

        setattr(protocol, "_do_handshake", measured)  # noqa: B010 - the same


def hold_for_traffic(secured: asyncio.Transport) -> None:
    """Ends :meth:`hold_little` after the handshake. asyncio takes the larger buffer at its next read."""
    protocol = getattr(secured, "_ssl_protocol", None)
    if isinstance(protocol, SSLProtocol):
        vars(protocol).pop("max_size", None)


def listener_context(config: ShimConfig) -> ssl.SSLContext | None:
    """What clients are shown; ``None`` = the listeners speak plaintext. Raises ConfigurationError, as all here."""
    return _server_context(config, client_ca=config.ssl_client_ca)


def origin_context(config: ShimConfig) -> ssl.SSLContext | None:
    """What fetchers are shown by the object origin: they have signed URLs, and need no certificate."""
    return _server_context(config, client_ca=None) if config.origin_https else None


def broker_context(config: ShimConfig) -> ssl.SSLContext | None:
    """How brokers are verified; ``None`` = plaintext. SASL is the clients' own affair and passes through."""
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
