"""Requests and answers of one client: in order and never mixed, for any cut of the bytes."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    encode_response_header,
    frame,
)
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, decode_response, encode_response
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.client_admission import QUESTION, QUESTION_VERSION, ClientAdmission
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.request_pipeline import ClaimedRequest, Hold, RequestPipeline
from tests.support.shim_fakes import admitted_client

HEARTBEAT = 12


class ClaimingStrategy:
    """Collects every Fetch and claims those with a mark."""

    api_versions: Mapping[int, range] = {}

    def collects(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.FETCH

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return b"claim" in body

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        raise AssertionError("the exchange does not answer")


class Ends:
    """Both ends of a connection: the bytes sent to each, and the claimed requests."""

    def __init__(
        self, *, max_in_flight: int = 100, max_request_bytes: int = 1 << 20, admission: ClientAdmission | None = None
    ) -> None:
        self.client = bytearray()
        self.broker = bytearray()
        self.claimed: list[ClaimedRequest] = []
        self.dialled = 0
        self.connects = True
        self.counters = Counters()
        self.exchange = RequestPipeline(
            strategy=ClaimingStrategy(),
            advertise=lambda node_id, host, port: ("shim", 9000 + node_id),
            counters=self.counters,
            to_client=self.client.extend,
            to_broker=self.broker.extend,
            claimed=self.claimed.append,
            dial=self._dial,
            admission=admission or admitted_client(),
            max_request_bytes=max_request_bytes,
            max_in_flight=max_in_flight,
        )

    def _dial(self) -> None:
        self.dialled += 1
        if self.connects:
            self.exchange.release(Hold.CONNECTING)

    def answers(self) -> list[bytes]:
        return frames(self.client)

    def requests(self) -> list[bytes]:
        return frames(self.broker)


def frames(data: bytearray) -> list[bytes]:
    """Takes the complete frames out of ``data``."""
    found = []
    while len(data) >= 4:
        (size,) = struct.unpack_from(">i", data)
        assert len(data) >= 4 + size, "a frame is cut"
        found.append(bytes(data[4 : 4 + size]))
        del data[: 4 + size]
    assert not data
    return found


def request(key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A request with a known client id; the header is right for the versions used here."""
    flexible = b"\0" if (key, version) in {(ApiKey.FETCH, 12), (ApiKey.PRODUCE, 9), (ApiKey.METADATA, 9)} else b""
    head = struct.pack(">hhih", key, version, correlation_id, 2) + b"me" + flexible
    return frame(head, body)


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return frame(struct.pack(">i", correlation_id), body)


def produce(version: int, acks: int) -> bytes:
    """The body of a Produce up to its acks, then some records."""
    transactional_id = b"" if version < 3 else b"\x05tx-1" if version >= 9 else b"\0\x04tx-1"
    return transactional_id + struct.pack(">h", acks) + b"records" * 30


def test_answers_go_to_their_requests() -> None:
    ends = Ends()
    ends.exchange.from_client(request(HEARTBEAT, 0, 7, b"one") + request(HEARTBEAT, 0, 8, b"two"))
    assert ends.requests() == [request(HEARTBEAT, 0, 7, b"one")[4:], request(HEARTBEAT, 0, 8, b"two")[4:]]
    ends.exchange.from_broker(answer(7, b"ONE") + answer(8, b"TWO"))
    assert ends.answers() == [answer(7, b"ONE")[4:], answer(8, b"TWO")[4:]]
    assert ends.counters["requests"] == 2


@pytest.mark.parametrize(("sent", "said"), [(7, 8), (7, -7)])
def test_an_answer_out_of_order_ends_the_connection(sent: int, said: int) -> None:
    ends = Ends()
    ends.exchange.from_client(request(HEARTBEAT, 0, sent))
    with pytest.raises(ProtocolError, match="out of order"):
        ends.exchange.from_broker(answer(said))


def test_an_answer_without_a_request_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="without a matching request"):
        Ends().exchange.from_broker(answer(1))


@pytest.mark.parametrize("length", [-1, 0, 7, (1 << 20) + 1, (1 << 31) - 1])
def test_a_request_of_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        Ends().exchange.from_client(struct.pack(">i", length) + bytes(8))


