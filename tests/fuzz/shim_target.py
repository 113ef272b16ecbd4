"""Streams of a client to a shim: each gives requests for the broker in order, or a ProtocolError, for any size of its pieces.

::

    input | byte 0              | content
          | bit 0: 1            | the stream itself
          | bit 0: 0            | frames: two bytes of length, then as many bytes; the length field is corrected
          | bits 1-7            | the size of the pieces of the stream; 0 = one piece
"""

from __future__ import annotations

import struct
from concurrent.futures import Executor, Future
from typing import Any

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.request_pipeline import ClaimedRequest, Hold, RequestPipeline
from tests.fuzz.bounded import Target, bounded
from tests.support.shim_fakes import FakeTier, admitted_client

__all__ = ["TARGETS"]

_MAX_REQUEST_BYTES = 1 << 16
_HEAD = struct.Struct(">ihhi")
_FETCH, _SHARE = 1, frozenset({76, 78, 79})
_NEWEST = {1: 15, 3: 13, 10: 6, 60: 2}
"""The newest version that a shim offers, of the API keys that it bounds: docs/shim.md, "What the shim changes"."""


class _NoWork(Executor):
    def submit(self, *_told: Any, **_more: Any) -> Future[Any]:
        raise AssertionError("routing a request looks nothing up")


class _Shim:
    """A pipeline between an admitted client and a broker. It declines claimed requests at once."""

    def __init__(self) -> None:
        self.broker = bytearray()
        self.client = bytearray()
        self.claimed: list[bytes] = []
        self._open: list[ClaimedRequest] = []
        self.pipeline = RequestPipeline(
            strategy=GrantingBroker(FakeTier(), GrantLimits(), Counters(), _NoWork()),
            advertise=lambda node_id, _host, _port: ("shim", node_id & 0x7FFF),
            counters=Counters(),
            to_client=self.client.extend,
            to_broker=self.broker.extend,
            claimed=self._open.append,
            dial=lambda: self.pipeline.release(Hold.CONNECTING),
            admission=admitted_client(),
            max_request_bytes=_MAX_REQUEST_BYTES,
            max_in_flight=1 << 30,
        )

    def feed(self, pieces: list[bytes]) -> bool:
        """Returns whether the stream is accepted."""
        try:
            for piece in pieces:
                self.pipeline.from_client(piece)
                while self._open:
                    claim = self._open.pop(0)
                    self.claimed.append(claim.whole)
                    self.pipeline.answered(claim, None)
        except ProtocolError:
            return False
        return True


def shim_frames(data: bytes) -> None:
    """Tests the stream of an admitted client."""
    front = data[0] if data else 1
    stream = data[1:] if front & 1 else _framed(data[1:])
    size = (front >> 1) or max(1, len(stream))
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    whole, cut = _Shim(), _Shim()
    accepted = whole.feed([stream])
    assert cut.feed(pieces) == accepted
    for shim in (whole, cut):
        assert stream.startswith(shim.broker), "the broker gets the client's bytes in their order"
        assert not shim.client
        _is_all(shim, stream, accepted=accepted)
    if accepted:
        assert (cut.claimed, cut.broker) == (whole.claimed, whole.broker)


def _framed(data: bytes) -> bytes:
    stream, at = bytearray(), 0
    while at + 2 <= len(data):
        (length,) = struct.unpack_from(">H", data, at)
        body = data[at + 2 : at + 2 + length % 512]
        stream += struct.pack(">i", len(body)) + body
        at += 2 + len(body)
    return bytes(stream)


def _is_all(shim: _Shim, stream: bytes, *, accepted: bool) -> None:
    """Every complete request that is offered reached the broker, by a reading of lengths and versions alone."""
    at = 0
    while at + _HEAD.size <= len(stream):
        length, key, version, _ = _HEAD.unpack_from(stream, at)
        offered = key not in _SHARE and version in range(_NEWEST.get(key, (1 << 15) - 1) + 1) and (key, version) != (17, 0)
        if not (8 <= length <= _MAX_REQUEST_BYTES and offered):
            assert not accepted
            return
        if at + 4 + length > len(stream):
            return
        at += 4 + length
        if at > len(shim.broker):
            assert not accepted, "a complete request is kept back"
            return
    assert all(key == _FETCH for key in (struct.unpack_from(">h", whole)[0] for whole in shim.claimed))


TARGETS: dict[str, Target] = {"shim_frames": bounded(shim_frames)}
