"""The scripted origin gives the scripted answers, as a client with plain sockets sees them."""

from __future__ import annotations

import gzip
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from kafka_remote_client.model import ByteRange
from kafka_remote_client.testing import (
    Answer,
    Ending,
    Pace,
    ScriptedOrigin,
    error,
    gzipped,
    multipart,
    other_bytes,
    redirect,
    whole_object,
)
from tests.support.locations import ManualClock
from tests.support.store_client import CERTIFICATES

KEY = "a b/c.log"
DATA = bytes(range(256)) * 10


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin({KEY: DATA}) as started:
        yield started


class Client(http.client.HTTPConnection):
    def __init__(self, origin: ScriptedOrigin) -> None:
        super().__init__("127.0.0.1", origin.port, timeout=10)

    def ask(self, target: str, wanted: str | None = "bytes=0-99") -> http.client.HTTPResponse:
        self.request("GET", target, headers={} if wanted is None else {"Range": wanted})
        return self.getresponse()


@pytest.fixture
def client(origin: ScriptedOrigin) -> Iterator[Client]:
    made = Client(origin)
    yield made
    made.close()


@pytest.fixture
def target(origin: ScriptedOrigin) -> str:
    return origin.url_for(KEY).removeprefix(origin.url)


@pytest.mark.parametrize(
    ("wanted", "status", "body", "content_range"),
    [
        ("bytes=0-99", 206, DATA[:100], "bytes 0-99/2560"),
        ("bytes=2500-", 206, DATA[2500:], "bytes 2500-2559/2560"),
        ("bytes=2500-9999", 206, DATA[2500:], "bytes 2500-2559/2560"),
        (None, 200, DATA, None),
        ("bytes=2560-", 416, None, None),
        ("bytes=-5", 416, None, None),
        ("lines=1-2", 416, None, None),
    ],
)
def test_answers_correctly_by_default(
    client: Client, target: str, wanted: str | None, status: int, body: bytes | None, content_range: str | None
) -> None:
    response = client.ask(target, wanted)
    answered = response.read()
    assert (response.status, response.getheader("Content-Range")) == (status, content_range)
    assert body is None or answered == body
    assert response.getheader("Content-Length") == str(len(answered))


def test_an_unknown_object_is_404(client: Client) -> None:
    response = client.ask("/nothing")
    assert response.status == 404
    assert b"<Code>NoSuchKey</Code>" in response.read()


def test_follows_the_script_and_then_the_default(origin: ScriptedOrigin, client: Client, target: str) -> None:
    origin.script(error(503, "SlowDown", Retry_After="3"), error(404))
    statuses = []
    for _ in range(4):
        response = client.ask(target)
        response.read()
        statuses.append((response.status, response.getheader("Retry-After")))
    assert statuses == [(503, "3"), (404, None), (206, None), (206, None)]
    origin.otherwise = error(500, "InternalError")
    assert client.ask(target).status == 500


def test_exchanges_record_requests_and_answers(origin: ScriptedOrigin, client: Client, target: str) -> None:
    origin.script(Answer(ending=Ending.CUT, at=40))
    with pytest.raises(http.client.IncompleteRead):
        client.ask(target).read()
    client.close()
    assert client.ask(target, "bytes=5-9").read() == DATA[5:10]
    assert origin.wait_for(1, finished=True)
    first, second = origin.exchanges
    assert (first.key, first.status, first.sent, first.finished, first.connection) == (KEY, 206, 40, False, 1)
    assert (second.request.headers["range"], second.sent, second.finished, second.connection) == ("bytes=5-9", 5, True, 2)
    assert origin.connections == 2


def test_waiting_for_requests_times_out(origin: ScriptedOrigin) -> None:
    assert not origin.wait_for(1, timeout=0.01)
    assert origin.wait_for(0)