@pytest.mark.parametrize("version", [0, 2, 3, 7, 9, 12])
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_produce_with_acks_0_has_no_answer(version: int, acks: int) -> None:
    head = struct.pack(">hhih", 0, version, 1, 2) + b"me" + (b"\0" if version >= 9 else b"")
    sent = frame(head, produce(version, acks))
    ends = Ends()
    for byte in sent:
        ends.exchange.from_client(bytes([byte]))
    assert bytes(ends.broker) == sent
    ends.exchange.from_client(request(HEARTBEAT, 0, 2))
    if acks:
        ends.exchange.from_broker(answer(1) if version < 9 else frame(struct.pack(">i", 1), b"\0\x01" + bytes(4) + b"\0"))
    ends.exchange.from_broker(answer(2))
    assert len(ends.answers()) == (2 if acks else 1)


def test_a_produce_without_its_acks_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="does not parse"):
        Ends().exchange.from_client(frame(struct.pack(">hhih", 0, 3, 1, -1), b"\x7f\xff"))


def test_addresses_in_metadata_are_replaced_and_the_header_is_kept() -> None:
    ends = Ends()
    ends.exchange.from_client(request(ApiKey.METADATA, 9, 5))
    body = encode_response(MetadataResponse((MetadataBroker(1, "broker", 1234),), ()), 9)
    ends.exchange.from_broker(frame(encode_response_header(ApiKey.METADATA, 9, 5), body))
    (told,) = ends.answers()
    assert told[:5] == b"\0\0\0\x05\0"
    assert decode_response(told[5:], 9).brokers == (MetadataBroker(1, "shim", 9001),)


def test_api_versions_announce_the_shim() -> None:
    ends = Ends()
    ends.exchange.from_client(request(ApiKey.API_VERSIONS, 2, 5))
    ends.exchange.from_broker(answer(5, api_versions.encode_response(api_versions.ApiVersionsResponse(), 2)))
    (told,) = ends.answers()
    assert api_versions.decode_response(told[4:], 2).announces_direct_fetch


def test_an_answer_that_must_be_read_is_bounded() -> None:
    ends = Ends()
    ends.exchange.from_client(request(ApiKey.METADATA, 9, 5) + request(ApiKey.METADATA, 9, 6))
    ends.exchange.from_broker(struct.pack(">ii", 100 << 20, 5))
    ends = Ends()
    ends.exchange.from_client(request(ApiKey.METADATA, 9, 5))
    with pytest.raises(ProtocolError, match="exceeds the limit"):
        ends.exchange.from_broker(struct.pack(">ii", (100 << 20) + 1, 5))


def test_an_answer_that_passes_may_have_any_length() -> None:
    ends = Ends()
    ends.exchange.from_client(request(HEARTBEAT, 0, 5))
    begins = struct.pack(">ii", (1 << 31) - 1, 5)
    ends.exchange.from_broker(begins)
    assert bytes(ends.client) == begins


def test_an_unclaimed_fetch_continues_unchanged() -> None:
    ends = Ends()
    sent = request(ApiKey.FETCH, 12, 3, b"ordinary")
    ends.exchange.from_client(sent)
    assert bytes(ends.broker) == sent
    ends.exchange.from_broker(answer(3, b"\0records"))
    assert ends.answers() == [answer(3, b"\0records")[4:]]


def claiming(*numbers: int) -> bytes:
    """Returns requests that the strategy claims."""
    return b"".join(request(ApiKey.FETCH, 12, number, b"claim") for number in numbers)


def granted(number: int) -> bytes:
    """Returns the frame, without its length, that answers one of them."""
    return struct.pack(">i", number) + b"\0granted"


