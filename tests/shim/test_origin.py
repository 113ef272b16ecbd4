from __future__ import annotations

import http.client
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ObjectNotFoundError, RemoteStorageUnavailableError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.shim.origin import ObjectOrigin, OriginFaults, OriginStatistics
from kafka_remote_client.shim.signing import UrlSigner
from tests.support.store_client import CERTIFICATES

SECRET = b"0123456789abcdef"
KEY = "topic/segment 1.log"
DATA = bytes(range(256)) * 20_000
RANGE = ByteRange(1000, 5000)


class SteppedClock(SystemClock):
    """A wall clock that only the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_795_000_000_000

    def time_ms(self) -> int:
        return self.now_ms


class StoreOfOne:
    """A RemoteObjectStore with one object, which a test can break."""

    def __init__(self) -> None:
        self.data = DATA
        self.broken = False
        self.breaks_after: int | None = None

    def size(self, key: str) -> int:
        if self.broken:
            raise RemoteStorageUnavailableError("broken")
        if key != KEY:
            raise ObjectNotFoundError(key)
        return len(self.data)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if self.breaks_after is not None and end > self.breaks_after:
            raise RemoteStorageUnavailableError("broken")
        return self.data[start:end]


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root" / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    return tmp_path / "root"


@pytest.fixture
def origin(root: Path, clock: SteppedClock) -> Iterator[ObjectOrigin]:
    with ObjectOrigin(root, SECRET, clock=clock) as started:
        yield started


@pytest.fixture
def store() -> StoreOfOne:
    return StoreOfOne()


@pytest.fixture
def store_origin(store: StoreOfOne, clock: SteppedClock) -> Iterator[ObjectOrigin]:
    with ObjectOrigin(store, SECRET, clock=clock) as started:
        yield started


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self.body = response.read()


def ask(origin: ObjectOrigin, url: str, byte_range: ByteRange | None = RANGE, method: str = "GET", **headers: str) -> Reply:
    host, port = origin.url.partition("://")[2].rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
    if byte_range is not None:
        headers["Range"] = f"bytes={byte_range.start}-{byte_range.end - 1}"
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, url.removeprefix(origin.url), headers=named)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def sign(origin: ObjectOrigin, key: str = KEY, byte_range: ByteRange = RANGE, ttl: float = 60) -> str:
    return origin.signer.sign(key, byte_range, ttl).url


@pytest.mark.parametrize("kind", ["origin", "store_origin"])
def test_a_signed_range_is_served(kind: str, request: pytest.FixtureRequest) -> None:
    origin = request.getfixturevalue(kind)
    reply = ask(origin, sign(origin))
    assert (reply.status, reply.body) == (206, DATA[1000:5000])
    assert reply.headers["content-range"] == f"bytes 1000-4999/{len(DATA)}"
    assert reply.headers["content-length"] == "4000"
    assert reply.headers["date"] == "Wed, 18 Nov 2026 11:06:40 GMT"
    assert reply.headers["etag"].startswith('"')
    origin.stop()  # after which everything is counted
    assert origin.statistics() == OriginStatistics(connections=1, requests=1, bytes_sent=4000, statuses={206: 1})


@pytest.mark.parametrize("kind", ["origin", "store_origin"])
def test_ranges_of_many_pieces_are_served_up_to_the_objects_end(kind: str, request: pytest.FixtureRequest) -> None:
    origin = request.getfixturevalue(kind)
    wide = ByteRange(1, len(DATA) + 1000)
    reply = ask(origin, sign(origin, byte_range=wide), wide)
    assert (reply.status, reply.body) == (206, DATA[1:])
    assert reply.headers["content-range"] == f"bytes 1-{len(DATA) - 1}/{len(DATA)}"
    origin.stop()  # after which everything is counted
    assert origin.statistics().bytes_sent == len(DATA) - 1


def test_several_requests_are_served_on_one_connection(origin: ObjectOrigin) -> None:
    connection = http.client.HTTPConnection(*origin.url.removeprefix("http://").split(":"), timeout=10)
    for start in range(0, 5000, 1000):
        byte_range = ByteRange(start, start + 1000)
        target = sign(origin, byte_range=byte_range).removeprefix(origin.url)
        connection.request("GET", target, headers={"Range": f"bytes={start}-{start + 999}"})
        assert connection.getresponse().read() == DATA[start : start + 1000]
    connection.close()
    assert origin.statistics().connections == 1


def test_the_connection_closes_if_the_client_requests_it(origin: ObjectOrigin) -> None:
    reply = ask(origin, sign(origin), Connection="close")
    assert reply.headers["connection"] == "close"


def refused(reply: Reply, status: int, code: str, message: str) -> None:
    assert reply.status == status
    assert reply.headers["content-type"] == "application/xml"
    assert f"<Code>{code}</Code><Message>{message}</Message>".encode() in reply.body


def test_s06_a_request_without_a_signature_is_refused(origin: ObjectOrigin) -> None:
    refused(ask(origin, sign(origin).partition("?")[0]), 403, "AccessDenied", "Access Denied")


def test_s06_a_damaged_signature_is_refused(origin: ObjectOrigin) -> None:
    url = sign(origin)
    damaged = url[:-1] + ("0" if url[-1] != "0" else "1")
    refused(ask(origin, damaged), 403, "SignatureDoesNotMatch", "The signature does not match the request")


def test_s06_another_key_method_or_range_is_refused(origin: ObjectOrigin, root: Path) -> None:
    (root / "topic" / "other.log").write_bytes(DATA)
    assert ask(origin, sign(origin).replace("segment%201", "other")).status == 403
    for method in ("PUT", "DELETE", "POST"):
        assert ask(origin, sign(origin), method=method, Content_Length="0").status == 403
    head = ask(origin, sign(origin), method="HEAD")
    assert (head.status, head.body) == (403, b"")
    for other in (None, ByteRange(1000, 4999), ByteRange(0, 5000)):
        refused(ask(origin, sign(origin), other), 403, "AccessDenied", "The range is not the signed one")
    origin.stop()
    assert origin.statistics().bytes_sent == 0


def test_an_expired_url_is_refused_as_s3_does(origin: ObjectOrigin, clock: SteppedClock) -> None:
    url = sign(origin, ttl=1)
    assert ask(origin, url).status == 206
    clock.now_ms += 1000
    refused(ask(origin, url), 403, "AccessDenied", "Request has expired")


@pytest.mark.parametrize("kind", ["origin", "store_origin"])
def test_a_missing_object_is_404(kind: str, request: pytest.FixtureRequest) -> None:
    origin = request.getfixturevalue(kind)
    refused(ask(origin, sign(origin, "topic/absent.log")), 404, "NoSuchKey", "The specified key does not exist.")


def test_s17_links_and_devices_are_404_too(origin: ObjectOrigin, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    for key in ("link", "up/secret", "fifo", "topic"):
        assert ask(origin, sign(origin, key)).status == 404


def test_a_range_past_the_end_is_416(origin: ObjectOrigin) -> None:
    past = ByteRange(len(DATA), len(DATA) + 1)
    refused(ask(origin, sign(origin, byte_range=past), past), 416, "InvalidRange", "The requested range is not satisfiable")


@pytest.mark.parametrize("kind", ["origin", "store_origin"])
def test_if_match_names_the_version(kind: str, request: pytest.FixtureRequest) -> None:
    origin = request.getfixturevalue(kind)
    etag = ask(origin, sign(origin)).headers["etag"]
    assert ask(origin, sign(origin), If_Match=etag).status == 206
    assert ask(origin, sign(origin), If_Match="*").status == 206
    refused(ask(origin, sign(origin), If_Match='"other"'), 412, "PreconditionFailed", "Another version")


def test_other_contents_are_another_version(origin: ObjectOrigin, root: Path) -> None:
    etag = ask(origin, sign(origin)).headers["etag"]
    (root / KEY).write_bytes(DATA + b"more")
    assert ask(origin, sign(origin), If_Match=etag).status == 412


def test_a_missing_root_is_500_and_one_without_rights_403(
    origin: ObjectOrigin, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sign(origin)
    root.rename(root.with_name("elsewhere"))
    refused(ask(origin, url), 500, "InternalError", "The store failed")
    root.with_name("elsewhere").rename(root)

    def deny(*_: object, **__: object) -> int:
        raise PermissionError(13, "denied")

    with monkeypatch.context() as patch:
        patch.setattr("kafka_remote_client.safe_open.os.open", deny)
        refused(ask(origin, url), 403, "AccessDenied", "Access Denied")
    assert ask(origin, url).status == 206


def test_a_broken_store_is_500(store_origin: ObjectOrigin, store: StoreOfOne) -> None:
    store.broken = True
    assert ask(store_origin, sign(store_origin)).status == 500


def test_a_store_that_breaks_in_the_middle_cuts_the_answer(store_origin: ObjectOrigin, store: StoreOfOne) -> None:
    store.breaks_after = 2 * 1024 * 1024
    whole = ByteRange(0, len(DATA))
    with pytest.raises(http.client.IncompleteRead):
        ask(store_origin, sign(store_origin, byte_range=whole), whole)


def test_a_file_that_shrinks_during_the_answer_cuts_it(origin: ObjectOrigin, monkeypatch: pytest.MonkeyPatch) -> None:
    really_send = socket.socket.sendfile
    monkeypatch.setattr(socket.socket, "sendfile", lambda self, file, at, count: really_send(self, file, at, count // 2))
    with pytest.raises(http.client.IncompleteRead):
        ask(origin, sign(origin))


@pytest.mark.parametrize(
    "raw", [b"\x16\x03\x01\x02\x00", b"GET /CANARY\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
def test_bytes_that_are_not_a_request_are_400_and_close(origin: ObjectOrigin, raw: bytes) -> None:
    host, port = origin.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(raw + b"\r\n")
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Connection: close" in answer
    assert b"CANARY" not in answer


def test_s05_no_log_line_shows_a_query(origin: ObjectOrigin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = sign(origin)
    for method in ("GET", "PUT"):
        ask(origin, url, method=method)
    messages = " ".join(record.getMessage() for record in caplog.records)
    assert "segment%201.log" in messages
    assert "signature" not in messages
    assert url[-64:] not in messages


def test_fault_down_cuts_every_connection(origin: ObjectOrigin) -> None:
    url = sign(origin)
    origin.faults.down = True
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        ask(origin, url)
    assert origin.statistics().requests == 0
    origin.faults.down = False
    assert ask(origin, url).status == 206


def test_fault_down_cuts_in_the_middle_of_a_body_too(store_origin: ObjectOrigin, store: StoreOfOne) -> None:
    really_get = store.get_range

    def get_range(key: str, start: int, end: int) -> bytes:
        store_origin.faults.down = True
        return really_get(key, start, end)

    store.get_range = get_range
    whole = ByteRange(0, len(DATA))
    with pytest.raises(http.client.IncompleteRead):
        ask(store_origin, sign(store_origin, byte_range=whole), whole)


def test_fault_delay_holds_every_answer_back(root: Path) -> None:
    waits: list[float] = []

    class Recording(SystemClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            waits.append(seconds)
            return False

    with ObjectOrigin(root, SECRET, clock=Recording(), faults=OriginFaults(delay=6.0)) as origin:
        assert ask(origin, sign(origin)).status == 206
        origin.faults.delay = 0.0
        assert ask(origin, sign(origin)).status == 206
    assert waits == [6.0]


def test_stopping_ends_a_delay(origin: ObjectOrigin) -> None:
    origin.faults.delay = 60.0
    url = sign(origin)
    outcome: list[object] = []

    def wait() -> None:
        try:
            outcome.append(ask(origin, url).status)
        except (http.client.HTTPException, OSError):
            outcome.append("cut")

    client = threading.Thread(target=wait)
    client.start()
    while not origin.statistics().connections:
        client.join(0.01)
    origin.stop()
    client.join(10)
    assert outcome == ["cut"]


def test_a_store_behind_the_origin_decides_the_answer(origin: ObjectOrigin) -> None:
    sizes: list[int] = []

    class EverySecond:
        def answers(self, size: int, ended: threading.Event) -> float | None:
            sizes.append(size)
            return 0.0 if len(sizes) % 2 == 1 else None

    origin.faults.store = EverySecond()
    assert ask(origin, sign(origin)).status == 206
    refused(ask(origin, sign(origin)), 503, "SlowDown", "Reduce your request rate")
    refused(ask(origin, sign(origin).partition("?")[0]), 403, "AccessDenied", "Access Denied")
    assert len(sizes) == 2
    assert all(sizes)


class PassedTime(SteppedClock):
    """A clock on which only waiting takes time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.now += seconds
        return event.is_set()


