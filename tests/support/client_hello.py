"""The first message of a TLS client, as OpenSSL writes it: for peers that never finish a handshake."""

from __future__ import annotations

import contextlib
import ssl

__all__ = ["client_hello"]


def client_hello() -> bytes:
    """A record with a ClientHello."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="shim")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