@pytest.mark.parametrize("waiting", [request(HEARTBEAT, 0, 4), request(ApiKey.FETCH, 12, 4, b"ordinary")])
def test_other_requests_wait_while_a_claimed_one_is_answered(waiting: bytes) -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(3) + waiting + request(HEARTBEAT, 0, 5))
    (claim,) = ends.claimed
    assert claim.request.header == RequestHeader(ApiKey.FETCH, 12, 3, "me")
    assert bytes(claim.request.body) == b"claim"
    assert not ends.broker
    assert ends.exchange.holds == {Hold.ANSWERING}
    assert ends.exchange.kept_back
    ends.exchange.answered(claim, b"granted")
    assert ends.answers() == [granted(3)]
    assert ends.requests() == [waiting[4:], request(HEARTBEAT, 0, 5)[4:]]
    assert not ends.exchange.kept_back
    assert ends.counters["requests"] == 3


def test_claimed_requests_run_in_parallel_and_are_answered_in_order() -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(1, 2, 3))
    assert [claim.request.header.correlation_id for claim in ends.claimed] == [1, 2, 3]
    assert not ends.exchange.holds
    one, two, three = ends.claimed
    ends.exchange.answered(three, b"granted")
    ends.exchange.answered(two, b"granted")
    assert not ends.answers()
    ends.exchange.answered(one, b"granted")
    assert ends.answers() == [granted(1), granted(2), granted(3)]


def test_at_most_eight_claimed_requests_run_at_once() -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(*range(10)))
    assert len(ends.claimed) == 8
    assert ends.exchange.holds == {Hold.ANSWERING}
    ends.exchange.answered(ends.claimed[0], b"granted")
    assert len(ends.claimed) == 9
    assert ends.exchange.holds == {Hold.ANSWERING}
    ends.exchange.answered(ends.claimed[1], b"granted")
    ends.exchange.answered(ends.claimed[2], b"granted")
    assert len(ends.claimed) == 10
    assert not ends.exchange.holds


def test_others_wait_until_no_claimed_request_is_open() -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(1, 2) + request(HEARTBEAT, 0, 3) + claiming(4))
    for claim in tuple(ends.claimed):
        assert not ends.broker
        assert ends.exchange.holds == {Hold.ANSWERING}
        ends.exchange.answered(claim, b"granted")
    assert ends.requests() == [request(HEARTBEAT, 0, 3)[4:]]
    assert len(ends.claimed) == 3
    ends.exchange.answered(ends.claimed[2], b"granted")
    assert ends.answers() == [granted(1), granted(2)]
    ends.exchange.from_broker(answer(3))
    assert ends.answers() == [answer(3)[4:], granted(4)]


def test_an_unclaimed_fetch_waits_for_all_claimed_ones() -> None:
    ends = Ends()
    ordinary = request(ApiKey.FETCH, 12, 3, b"ordinary")
    ends.exchange.from_client(claiming(1, 2) + ordinary)
    ends.exchange.answered(ends.claimed[0], b"granted")
    assert not ends.broker
    ends.exchange.answered(ends.claimed[1], b"granted")
    assert bytes(ends.broker) == ordinary


def test_a_claimed_request_can_go_to_the_broker_unchanged() -> None:
    ends = Ends()
    sent = request(ApiKey.FETCH, 12, 3, b"claim")
    ends.exchange.from_client(sent)
    ends.exchange.answered(ends.claimed[0], None)
    assert bytes(ends.broker) == sent
    ends.exchange.from_broker(answer(3, b"\0records"))
    assert ends.answers() == [answer(3, b"\0records")[4:]]


@pytest.mark.parametrize("cut", [2, 9, 12])
def test_claimed_requests_for_the_broker_keep_their_place(cut: int) -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(1, 2, 3))
    one, two, three = ends.claimed
    ends.exchange.answered(two, b"granted")
    ends.exchange.answered(three, None)
    assert not ends.broker
    ends.exchange.answered(one, None)
    assert ends.requests() == [claiming(1)[4:]], "the third one's answer would come before the second one's"
    records = answer(1, b"\0records")
    ends.exchange.from_broker(records[:cut])
    assert granted(2) not in bytes(ends.client)
    ends.exchange.from_broker(records[cut:])
    assert ends.answers() == [records[4:], granted(2)]
    assert ends.requests() == [claiming(3)[4:]]