@pytest.mark.parametrize(
    ("answer", "status", "headers", "body"),
    [
        (redirect("http://x/", 307), 307, {"Location": "http://x/"}, b""),
        (whole_object(DATA), 200, {"Content-Range": None}, DATA),
        (other_bytes(b"x" * 50), 206, {"Content-Range": "bytes 0-99/2560", "Content-Length": "50"}, b"x" * 50),
        (gzipped(), 206, {"Content-Encoding": "gzip"}, gzip.compress(DATA[:100], mtime=0)),
        (
            Answer(headers={"Content-Range": "bytes 1-2/3", "X": "y"}),
            206,
            {"Content-Range": "bytes 1-2/3", "X": "y"},
            DATA[:100],
        ),
        (Answer(transform=lambda data: data[::-1]), 206, {}, DATA[:100][::-1]),
        (Answer(chunked=True), 206, {"Transfer-Encoding": "chunked", "Content-Length": None}, DATA[:100]),
        (Answer(pace=Pace(30, 0.001)), 206, {}, DATA[:100]),
        (Answer(delay=0.001), 206, {}, DATA[:100]),
        (error(200, "InternalError"), 200, {"Content-Type": "application/xml"}, None),
    ],
)
def test_the_response_is_the_scripted_answer(
    origin: ScriptedOrigin,
    client: Client,
    target: str,
    answer: Answer,
    status: int,
    headers: dict[str, str | None],
    body: bytes,
) -> None:
    origin.script(answer)
    response = client.ask(target)
    answered = response.read()
    assert response.status == status
    assert {name: response.getheader(name) for name in headers} == headers
    assert body is None or (answered == body if answer.headers.get("Content-Encoding") is None else gzip.decompress(answered))


def test_a_multipart_answer_is_not_a_plain_range(origin: ScriptedOrigin, client: Client, target: str) -> None:
    origin.script(multipart())
    response = client.ask(target)
    assert response.getheader("Content-Type").startswith("multipart/byteranges")
    assert b"Content-Range: bytes 0-0/10" in response.read()


