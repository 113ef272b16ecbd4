"""Matches answers to requests, on one client's connection and its broker connection.

Theory of operation. A broker answers the requests of a connection one at a time and in order. The requests in progress are
therefore a queue, and each frame from the broker answers the request at the head of the queue. The pipeline expects three
kinds of answers::

    reply   | the frame is                        | used for
    PASS    | streamed to the client              | nearly all requests
    REWRITE | collected, changed, then sent       | answers that name brokers, ApiVersions
    OWN     | collected and given to the caller   | requests that the shim sends for itself

The strategy answers the requests that it claims, up to 8 of them concurrently, so none waits for the work of another. Their
answers go out in the order of the requests, as Kafka's clients expect. While a claimed request is open, the client's other
requests wait, as they would in a broker. Otherwise their answers, which can have any size, would precede the answers to the
shim's own requests, and the strategy needs those to answer the claimed requests. A decision may go on after its request was
answered "pending", so the shim's own requests never go between two pieces of a request that is streamed. ::

    the next request | no claimed request is open | some are        | 8 are
    claimed          | answered by the strategy   | the same        | waits until one is answered
    any other        | sent to the broker         | waits until none is open

The shim's own requests are in the same queue as the client's, so their answers follow those of all earlier requests. The
pipeline holds an answer of the strategy until the answers to all earlier requests of the client are out. When the strategy
declines a claimed request, the pipeline sends it to the broker after those claimed before it are answered.

The shim connects to the broker when the header of the first request is complete and names an offered version.
:mod:`~kafka_remote_client.shim.client_admission` decides what a client may do before the broker serves it.

This module has no sockets: bytes come in by ``from_client`` and ``from_broker``, and leave by two callables.
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
from kafka_remote_client.shim.broker_strategy import BrokerStrategy, ClientRequest
from kafka_remote_client.shim.client_admission import QUESTION, QUESTION_VERSION, ClientAdmission, Entry
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import FrameAction, FrameScanner, RequestHead
from kafka_remote_client.shim.offered_versions import announce, check_version
from kafka_remote_client.shim.rewrite import Advertise, names_brokers, rewrite_addresses
from kafka_remote_client.wire import Buffer, Reader

__all__ = ["ClaimedRequest", "Hold", "RequestPipeline"]

_MAX_ANSWER = (1 << 31) - 1
_MAX_COLLECTED_ANSWER = 100 << 20
_CORRELATION = 4
_FIRST_OWN_CORRELATION_ID = -(1 << 31)
_MAX_CLAIMS = 8

Sink = Callable[[Buffer], None]


class Hold(Enum):
    """Why a client's requests wait."""

    CONNECTING = "connecting"
    ADMISSION = "admission"
    ANSWERING = "answering"
    CROWDED = "crowded"
    PACED = "paced"
    UNREAD = "unread"


class _Reply(Enum):
    PASS = "pass"  # noqa: S105 - no password
    REWRITE = "rewrite"
    OWN = "own"


@attrs.frozen
class _Expected:
    head: RequestHead
    reply: _Reply
    deliver: Callable[[memoryview], None] | None = None


@attrs.define(eq=False)
class ClaimedRequest:
    """A request for the strategy. ``whole``: its bytes after the length field, for the broker if the strategy declines."""

    request: ClientRequest
    whole: bytes = attrs.field(repr=False)
    is_answered: bool = False
    result: bytes | None = attrs.field(default=None, repr=False)