@pytest.mark.parametrize("cut", [2, 9, 16, 60])
def test_a_question_does_not_cut_a_request_that_is_streamed(cut: int) -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(1))
    (claim,) = ends.claimed
    ends.exchange.answered(claim, b"pending")
    streamed = request(HEARTBEAT, 0, 2, bytes(80))
    told: list[bytes] = []
    ends.exchange.from_client(streamed[:cut])
    for question in (b"one", b"two"):  # a decision goes on after its request was answered "pending"
        ends.exchange.ask(claim, ApiKey.FETCH, 12, question, lambda body: told.append(bytes(body)))
    ends.exchange.from_client(streamed[cut:] + request(HEARTBEAT, 0, 3))
    requests = ends.requests()
    assert [one for one in requests if RequestHead.parse(memoryview(one)).api_key == HEARTBEAT] == [
        streamed[4:],
        request(HEARTBEAT, 0, 3)[4:],
    ]
    for one in requests:
        ends.exchange.from_broker(answer(RequestHead.parse(memoryview(one)).correlation_id, b"\0said"))
    assert told == [b"said", b"said"]
    assert [one[:4] for one in ends.answers()] == [struct.pack(">i", number) for number in (1, 2, 3)]


def test_probes_of_several_claimed_requests_interleave() -> None:
    ends = Ends()
    ends.exchange.from_client(claiming(1, 2))
    one, two = ends.claimed
    told: list[tuple[str, bytes]] = []
    for name, claim in (("one", one), ("two", two), ("one", one)):
        ends.exchange.ask(claim, ApiKey.FETCH, 12, name.encode(), lambda body, name=name: told.append((name, bytes(body))))
    ids = [RequestHead.parse(memoryview(probe)).correlation_id for probe in ends.requests()]
    answers = b"".join(answer(own, b"\0%d" % number) for number, own in enumerate(ids))
    ends.exchange.answered(one, b"granted")
    assert ends.answers() == [granted(1)], "questions of ours are no answers that the client waits for"
    ends.exchange.from_broker(answers[:20])
    ends.exchange.answered(two, b"granted")
    assert ends.answers() == [granted(2)]
    ends.exchange.from_broker(answers[20:])
    assert told == [("one", b"0"), ("two", b"1"), ("one", b"2")]


def test_the_shims_probes_do_not_crowd_a_client_out() -> None:
    ends = Ends(max_in_flight=2)
    ends.exchange.from_client(claiming(1))
    for _ in range(3):
        ends.exchange.ask(ends.claimed[0], ApiKey.FETCH, 12, b"probe", lambda _body: None)
    ends.exchange.answered(ends.claimed[0], b"granted")
    ends.exchange.from_client(request(HEARTBEAT, 0, 2))
    assert not ends.exchange.holds
    assert len(ends.requests()) == 4


def test_probes_have_the_clients_id_and_their_answers_never_reach_it() -> None:
    ends = Ends()
    ends.exchange.from_client(request(HEARTBEAT, 0, 2) + request(ApiKey.FETCH, 12, 3, b"claim"))
    told: list[bytes] = []
    ends.exchange.ask(ends.claimed[0], ApiKey.FETCH, 12, b"probe", lambda body: told.append(bytes(body)))
    _, probe = ends.requests()
    own_id = RequestHead.parse(memoryview(probe)).correlation_id
    assert probe == encode_request_header(RequestHeader(ApiKey.FETCH, 12, own_id, "me")) + b"probe"
    ends.exchange.from_broker(answer(2))
    ends.exchange.from_broker(answer(own_id, b"\0numbers"))
    assert told == [b"numbers"]
    assert ends.answers() == [answer(2)[4:]]


@pytest.mark.parametrize("cut", [6, 9])
def test_a_part_of_a_probes_answer_delays_no_answer(cut: int) -> None:
    """The strategy may have given up on the probe."""
    ends = Ends()
    ends.exchange.from_client(claiming(3))
    ends.exchange.ask(ends.claimed[0], ApiKey.FETCH, 12, b"probe", lambda _body: None)
    (probe,) = ends.requests()
    ends.exchange.from_broker(answer(RequestHead.parse(memoryview(probe)).correlation_id, b"\0numbers")[:cut])
    ends.exchange.answered(ends.claimed[0], b"granted")
    assert ends.answers() == [granted(3)]


