from __future__ import annotations

import errno
import io
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.shim.http_server import ConnectionListener, HttpRequest, MalformedRequestError, cut, read_request
from tests.support.ports import needs_ipv6_loopback
from tests.support.store_client import CERTIFICATES

SECRET_TARGET = "/a/b?signature=CANARY"


def parse(raw: bytes) -> HttpRequest | None:
    return read_request(io.BufferedReader(io.BytesIO(raw)))


def test_a_request_is_parsed() -> None:
    request = parse(b"GET /a%20b?c=d HTTP/1.1\r\nHost: x:1\r\nRANGE:bytes=0-9 \r\nX: 1\r\nx:\t2\r\n\r\nnext")
    assert request == HttpRequest("GET", "/a%20b?c=d", {"host": "x:1", "range": "bytes=0-9", "x": "1, 2"}, keep_alive=True)


def test_consecutive_requests_are_parsed() -> None:
    reader = io.BufferedReader(io.BytesIO(b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"))
    assert [read_request(reader).target, read_request(reader).target, read_request(reader)] == ["/1", "/2", None]


@pytest.mark.parametrize(
    ("line", "keep_alive"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.1\nContent-Length: 0\n\n", True),
    ],
)
def test_a_request_says_if_the_connection_stays_open(line: bytes, keep_alive: bool) -> None:
    assert parse(line).keep_alive is keep_alive


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n",
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.1 x\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"G\xc3\x89T / HTTP/1.1\r\n\r\n",
        b"GET /\xc3\x89 HTTP/1.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nHost",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET / HTTP/1.1\r\n: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 65 + b"\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_other_requests_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        parse(raw)


@pytest.mark.parametrize("more", [1, 2, 3])
def test_a_request_line_of_16_kib_is_read_and_a_longer_one_refused(more: int) -> None:
    def request(size: int) -> bytes:
        return b"GET /" + b"x" * (size - len(b"GET / HTTP/1.1\r\n")) + b" HTTP/1.1\r\nA: b\r\n\r\n"

    assert parse(request(16 << 10)).headers == {"a": "b"}
    with pytest.raises(MalformedRequestError):
        parse(request((16 << 10) + more))


def test_a_header_of_16_kib_is_read_and_a_longer_one_refused() -> None:
    def request(size: int) -> bytes:
        return b"GET / HTTP/1.1\r\n" + b"A: ".ljust(size - 2, b"x") + b"\r\n\r\n"

    assert parse(request(16 << 10)).headers["a"].startswith("xxx")
    with pytest.raises(MalformedRequestError):
        parse(request((16 << 10) + 1))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_refused(raw: bytes) -> None:
    try:
        parse(raw)
        parse(b"GET / HTTP/1.1\r\n" + raw)
    except MalformedRequestError:
        return


def test_repr_hides_the_query_of_a_request() -> None:
    request = parse(b"GET " + SECRET_TARGET.encode() + b" HTTP/1.1\r\nX-Secret: CANARY\r\n\r\n")
    assert "CANARY" not in repr(request)
    assert "/a/b" in repr(request)


def is_ended(client: socket.socket) -> bool:
    """Returns whether the other side has closed. A connection that was never accepted is reset instead."""
    try:
        return client.recv(10) == b""
    except ConnectionResetError:
        return True


def echo(connection: socket.socket) -> None:
    connection.sendall(connection.recv(100))


@pytest.fixture
def listen() -> object:
    started: list[ConnectionListener] = []
    before = set(threading.enumerate())  # servers of other tests may run

    def start(handle: Callable[[socket.socket], object], **options: object) -> ConnectionListener:
        listener = ConnectionListener(handle, **options)
        listener.start()
        started.append(listener)
        return listener

    yield start
    for listener in started:
        listener.stop()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("http-")]


def test_each_connection_is_served(listen: object) -> None:
    listener = listen(echo)
    for word in (b"one", b"two"):
        with socket.create_connection(listener.address) as client:
            client.sendall(word)
            assert client.recv(10) == word
            assert is_ended(client)
    assert listener.connections == 2


def test_a_handler_that_fails_ends_its_connection_only(listen: object) -> None:
    def refuse(connection: socket.socket) -> None:
        raise ConnectionAbortedError

    listener = listen(refuse)
    for _ in range(2):
        with socket.create_connection(listener.address) as client:
            assert is_ended(client)


def test_stop_cuts_waiting_connections_and_frees_the_port(listen: object) -> None:
    listener = listen(echo)
    address = listener.address
    with socket.create_connection(address) as client:
        listener.stop()
        assert is_ended(client)
    listener.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    listener.start()
    listener.start()
    assert listener.address == address
    socket.create_connection(address).close()


def test_a_process_may_end_without_stopping_its_listener(listen: object) -> None:
    """Python waits at exit for the threads that are not daemons."""
    served, others = threading.Event(), set(threading.enumerate())

    def handle(connection: socket.socket) -> None:
        served.set()
        connection.recv(1)

    with socket.create_connection(listen(handle).address):
        assert served.wait(60)
        started = {thread for thread in set(threading.enumerate()) - others if thread.name.startswith("http-")}
        assert len(started) == 2, "one accepts, one serves"
        assert all(thread.daemon for thread in started)


def test_cutting_ends_connections_and_accepts_new_ones(listen: object) -> None:
    listener = listen(echo)
    with socket.create_connection(listener.address) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    with socket.create_connection(listener.address) as waiting:
        with socket.create_connection(listener.address) as later:  # accepted in order: the first one is registered by now
            later.sendall(b"y")
            assert later.recv(1) == b"y"
        listener.cut_connections()
        assert is_ended(waiting)
    with socket.create_connection(listener.address) as client:
        client.sendall(b"z")
        assert client.recv(1) == b"z"


def test_a_silent_peer_is_closed_after_the_idle_time_out(listen: object) -> None:
    listener = listen(echo, idle_timeout=0.05)
    with socket.create_connection(listener.address) as client:
        assert is_ended(client)


def test_a_listener_has_bounds_by_default() -> None:
    listener = ConnectionListener(echo)
    assert (listener._idle_timeout, listener._max_connections, listener.address) == (60, 512, ("127.0.0.1", 0))


def test_connections_beyond_the_bound_are_closed(listen: object) -> None:
    release = threading.Event()
    entered = threading.Semaphore(0)

    def hold(connection: socket.socket) -> None:
        entered.release()
        release.wait(10)

    listener = listen(hold, max_connections=1)
    with socket.create_connection(listener.address):
        assert entered.acquire(timeout=10)
        with socket.create_connection(listener.address) as surplus:
            assert is_ended(surplus)
        release.set()


def test_tls_is_served_and_plaintext_clients_do_no_harm(listen: object) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(CERTIFICATES / "good.pem")
    listener = listen(echo, ssl_context=server)
    with socket.create_connection(listener.address) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while not is_ended(plain):  # after an alert, or at once
            pass
    client = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
    with client.wrap_socket(socket.create_connection(listener.address), server_hostname="localhost") as secured:
        secured.sendall(b"hello")
        assert secured.recv(10) == b"hello"


def test_a_missing_handshake_does_not_delay_stop(listen: object) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(CERTIFICATES / "good.pem")
    listener = listen(echo, ssl_context=server)
    with socket.create_connection(listener.address) as mute:
        listener.stop()
        assert is_ended(mute)


def test_a_port_in_use_is_an_error(listen: object) -> None:
    taken = listen(echo).address[1]
    second = ConnectionListener(echo, port=taken)
    with pytest.raises(OSError, match="in use"):
        second.start()
    second.stop()


@needs_ipv6_loopback
def test_listens_on_ipv6(listen: object) -> None:
    listener = listen(echo, host="::1")
    with socket.create_connection(listener.address) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


def test_cutting_a_closed_socket_does_nothing() -> None:
    closed = socket.socket()
    closed.close()
    cut(closed)


def test_accepting_survives_a_lack_of_descriptors(listen: object, caplog: pytest.LogCaptureFixture) -> None:
    listener = listen(echo)
    real, lacking = listener._listener.accept, [OSError(errno.EMFILE, "Too many open files")] * 2

    class Lacking:
        """The listener, at first without a descriptor for the peer that waits in its queue."""

        def fileno(self) -> int:
            return listener._listener.fileno()

        def accept(self) -> object:
            if lacking:
                raise lacking.pop()
            return real()

    woken, wake = socket.socketpair()
    other = threading.Thread(target=listener._accept, args=(Lacking(), woken))
    listener._wake.close()  # its own loop ends: the other one takes over
    listener._acceptor.join(10)
    other.start()
    with socket.create_connection(listener.address) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    wake.close()
    other.join(10)
    assert not other.is_alive()
    assert [record.levelname for record in caplog.records] == ["WARNING"], "told once"


def test_accepting_survives_a_lack_of_threads(
    listen: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listen(echo)
    real = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "http-connection":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    for _ in range(2):
        with socket.create_connection(listener.address) as client:
            assert is_ended(client)
    monkeypatch.undo()
    with socket.create_connection(listener.address) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    assert [record.getMessage() for record in caplog.records] == ["http: a connection is closed: can't start new thread"]


def test_the_certificates_exist() -> None:
    assert {path.suffix for path in Path(CERTIFICATES).iterdir()} == {".pem", ".sh"}


@pytest.mark.parametrize("target", ["/a.log?expires=5&signature=canary", "/a.log7expires=5&signature=canary", "/a.log&canary"])
def test_no_log_of_a_request_shows_a_signature(target: str) -> None:
    """Also if the question mark of its URL was damaged on the way: the origin logs requests that it refuses."""
    assert "canary" not in repr(HttpRequest("GET", target, {}))