def test_raw_bytes_are_sent_without_a_header(origin: ScriptedOrigin) -> None:
    origin.script(Answer(raw=b"not http\r\n"))
    with socket.create_connection(("127.0.0.1", origin.port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = b""
        while piece := plain.recv(100):
            answer += piece
    assert answer == b"not http\r\n"


def test_a_reset_ending_resets_the_connection(origin: ScriptedOrigin, client: Client, target: str) -> None:
    origin.script(Answer(ending=Ending.RESET, at=10))
    with pytest.raises(ConnectionResetError):
        client.ask(target).read()


@pytest.mark.parametrize("answer", [Answer(silent=True), Answer(ending=Ending.STALL, at=10), Answer(pace=Pace(1, 60.0))])
def test_a_stall_lasts_until_it_is_released(origin: ScriptedOrigin, client: Client, target: str, answer: Answer) -> None:
    origin.script(answer)
    outcome: list[type[BaseException]] = []

    def read() -> None:
        try:
            client.ask(target).read()
        except (http.client.HTTPException, OSError) as ended:
            outcome.append(type(ended))

    reader = threading.Thread(target=read)
    reader.start()
    assert origin.wait_for(1)
    assert reader.is_alive()
    origin.release()
    reader.join(10)
    assert outcome
    assert issubclass(outcome[0], (http.client.HTTPException, OSError))


def test_cut_connections_leaves_the_origin_running(origin: ScriptedOrigin, client: Client, target: str) -> None:
    client.ask(target).read()
    origin.cut_connections()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        client.ask(target)
    client.close()
    assert client.ask(target).status == 206


def test_restarts_on_the_same_port_and_keeps_its_script(origin: ScriptedOrigin, client: Client, target: str) -> None:
    origin.script(error(503))
    origin.stop()
    with pytest.raises(ConnectionRefusedError):
        client.ask(target)
    client.close()
    origin.start()
    assert client.ask(target).status == 503


def test_bytes_that_are_not_a_request_end_the_connection(origin: ScriptedOrigin) -> None:
    with socket.create_connection(("127.0.0.1", origin.port), timeout=10) as plain:
        plain.sendall(b"hello\r\n\r\n")
        assert plain.recv(10) == b""
    assert origin.exchanges == []


def test_speaks_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "good.pem")
    with ScriptedOrigin({KEY: DATA}, ssl_context=context) as origin:
        assert origin.url == f"https://{origin.authority}"
        client = http.client.HTTPSConnection(
            "127.0.0.1", origin.port, context=ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem")), timeout=10
        )
        client.request("GET", origin.url_for(KEY).removeprefix(origin.url), headers={"Range": "bytes=0-9"})
        assert client.getresponse().read() == DATA[:10]
        client.close()


def test_urls_have_a_signature_that_tests_can_search_for() -> None:
    origin = ScriptedOrigin(signature="CANARY", host="::1")
    assert origin.url == "http://[::1]:0"
    assert origin.url_for("a b") == "http://[::1]:0/a%20b?X-Amz-Expires=120&X-Amz-Signature=CANARY"


def test_a_rule_answers_matching_requests_a_given_number_of_times(client: Client, target: str, origin: ScriptedOrigin) -> None:
    origin.rule(error(503, "SlowDown"), matches=lambda request: request.headers.get("range") == "bytes=5-9", times=1)
    origin.rule(gzipped(), matches=lambda request: "c.log" not in request.target)
    statuses = []
    for wanted in ("bytes=0-4", "bytes=5-9", "bytes=5-9"):
        response = client.ask(target, wanted)
        response.read()
        statuses.append(response.status)
    assert statuses == [206, 503, 206]
    assert [exchange.status for exchange in origin.fired] == [503]


def test_the_script_comes_before_the_rules(client: Client, target: str, origin: ScriptedOrigin) -> None:
    origin.rule(error(500))
    origin.script(error(404))
    for status in (404, 500, 500):
        response = client.ask(target)
        response.read()
        assert response.status == status


def test_a_reset_origin_answers_correctly_without_history(origin: ScriptedOrigin, target: str) -> None:
    origin.script(Answer(silent=True), error(500))
    origin.rule(error(500))
    stalled = Client(origin)
    stalled.request("GET", target)
    assert origin.wait_for(1)
    origin.reset()
    with pytest.raises((http.client.HTTPException, OSError)):
        stalled.getresponse()
    stalled.close()
    client = Client(origin)
    response = client.ask(target)
    assert (response.status, response.read()) == (206, DATA[:100])
    client.close()
    assert len(origin.exchanges) == 1
    assert not origin.fired


def test_an_origin_with_a_secret_requires_signatures() -> None:
    clock = ManualClock()
    with ScriptedOrigin({KEY: DATA}, secret=b"s" * 16, clock=clock) as origin:
        signed = origin.signer.sign(KEY, ByteRange(0, 100), 10.0).url.removeprefix(origin.url)
        client = Client(origin)
        seen = []
        for asked, wanted in ((signed, "bytes=0-99"), (signed, "bytes=0-9"), (signed[:-1] + "z", "bytes=0-99"), (KEY, None)):
            response = client.ask(quote("/" + asked if asked == KEY else asked, safe="/?=&%"), wanted)
            body = response.read()
            seen.append((response.status, b"<Code>" in body))
        clock.now += 11
        response = client.ask(signed)
        assert (response.status, b"Request has expired" in response.read()) == (403, True)
        origin.use_secret(b"t" * 16)
        assert (
            client.ask(origin.signer.sign(KEY, ByteRange(0, 9), 10.0).url.removeprefix(origin.url), "bytes=0-8").read()
            == DATA[:9]
        )
        client.close()
        assert seen == [(206, False), (403, True), (403, True), (403, True)]


def test_an_origin_without_a_secret_signs_nothing(origin: ScriptedOrigin) -> None:
    with pytest.raises(RuntimeError, match="checks no signatures"):
        _ = origin.signer
