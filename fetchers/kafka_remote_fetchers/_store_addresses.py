"""Where a store's host name leads: its addresses, each of a kind that a store may have.

References: reliability faults F17-F19, promise S02.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import ForbiddenLocationError
from kafka_remote_fetchers._transport_errors import NameNotResolvedError

__all__ = ["Resolver", "StoreAddresses", "is_permitted_address", "system_resolver"]

Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""Host and port to addresses, as texts, best first. Raises OSError."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NEVER = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",  # link-local; metadata of AWS, Google Cloud, Azure and others, credentials of ECS and EKS
        "fe80::/10",  # link-local
        "fd00:ec2::/32",  # metadata, time, DNS and credentials of AWS
        "fd20:ce::/32",  # metadata of Google Cloud
        "100.100.100.200/32",  # metadata of Alibaba Cloud
        "168.63.129.16/32",  # the host's agent of Azure
        "192.0.0.192/32",  # metadata of Oracle Cloud, classic
    )
)
"""Where machines find what is meant for them alone. A store is never there, whatever the settings permit."""


def system_resolver(host: str, port: int) -> list[str]:
    """The machine's own name resolution."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_permitted_address(text: str, *, allow_private: bool) -> bool:
    """Whether a store may be at that address: a public one, or with ``allow_private`` a private or loopback one.

    Link-local, metadata, multicast and unspecified addresses never, nor in any of their IPv6 disguises.
    """
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None = ipaddress.ip_address(text)
    while address is not None:
        inside = any(address.version == network.version and address in network for network in _NEVER)
        if inside or address.is_multicast or address.is_unspecified:
            return False
        embedded = _embedded(address)
        # ::1 is "reserved" too, and an IPv6 form of an IPv4 address is judged by what it carries
        if not allow_private and embedded is None and (not address.is_global or address.is_reserved):
            return False
        address = embedded
    return True


def _embedded(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


class StoreAddresses:
    """Resolves and checks. With ``allow_private``, private and loopback addresses are permitted."""

    def __init__(self, clock: Clock, *, allow_private: bool, resolver: Resolver = system_resolver) -> None:
        self._clock = clock
        self._allow_private = allow_private
        self._resolver = resolver

    def of(self, host: str, port: int, deadline: Deadline) -> Sequence[str]:
        """All addresses of a host, each permitted. The look-up gets a thread: it knows no time-out of its own."""
        try:
            addresses: Sequence[str] = [str(ipaddress.ip_address(host))]
        except ValueError:
            addresses = self._look_up(host, port, deadline)
        if not all(is_permitted_address(address, allow_private=self._allow_private) for address in addresses):
            raise ForbiddenLocationError(
                f"{host} resolves to a private address; set remote.storage.fetcher.allow.private.addresses=true to permit it"
            )
        return addresses

    def _look_up(self, host: str, port: int, deadline: Deadline) -> Sequence[str]:
        found: list[Sequence[str]] = []
        done = threading.Event()

        def look_up() -> None:
            # a name that does not resolve leaves nothing found; UnicodeError is what getaddrinfo raises for a malformed one
            with contextlib.suppress(OSError, UnicodeError):
                found.append(self._resolver(host, port))
            done.set()

        threading.Thread(target=look_up, name="store-resolver", daemon=True).start()
        if not self._clock.wait(done, deadline.remaining()):
            raise TimeoutError
        if not found or not found[0]:
            raise NameNotResolvedError
        return found[0]
