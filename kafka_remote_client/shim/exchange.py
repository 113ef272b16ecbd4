"""Which answer belongs to which request, on one client's connection and the broker's connection that goes with it.

Theory of operation. A broker answers the requests of a connection one at a time and in order, so the requests under way are
a queue, and each frame from the broker belongs to the head of it. Three kinds of answers are expected::

    reply   | the frame is                        | used for
    PASS    | streamed to the client              | nearly everything
    REWRITE | collected, changed, then sent       | answers that name brokers, ApiVersions
    OURS    | collected and given to who asked    | requests that the shim sends for itself

A request that the strategy claims is answered by it, and until then the client's further requests wait, as they would in a
broker. The shim's own requests take the place of the client's in the queue, so their answers come behind those of all
earlier requests; an answer that needed no question is held until these are out.

No sockets here: bytes come in by :meth:`Exchange.from_client` and :meth:`Exchange.from_broker`, and leave by two callables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

import attrs

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    frame,
)
from kafka_remote_client.protocol.primitives import Buffer, Reader
from kafka_remote_client.shim.api_versions import announce, check_version
from kafka_remote_client.shim.broker import BrokerStrategy, ClientRequest
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import FrameScanner, RequestHead, Route
from kafka_remote_client.shim.rewrite import Advertise, names_brokers, rewrite_addresses

__all__ = ["Exchange", "Hold"]

_MAX_ANSWER = (1 << 31) - 1
_MAX_COLLECTED_ANSWER = 100 << 20
_CORRELATION = 4
_FIRST_OWN_CORRELATION_ID = -(1 << 31)

Sink = Callable[[Buffer], None]


class Hold(Enum):
    """Why a client's requests wait."""

    CONNECTING = "connecting"
    ANSWERING = "answering"
    CROWDED = "crowded"


class _Reply(Enum):
    PASS = "pass"  # noqa: S105 - no password
    REWRITE = "rewrite"
    OURS = "ours"


@attrs.frozen
class _Expected:
    head: RequestHead
    reply: _Reply
    deliver: Callable[[memoryview], None] | None = None


