"""What a shim may do with a client's requests besides forwarding them.

A :class:`BrokerStrategy` says which requests it wants to see whole, which of these it answers itself, and with what. It asks
the broker on the client's own connection, under the client's own principal and client id, and so never knows more than the
client may. :class:`PassThrough` is the strategy of a shim that has no tier.
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
    """A request that was collected whole: its header, and the body behind it.

    ``secure``: whether it came over an encrypted connection, so that the answer may hold secrets. ``client``: the address and
    port that the client connected from. ``principal``: the subject of the certificate that it showed to the shim, "" = none.
    """

    header: RequestHeader
    body: memoryview = attrs.field(repr=False)
    secure: bool = False
    client: str = ""
    principal: str = ""


class Ask(Protocol):
    """Sends a request of the shim's own on the client's connection to the broker."""

    async def __call__(self, api_key: int, version: int, body: Buffer) -> memoryview:
        """The body of the broker's answer. May be used after the request was answered; cancelled when the connection ends."""


class BrokerStrategy(Protocol):
    """Stands between a client's requests and its broker. One object serves all connections, in the event loop."""

    @property
    def api_versions(self) -> Mapping[int, range]:
        """Versions that are announced in place of the broker's own, by API key."""

    def collects(self, head: RequestHead, length: int) -> bool:
        """Whether a request of ``length`` bytes is to be collected, so that :meth:`claims` can look at it."""

    def claims(self, head: RequestHead, body: bytes) -> bool:
        """Whether a collected request (``body``: all behind its length field) goes to :meth:`answer`."""

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        """The body of the answer; ``None`` = the broker answers, and the request is forwarded unchanged.

        Raises ProtocolError when the request does not parse, which ends the connection.
        """


class PassThrough:
    """Answers nothing itself."""

    api_versions: Mapping[int, range] = {}

    def collects(self, head: RequestHead, length: int) -> bool:
        return False

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return False

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        return None