@pytest.mark.parametrize("cut", [6, 9])
def test_the_shims_answer_waits_for_those_to_earlier_requests(cut: int) -> None:
    ends = Ends()
    ends.exchange.from_client(request(HEARTBEAT, 0, 2) + request(ApiKey.FETCH, 12, 3, b"claim"))
    ends.exchange.answered(ends.claimed[0], b"granted")
    assert not ends.answers()
    late = answer(2, b"late")
    ends.exchange.from_broker(late[:cut])
    assert not ends.client or bytes(ends.client) == late[:cut]
    ends.exchange.from_broker(late[cut:])
    assert ends.answers() == [late[4:], b"\0\0\0\x03\0granted"]


def test_many_requests_wait_until_there_is_room() -> None:
    ends = Ends(max_in_flight=4)
    ends.exchange.from_client(b"".join(request(HEARTBEAT, 0, number) for number in range(6)))
    assert len(ends.requests()) == 4
    assert ends.exchange.holds == {Hold.CROWDED}
    for number in range(3):
        ends.exchange.from_broker(answer(number))
    assert len(ends.requests()) == 2
    assert not ends.exchange.holds


def own_question(data: bytearray) -> bytes:
    """Takes the shim's probe off the front of the bytes for the broker."""
    size = struct.unpack_from(">i", data)[0] + 4
    sent = bytes(data[:size])
    del data[:size]
    header, body = decode_request_header(sent[4:])
    served = MetadataResponse((MetadataBroker(1, "broker", 9092),), ())
    assert (header.api_key, header.api_version, bytes(body)) == (ApiKey.METADATA, QUESTION_VERSION, QUESTION)
    return frame(struct.pack(">i", header.correlation_id) + b"\0", encode_response(served, QUESTION_VERSION))


def test_the_broker_is_connected_only_after_a_whole_header() -> None:
    ends = Ends(admission=ClientAdmission())
    ends.connects = False
    sent = request(HEARTBEAT, 0, 1, b"x" * 100)
    ends.exchange.from_client(sent[:15])
    assert not ends.dialled
    ends.exchange.from_client(sent[15:])
    ends.exchange.from_client(request(HEARTBEAT, 0, 2))
    assert ends.dialled == 1
    assert ends.exchange.holds == {Hold.CONNECTING}
    assert not ends.broker
    ends.exchange.release(Hold.CONNECTING)
    own_question(ends.broker)
    assert len(ends.requests()) == 2
    assert ends.dialled == 1


def test_the_broker_is_never_connected_for_an_invalid_request() -> None:
    for sent in (frame(struct.pack(">hhih", HEARTBEAT, 0, 1, 50), b""), frame(struct.pack(">hhi", 17, 0, 1), b"\0\0")):
        ends = Ends(admission=ClientAdmission())
        with pytest.raises(ProtocolError):
            ends.exchange.from_client(sent)
        assert not ends.dialled


def test_a_small_request_follows_the_probe_and_gets_its_answer() -> None:
    admission = ClientAdmission()
    ends = Ends(admission=admission)
    ends.exchange.from_client(request(ApiKey.API_VERSIONS, 0, 1))
    assert len(ends.requests()) == 1
    ends.exchange.from_client(request(HEARTBEAT, 0, 2))
    admits = own_question(ends.broker)
    assert len(ends.requests()) == 1
    ends.exchange.from_broker(frame(struct.pack(">ihi", 1, 0, 0), b""))
    assert not admission.admitted
    ends.exchange.from_broker(admits)
    assert admission.admitted
    ends.exchange.from_broker(answer(2, b"two"))
    assert ends.answers()[1:] == [answer(2, b"two")[4:]]