class Exchange:
    """The state of one pair of connections.

    ``to_client``, ``to_broker`` take bytes for the two sides. ``claimed`` is called with a request that the strategy wants to
    answer; the caller lets the strategy work and brings the result to :meth:`answered`. Each feeding call raises
    ProtocolError, after which both connections have to be closed.
    """

    def __init__(
        self,
        *,
        strategy: BrokerStrategy,
        advertise: Advertise,
        counters: Counters,
        to_client: Sink,
        to_broker: Sink,
        claimed: Callable[[ClientRequest], None],
        max_request_bytes: int,
        max_in_flight: int,
    ) -> None:
        self._strategy = strategy
        self._advertise = advertise
        self._counters = counters
        self._to_client = to_client
        self._to_broker = to_broker
        self._claimed = claimed
        self._max_in_flight = max_in_flight
        self._expected: deque[_Expected] = deque()
        self._holds: set[Hold] = set()
        self._requests = FrameScanner(_Requests(self), min_length=RequestHead.SIZE, max_length=max_request_bytes)
        self._answers = FrameScanner(_Answers(self), min_length=_CORRELATION, max_length=_MAX_ANSWER)
        self._collecting: RequestHead | None = None
        self._answering: _Expected | None = None
        self._claim: tuple[RequestHeader, bytes] | None = None
        self._result: bytes | None = None
        self._has_result = False
        self._own_correlation_id = _FIRST_OWN_CORRELATION_ID
        self.anything_asked = False

    @property
    def holds(self) -> frozenset[Hold]:
        """Why the client's requests wait at this moment, if they do."""
        return frozenset(self._holds)

    @property
    def kept_back(self) -> int:
        """Bytes of the client's that wait; while there are many, reading more of them is not worth while."""
        return self._requests.kept_back

    def from_client(self, data: bytes) -> None:
        """Takes bytes that the client sent."""
        self._requests.feed(data)

    def from_broker(self, data: bytes) -> None:
        """Takes bytes that the broker sent."""
        self._answers.feed(data)
        self._deliver_result()

    def hold(self, why: Hold) -> None:
        """Lets the client's further requests wait."""
        self._requests.pause()
        self._holds.add(why)

    def release(self, why: Hold) -> None:
        """Takes back a :meth:`hold`. When it was the last one, the requests that waited are handled now."""
        if why in self._holds:
            self._holds.remove(why)
            if not self._holds:
                self._requests.resume()

    def ask(self, api_key: int, version: int, body: Buffer, deliver: Callable[[memoryview], None]) -> None:
        """Sends the broker a request of ours, in the name of the client whose request is being answered."""
        assert self._claim is not None
        self._own_correlation_id += 1
        header = RequestHeader(api_key, version, self._own_correlation_id, self._claim[0].client_id)
        head = RequestHead(api_key, version, header.correlation_id)
        self._expected.append(_Expected(head, _Reply.OURS, deliver))
        self._to_broker(frame(encode_request_header(header), body))

    def answered(self, result: bytes | None) -> None:
        """The strategy's answer to the claimed request, or ``None`` to let the broker answer it."""
        assert self._claim is not None
        self._result, self._has_result = result, True
        self._deliver_result()

    def _deliver_result(self) -> None:
        if not self._has_result or self._expected or not self._answers.idle:
            return
        assert self._claim is not None
        (header, request), result = self._claim, self._result
        self._claim, self._result, self._has_result = None, None, False
        if result is None:
            self._pass_on(RequestHead(header.api_key, header.api_version, header.correlation_id), request)
        else:
            self._to_client(frame(encode_response_header(header.api_key, header.api_version, header.correlation_id), result))
        self.release(Hold.ANSWERING)

    # The client's side.

    def route_request(self, front: memoryview, length: int) -> Route:
        head = RequestHead.parse(front)
        if head.api_key == ApiKey.PRODUCE:
            acks = _produce_acks(head, front)
            if acks is None:
                return Route.MORE
            self._begin(head)
            if acks:
                self._expect(head)
            return Route.STREAM
        self._begin(head)
        if self._strategy.collects(head, length):
            self._collecting = head
            return Route.COLLECT
        self._expect(head)
        return Route.STREAM

    def request_piece(self, data: memoryview) -> None:
        self._to_broker(data)

    def request(self, body: bytes) -> None:
        head = self._collecting
        assert head is not None
        if not self._strategy.claims(head, body):
            self._pass_on(head, body)
            return
        header, rest = decode_request_header(body)
        self._claim = header, body
        self.hold(Hold.ANSWERING)
        self._claimed(ClientRequest(header, rest))

    def _begin(self, head: RequestHead) -> None:
        check_version(head)
        self.anything_asked = True
        self._counters.add("requests")

    def _expect(self, head: RequestHead) -> None:
        changed = head.api_key == ApiKey.API_VERSIONS or names_brokers(head.api_key, head.api_version)
        self._expected.append(_Expected(head, _Reply.REWRITE if changed else _Reply.PASS))
        if len(self._expected) >= self._max_in_flight:
            self.hold(Hold.CROWDED)

    def _pass_on(self, head: RequestHead, body: bytes) -> None:
        self._expect(head)
        self._to_broker(frame(b"", body))

    # The broker's side.

    def route_answer(self, front: memoryview, length: int) -> Route:
        (correlation_id,) = (Reader(front).int32(),)
        if not self._expected:
            raise ProtocolError("the broker sent an answer that nothing asked for")
        expected = self._expected.popleft()
        if expected.head.correlation_id != correlation_id:
            raise ProtocolError("the broker's answers are out of order")
        if expected.reply is _Reply.PASS:
            self._make_room()
            return Route.STREAM
        if length > _MAX_COLLECTED_ANSWER:
            raise ProtocolError(f"an answer of {length} bytes is too large to be read")
        self._answering = expected
        return Route.COLLECT

    def answer_piece(self, data: memoryview) -> None:
        self._to_client(data)

    def answer(self, body: bytes) -> None:
        expected = self._answering
        assert expected is not None
        head = expected.head
        _, rest = decode_response_header(head.api_key, head.api_version, body)
        if expected.deliver is not None:
            expected.deliver(rest)
            return
        if head.api_key == ApiKey.API_VERSIONS:
            changed = announce(head.api_version, rest, self._strategy.api_versions)
        else:
            changed = rewrite_addresses(head.api_key, head.api_version, rest, self._advertise)
        self._to_client(frame(body[: len(body) - len(rest)], changed))
        self._make_room()

    def _make_room(self) -> None:
        if 2 * len(self._expected) < self._max_in_flight:
            self.release(Hold.CROWDED)


class _Requests:
    """The scanner's view of the client's side."""

    def __init__(self, exchange: Exchange) -> None:
        self.route = exchange.route_request
        self.stream = exchange.request_piece
        self.frame = exchange.request


class _Answers:
    """The scanner's view of the broker's side."""

    def __init__(self, exchange: Exchange) -> None:
        self.route = exchange.route_answer
        self.stream = exchange.answer_piece
        self.frame = exchange.answer


def _produce_acks(head: RequestHead, front: memoryview) -> int | None:
    """The ``acks`` of a Produce request, 0 = no answer will come; ``None`` when ``front`` ends before it."""
    reader = Reader(front[RequestHead.SIZE :])
    try:
        reader.nullable_string()
        if head.api_version >= 9:
            reader.flexible = True
            reader.tagged_fields()
        if head.api_version >= 3:
            reader.nullable_string()
        return reader.int16()
    except ProtocolError:
        return None