def test_a_body_arrives_at_the_rate_of_the_store(root: Path) -> None:
    clock, wide = PassedTime(), ByteRange(5, (2 << 20) + 5)
    arrived: list[float] = []

    class TwoSeconds:
        def answers(self, size: int, ended: threading.Event) -> float | None:
            assert size == wide.size
            return 2.0

    class Timed(StoreOfOne):
        def get_range(self, key: str, start: int, end: int) -> bytes:
            arrived.append(clock.now)
            return super().get_range(key, start, end)

    with ObjectOrigin(Timed(), SECRET, clock=clock, faults=OriginFaults(store=TwoSeconds())) as origin:
        assert ask(origin, sign(origin, byte_range=wide), wide).body == DATA[5 : (2 << 20) + 5]
    assert arrived == [1.0, 2.0]


def test_fault_expire_everything_refuses_good_and_bad_urls(origin: ObjectOrigin) -> None:
    origin.faults.expire_everything = True
    refused(ask(origin, sign(origin)), 403, "AccessDenied", "Request has expired")
    refused(ask(origin, sign(origin).partition("?")[0]), 403, "AccessDenied", "Access Denied")


def test_the_origin_restarts_on_the_same_port(origin: ObjectOrigin) -> None:
    url = sign(origin)
    origin.stop()
    origin.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(origin, url)
    origin.start()
    assert ask(origin, url).status == 206


