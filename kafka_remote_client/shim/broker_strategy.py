"""The interface of strategies: they answer a client's requests in place of the broker.

A :class:`BrokerStrategy` chooses the requests that are collected whole, and those of them that it answers. It asks the broker
on the client's connection, with the client's principal and client id. So it gets no information that the client may not get.
:class:`PassThrough` is the strategy of a shim that has no tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.wire import Buffer

__all__ = ["Ask", "BrokerStrategy", "ClientRequest", "PassThrough"]


@attrs.frozen
class ClientRequest:
    """A request that was collected whole: its header and its body.

    ``secure``: whether it came over an encrypted connection, so that the answer may hold secrets. ``client``: the address and
    port that the client connected from. ``principal``: the subject of the certificate that it showed to the shim, "" = none.
    ``connection``: with ``client`` it tells connections apart; behind NAT several clients may have one address and port.
    """

    header: RequestHeader
    body: memoryview = attrs.field(repr=False)
    secure: bool = False
    client: str = ""
    principal: str = ""
    connection: int = 0


class Ask(Protocol):
    """Sends a request of the shim's own on the client's connection to the broker."""

    async def __call__(self, api_key: int, version: int, body: Buffer) -> memoryview:
        """Returns the body of the broker's answer. Works also after the request was answered; cancelled with the connection."""


class BrokerStrategy(Protocol):
    """Answers requests of clients in place of their brokers. One object serves all connections, in the event loop."""

    @property
    def api_versions(self) -> Mapping[int, range]:
        """The versions that are announced instead of the broker's, by API key."""

    def collects(self, head: RequestHead, length: int) -> bool:
        """Returns whether to collect a request of ``length`` bytes, so that :meth:`claims` can examine it."""

    def claims(self, head: RequestHead, body: bytes) -> bool:
        """Returns whether a collected request (``body``: all after its length field) goes to :meth:`answer`."""

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        """Returns the body of the answer; ``None`` = the request is forwarded unchanged, and the broker answers.

        Raises ProtocolError when the request does not parse, which ends the connection.
        """


class PassThrough:
    """Forwards all requests."""

    api_versions: Mapping[int, range] = {}

    def collects(self, head: RequestHead, length: int) -> bool:
        return False

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return False

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        return None