class RequestPipeline:
    """The state of one pair of connections.

    ``to_client``, ``to_broker`` take bytes for the two sides. The pipeline calls ``claimed`` with a request that the strategy
    claims; the caller runs the strategy and passes the result to :meth:`answered`. The pipeline calls ``dial`` once, when the
    first request needs the broker; the caller releases ``Hold.CONNECTING`` when there is a connection. It calls ``counted`` for
    each request that goes on; the caller may hold further ones. Each feeding call
    raises ProtocolError; the caller then closes both connections.
    """

    def __init__(
        self,
        *,
        strategy: BrokerStrategy,
        advertise: Advertise,
        counters: Counters,
        to_client: Sink,
        to_broker: Sink,
        claimed: Callable[[ClaimedRequest], None],
        dial: Callable[[], None],
        admission: ClientAdmission,
        max_request_bytes: int,
        max_in_flight: int,
        counted: Callable[[], None] = lambda: None,
    ) -> None:
        self._strategy = strategy
        self._advertise = advertise
        self._counters = counters
        self._to_client = to_client
        self._to_broker = to_broker
        self._claimed = claimed
        self._dial: Callable[[], None] | None = dial
        self._admission = admission
        self._max_in_flight = max_in_flight
        self._counted = counted
        self._expected: deque[_Expected] = deque()
        self._holds: set[Hold] = set()
        self._requests = FrameScanner(_Requests(self), min_length=RequestHead.SIZE, max_length=max_request_bytes)
        self._answers = FrameScanner(_Answers(self), min_length=_CORRELATION, max_length=_MAX_ANSWER)
        self._collecting: RequestHead | None = None
        self._answering: _Expected | None = None
        self._unanswered = 0  # client requests that the broker has to answer
        self._passing = False  # whether the current or latest frame from the broker is for the client
        self._claims: deque[ClaimedRequest] = deque()
        self._unclaimed: tuple[RequestHead, bytes] | None = None  # an ordinary request that waits
        self._own_correlation_id = _FIRST_OWN_CORRELATION_ID
        self._own_requests = bytearray()  # those that wait for the rest of a streamed request

    @property
    def holds(self) -> frozenset[Hold]:
        """Why the client's requests wait now; empty if they do not."""
        return frozenset(self._holds)

    @property
    def kept_back(self) -> int:
        """The number of the client's bytes that wait. While it is high, reading more is not useful."""
        return self._requests.kept_back

    @property
    def held(self) -> int:
        """The number of bytes in memory for both sides."""
        claimed = sum(len(claim.whole) + len(claim.result or b"") for claim in self._claims)
        waiting = len(self._own_requests) + len(self._unclaimed[1] if self._unclaimed else b"")
        return self._requests.held + self._answers.held + claimed + waiting

    @property
    def between_requests(self) -> bool:
        """Whether every request from the client has arrived completely."""
        return self._requests.idle

    @property
    def in_progress(self) -> bool:
        """Whether the answer to any request, complete or partial, is not completely sent."""
        owed = self._expected or self._claims or self._unclaimed
        return bool(owed) or not (self._requests.idle and self._answers.idle)

    @property
    def frames(self) -> int:
        """The number of complete requests and answers."""
        return self._requests.frames + self._answers.frames

    def from_client(self, data: bytes) -> None:
        """Takes bytes that the client sent."""
        self._requests.feed(data)

    def from_broker(self, data: bytes) -> None:
        """Takes bytes that the broker sent."""
        self._answers.feed(data)
        self._deliver_results()

    def hold(self, why: Hold) -> None:
        """Makes the client's further requests wait."""
        self._requests.pause()
        self._holds.add(why)

    def release(self, why: Hold) -> None:
        """Ends a :meth:`hold`. After the last hold the pipeline handles the requests that waited."""
        if why in self._holds:
            self._holds.remove(why)
            if not self._holds:
                self._requests.resume()

    def ask(
        self, claim: ClaimedRequest, api_key: int, version: int, body: Buffer, deliver: Callable[[memoryview], None]
    ) -> None:
        """Sends the broker a request of the shim, with the client id of the client that gets the answer."""
        self._send_ours(api_key, version, body, deliver, claim.request.header.client_id)

    def _send_ours(
        self, api_key: int, version: int, body: Buffer, deliver: Callable[[memoryview], None], client_id: str | None
    ) -> None:
        self._own_correlation_id += 1
        header = RequestHeader(api_key, version, self._own_correlation_id, client_id)
        head = RequestHead(api_key, version, header.correlation_id)
        self._expected.append(_Expected(head, _Reply.OWN, deliver))
        own = frame(encode_request_header(header), body)
        if self._requests.streaming:
            self._own_requests += own
        else:
            self._to_broker(own)

    def answered(self, claim: ClaimedRequest, result: bytes | None) -> None:
        """Takes the strategy's answer to the claimed request; ``None``: the broker answers it."""
        claim.is_answered, claim.result = True, result
        self._deliver_results()

    def _deliver_results(self) -> None:
        """Sends the answers to claimed requests that are ready, in order."""
        delivered = False
        while self._claims and self._claims[0].is_answered:
            result = self._claims[0].result
            if result is not None and self._owes_answers():
                break
            header, whole = self._claims[0].request.header, self._claims.popleft().whole
            delivered = True
            if result is None:
                self._pass_on(RequestHead(header.api_key, header.api_version, header.correlation_id), whole)
            else:
                head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
                self._to_client(frame(head, result))
        if delivered and not (self._claims and self._unclaimed):
            unclaimed, self._unclaimed = self._unclaimed, None
            if unclaimed is not None:
                self._pass_on(*unclaimed)
            self.release(Hold.ANSWERING)

    def _owes_answers(self) -> bool:
        """Whether the client gets more from the broker before the first claimed request's answer."""
        return self._unanswered > 0 or (self._passing and not self._answers.idle)

    # The client's side.

    def route_request(self, front: memoryview, length: int) -> FrameAction:
        head = RequestHead.parse(front)
        check_version(head)
        if self._dial is not None:
            if not _has_client_id(front):
                return FrameAction.MORE
            dial, self._dial = self._dial, None
            self.hold(Hold.CONNECTING)
            dial()
            return FrameAction.WAIT
        collected = self._strategy.collects(head, length)
        if self._has_to_wait(head, length, collected=collected):
            self.hold(Hold.ADMISSION)
            return FrameAction.WAIT
        if self._claims and not collected:
            self.hold(Hold.ANSWERING)
            return FrameAction.WAIT
        if head.api_key == ApiKey.PRODUCE:
            acks = _produce_acks(head, front)
            if acks is None:
                return FrameAction.MORE
            self._count()
            if acks:
                self._expect(head)
            return FrameAction.STREAM
        self._count()
        if collected:
            self._collecting = head
            return FrameAction.COLLECT
        self._expect(head)
        return FrameAction.STREAM

    def _count(self) -> None:
        self._counters.add("requests")
        self._counted()

    def _has_to_wait(self, head: RequestHead, length: int, *, collected: bool) -> bool:
        """Whether the request waits for the client's admission. Sends the shim's own request for the admission if needed."""
        entry = self._admission.entry(head, length, collected=collected)
        if entry in (Entry.ASK_FIRST, Entry.ASK_AND_WAIT):
            self._ask_about_client()
        return entry in (Entry.ASK_AND_WAIT, Entry.WAITS)

    def ask_late(self) -> None:
        """Sends the shim's own request, once, for a client that has only asked for versions and has them."""
        if not self._holds and not self.in_progress and self._admission.asks_late():
            self._ask_about_client()

    def _ask_about_client(self) -> None:
        self._send_ours(ApiKey.METADATA, QUESTION_VERSION, QUESTION, self._admitted, None)

    def _admitted(self, answer: memoryview) -> None:
        self._admission.answered(answer)
        self.release(Hold.ADMISSION)

    def request_piece(self, data: memoryview) -> None:
        self._to_broker(data)
        if self._own_requests and not self._requests.streaming:
            own, self._own_requests = self._own_requests, bytearray()
            self._to_broker(own)

    def request(self, body: bytes) -> None:
        head = self._collecting
        assert head is not None
        if self._strategy.claims(head, body):
            header, rest = decode_request_header(body)
            claim = ClaimedRequest(ClientRequest(header, rest), body)
            self._claims.append(claim)
            if len(self._claims) >= _MAX_CLAIMS:
                self.hold(Hold.ANSWERING)
            self._claimed(claim)
        elif self._claims:
            self._unclaimed = head, body
            self.hold(Hold.ANSWERING)
        else:
            self._pass_on(head, body)

    def _expect(self, head: RequestHead) -> None:
        changed = head.api_key == ApiKey.API_VERSIONS or names_brokers(head.api_key, head.api_version)
        self._expected.append(_Expected(head, _Reply.REWRITE if changed else _Reply.PASS))
        self._unanswered += 1
        if self._unanswered >= self._max_in_flight:
            self.hold(Hold.CROWDED)

    def _pass_on(self, head: RequestHead, body: bytes) -> None:
        self._expect(head)
        self._to_broker(frame(b"", body))

    # The broker's side.

    def route_answer(self, front: memoryview, length: int) -> FrameAction:
        (correlation_id,) = (Reader(front).int32(),)
        if not self._expected:
            raise ProtocolError("the broker sent an answer without a matching request")
        expected = self._expected.popleft()
        if expected.head.correlation_id != correlation_id:
            raise ProtocolError("the broker's answers are out of order")
        self._passing = expected.reply is not _Reply.OWN
        if self._passing:
            self._unanswered -= 1
        if expected.reply is _Reply.PASS:
            self._make_room()
            return FrameAction.STREAM
        if length > _MAX_COLLECTED_ANSWER:
            raise ProtocolError(f"an answer of {length} bytes exceeds the limit")
        self._answering = expected
        return FrameAction.COLLECT

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
        if 2 * self._unanswered < self._max_in_flight:
            self.release(Hold.CROWDED)


class _Requests:
    """The scanner's view of the client's side."""

    def __init__(self, pipeline: RequestPipeline) -> None:
        self.route = pipeline.route_request
        self.stream = pipeline.request_piece
        self.frame = pipeline.request


class _Answers:
    """The scanner's view of the broker's side."""

    def __init__(self, pipeline: RequestPipeline) -> None:
        self.route = pipeline.route_answer
        self.stream = pipeline.answer_piece
        self.frame = pipeline.answer


def _has_client_id(front: memoryview) -> bool:
    """Whether ``front`` holds a request's header up to its client id, the part that every version has."""
    reader = Reader(front[RequestHead.SIZE :])
    try:
        reader.nullable_string()
    except ProtocolError:
        return False
    return True


def _produce_acks(head: RequestHead, front: memoryview) -> int | None:
    """Returns the ``acks`` of a Produce request (0: no answer follows); ``None`` if ``front`` ends before it."""
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