def test_serves_over_tls(root: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "good.pem")
    with ObjectOrigin(root, SECRET, ssl_context=context) as origin:
        assert origin.url.startswith("https://127.0.0.1:")
        whole = ByteRange(0, len(DATA))
        url = sign(origin, byte_range=whole)
        client = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
        port = int(origin.url.rpartition(":")[2])
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=client, timeout=10)
        connection.request("GET", url.removeprefix(origin.url), headers={"Range": f"bytes=0-{len(DATA) - 1}"})
        assert connection.getresponse().read() == DATA
        connection.close()


def test_urls_have_the_advertised_address(root: Path) -> None:
    with ObjectOrigin(root, SECRET, advertised_url="https://store.example:8443") as origin:
        url = sign(origin)
        assert origin.url == "https://store.example:8443"
        assert url.startswith("https://store.example:8443/topic/")


def test_ipv6_addresses_are_in_brackets(root: Path) -> None:
    assert ObjectOrigin(root, SECRET, host="::1", port=9000).url == "http://[::1]:9000"


def test_shims_with_the_same_secret_share_their_urls(origin: ObjectOrigin, clock: SteppedClock) -> None:
    assert ask(origin, UrlSigner(SECRET, origin.url, clock).sign(KEY, RANGE, 60).url).status == 206


def test_a_key_is_rotated_while_urls_of_the_old_one_are_served(origin: ObjectOrigin, clock: SteppedClock) -> None:
    signer = origin.signer
    old = signer.sign(KEY, RANGE, 60).url
    origin.rotate(b"fedcba9876543210", 60)
    assert ask(origin, old).status == 206
    assert ask(origin, signer.sign(KEY, RANGE, 60).url).status == 206
    assert ask(origin, UrlSigner(b"fedcba9876543210", origin.url, clock).sign(KEY, RANGE, 60).url).status == 206


def test_refuses_a_short_secret(root: Path) -> None:
    with pytest.raises(ValueError, match="secret"):
        ObjectOrigin(root, b"short")