@pytest.mark.parametrize(
    "sent", [request(ApiKey.FETCH, 12, 1, b"claim"), frame(struct.pack(">hhih", 0, 3, 1, 2) + b"me", produce(3, 0) * 400)]
)
def test_location_requests_and_large_produces_wait_for_admission(sent: bytes) -> None:
    ends = Ends(admission=ClientAdmission())
    ends.exchange.from_client(sent)
    admits = own_question(ends.broker)
    assert not ends.broker
    assert ends.exchange.holds == {Hold.ADMISSION}
    assert ends.exchange.held < 100 + len(sent)
    ends.exchange.from_broker(admits)
    assert bool(ends.claimed) != bool(ends.broker)
    assert not ends.exchange.holds
    assert not ends.answers(), "the answer to the question is nobody else's"


def test_held_bytes_add_up() -> None:
    ends = Ends()
    ends.exchange.hold(Hold.CONNECTING)
    ends.exchange.hold(Hold.CROWDED)
    ends.exchange.from_client(request(HEARTBEAT, 0, 1))
    ends.exchange.release(Hold.CROWDED)
    ends.exchange.release(Hold.CROWDED)
    assert not ends.broker
    ends.exchange.release(Hold.CONNECTING)
    assert len(ends.requests()) == 1


kinds = st.lists(st.sampled_from(["pass", "claim", "claim-ask", "claim-forward", "quiet", "metadata"]), max_size=30)


@settings(deadline=None)
@given(kinds, st.randoms(use_true_random=False))
def test_any_pipeline_is_answered_in_order(script: list[str], random: object) -> None:
    """A client pipelines everything; the broker and the strategy answer at any time, in pieces of any size."""
    rng = random  # a random.Random that hypothesis controls
    ends = Ends(max_in_flight=5)
    stream = deque(_script_requests(script))
    expected = [number for number, kind in enumerate(script) if kind != "quiet"]
    got: list[int] = []
    to_answer: deque[bytes] = deque()
    received = bytearray()
    open_claims: list[ClaimedRequest] = []
    claims_seen = 0
    for _ in range(10_000):
        if stream:
            ends.exchange.from_client(stream.popleft())
        received += ends.broker
        ends.broker.clear()
        to_answer.extend(_broker_answers(received))
        if to_answer and rng.random() < 0.7:
            reply = to_answer.popleft()
            cut = rng.randint(0, len(reply))
            ends.exchange.from_broker(reply[:cut])
            ends.exchange.from_broker(reply[cut:])
        open_claims += ends.claimed[claims_seen:]
        claims_seen = len(ends.claimed)
        assert len(open_claims) <= 8
        if open_claims and rng.random() < 0.7:
            claim = open_claims.pop(rng.randrange(len(open_claims)))
            body = bytes(claim.request.body)
            if body == b"claim-ask":
                ends.exchange.ask(
                    claim, ApiKey.FETCH, 12, b"probe", lambda _, claim=claim: ends.exchange.answered(claim, b"own")
                )
            else:
                ends.exchange.answered(claim, None if body == b"claim-forward" else b"granted")
        got.extend(struct.unpack_from(">i", told)[0] for told in frames(ends.client))
        if got == expected and not stream and not to_answer:
            break
    assert got == expected


def _script_requests(script: list[str]) -> list[bytes]:
    made = []
    for number, kind in enumerate(script):
        if kind == "pass":
            made.append(request(HEARTBEAT, 0, number, b"x" * (number * 7)))
        elif kind == "quiet":
            made.append(request(ApiKey.PRODUCE, 9, number, produce(9, 0)))
        elif kind == "metadata":
            made.append(request(ApiKey.METADATA, 9, number))
        else:
            made.append(request(ApiKey.FETCH, 12, number, kind.encode()))
    return made


def _broker_answers(received: bytearray) -> list[bytes]:
    made = []
    for body in frames(received):
        head = RequestHead.parse(memoryview(body))
        if head.api_key == ApiKey.METADATA:
            metadata = encode_response(MetadataResponse((MetadataBroker(1, "b", 1),), ()), 9)
            made.append(frame(encode_response_header(ApiKey.METADATA, 9, head.correlation_id), metadata))
        elif head.api_key == ApiKey.FETCH:
            made.append(answer(head.correlation_id, b"\0records"))
        elif head.api_key != ApiKey.PRODUCE:
            made.append(answer(head.correlation_id, b"ok"))
    return made
