"""Names, addresses, TLS and time-outs, below HTTP."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from kafka_remote_fetchers._allow_list import AllowList
from kafka_remote_fetchers._connections import ConnectionPool, StoreConnection, tls_context
from kafka_remote_fetchers._store_addresses import system_resolver

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import (
    ForbiddenLocationError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.shim.http_server import ConnectionListener
from kafka_remote_client.testing import Answer, Ending, ScriptedOrigin, read_all, segment_metadata, texts_of
from tests.support.full_backlog import full_port
from tests.support.ports import needs_ipv6_loopback
from tests.support.store_client import CERTIFICATES, DATA, KEY, fetch, presigned_fetcher

CHECKS = "check the store's certificate, and the host in its URL"
BAD_CERTIFICATES = [
    "expired",
    "not-yet-valid",
    "wrong-name",
    "wrong-address",
    "name-only-in-subject",
    "for-clients-only",
    "unknown-authority",
    "self-signed",
]


def server_context(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{name}.pem")
    return context


def read_by_name(fetcher: object, port: int, host: str = "store.example", scheme: str = "http") -> bytes:
    location = LocationMetadata(url=f"{scheme}://{host}:{port}/{KEY}")
    return read_all(fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 1000))


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin({KEY: DATA}) as started:
        yield started


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["::1"], ["::ffff:127.0.0.1"]]
)
def test_s02_a_listed_name_that_resolves_inside_is_refused(origin: ScriptedOrigin, addresses: list[str]) -> None:
    fetcher = presigned_fetcher(
        f"store.example:{origin.port}",
        resolver=lambda host, port: addresses,
        **{"remote.storage.fetcher.allow.private.addresses": False},
    )
    with pytest.raises(ForbiddenLocationError, match=r"resolves to a private address"):
        read_by_name(fetcher, origin.port)
    assert origin.connections == 0
    fetcher.close()


def test_s02_the_address_that_was_checked_is_the_one_connected_to(origin: ScriptedOrigin) -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    fetcher = presigned_fetcher(f"store.example:{origin.port}", resolver=lambda host, port: next(answers))
    assert read_by_name(fetcher, origin.port) == DATA[:1000]
    assert read_by_name(fetcher, origin.port) == DATA[:1000]  # the kept connection: no second lookup
    origin.cut_connections()
    with pytest.raises(ForbiddenLocationError):
        read_by_name(fetcher, origin.port)
    assert origin.exchanges[0].request.headers["host"] == f"store.example:{origin.port}"
    fetcher.close()


def test_s02_link_local_is_refused_even_as_a_listed_address() -> None:
    fetcher = presigned_fetcher("169.254.169.254")
    location = LocationMetadata(url="http://169.254.169.254/latest/meta-data/")
    with pytest.raises(ForbiddenLocationError):
        fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 10)
    fetcher.close()


def test_a_dead_address_leaves_time_for_the_next(origin: ScriptedOrigin) -> None:
    fetcher = presigned_fetcher(f"store.example:{origin.port}", resolver=lambda host, port: ["127.0.0.9", "127.0.0.1"])
    assert read_by_name(fetcher, origin.port) == DATA[:1000]
    fetcher.close()


def test_an_address_of_a_family_that_the_machine_lacks_is_skipped(
    origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "AF_INET6", 9999)
    fetcher = presigned_fetcher(f"store.example:{origin.port}", resolver=lambda host, port: ["::1", "127.0.0.1"])
    assert read_by_name(fetcher, origin.port) == DATA[:1000]
    fetcher.close()


def test_f19_a_name_without_an_address_is_unavailable() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror("CANARY")

    def malformed(host: str, port: int) -> list[str]:
        raise UnicodeError("CANARY")

    for resolver in (unknown, malformed, lambda host, port: []):
        fetcher = presigned_fetcher("store.example:9000", resolver=resolver)
        with pytest.raises(RemoteStorageUnavailableError, match=r"cannot resolve .* store\.example:9000") as caught:
            read_by_name(fetcher, 9000)
        assert "CANARY" not in "".join(texts_of(caught.value))
        fetcher.close()


def test_f19_a_slow_resolver_takes_no_longer_than_the_connect_timeout() -> None:
    answered = threading.Event()

    def slow(host: str, port: int) -> list[str]:
        answered.wait(30)
        return ["127.0.0.1"]

    fetcher = presigned_fetcher("store.example:9000", resolver=slow, **{"fetch.remote.connect.timeout.ms": 100})
    with pytest.raises(RemoteStorageTimeoutError):
        read_by_name(fetcher, 9000)
    answered.set()
    fetcher.close()


def test_f18_a_store_that_accepts_no_connection_times_out() -> None:
    with full_port() as port:
        fetcher = presigned_fetcher(f"127.0.0.1:{port}", **{"fetch.remote.connect.timeout.ms": 200})
        with pytest.raises(RemoteStorageTimeoutError):
            read_by_name(fetcher, port, host="127.0.0.1")
        fetcher.close()


def test_a_connect_timeout_never_outlasts_the_range(origin: ScriptedOrigin) -> None:
    answered = threading.Event()
    fetcher = presigned_fetcher(
        "store.example:9000",
        resolver=lambda host, port: ["127.0.0.1"] if answered.wait(30) else [],
        **{"fetch.remote.connect.timeout.ms": 30_000, "fetch.remote.read.timeout.ms": 100},
    )
    with pytest.raises(RemoteStorageTimeoutError):
        read_by_name(fetcher, 9000)
    answered.set()
    fetcher.close()


def test_the_deadline_may_pass_between_two_addresses(origin: ScriptedOrigin) -> None:
    class Leaping(SystemClock):
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock = Leaping()

    def resolver(host: str, port: int) -> list[str]:
        clock.now += 100
        return ["127.0.0.1"]

    fetcher = presigned_fetcher(f"store.example:{origin.port}", clock=clock, resolver=resolver)
    with pytest.raises(RemoteStorageTimeoutError):
        read_by_name(fetcher, origin.port)
    fetcher.close()


def test_a_range_read_after_its_deadline_has_timed_out(origin: ScriptedOrigin) -> None:
    class Leaping(SystemClock):
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock = Leaping()
    fetcher = presigned_fetcher(origin.authority, clock=clock)
    location = LocationMetadata(url=origin.url_for(KEY))
    stream = fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, len(DATA))
    clock.now += 100
    with pytest.raises(RemoteStorageTimeoutError):
        read_all(stream)
    fetcher.close()


@needs_ipv6_loopback
def test_ipv6_stores_are_reached() -> None:
    with ScriptedOrigin({KEY: DATA}, host="::1") as origin:
        fetcher = presigned_fetcher(origin.authority)
        assert fetch(fetcher, origin) == DATA[:1000]
        assert origin.exchanges[0].request.headers["host"] == origin.authority
        fetcher.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_reads_over_tls(host: str) -> None:
    with ScriptedOrigin({KEY: DATA}, ssl_context=server_context("good")) as origin:
        fetcher = presigned_fetcher(f"{host}:{origin.port}")
        for _ in range(3):
            assert read_by_name(fetcher, origin.port, host=host, scheme="https") == DATA[:1000]
        assert origin.connections == 1
        fetcher.close()


def test_large_reads_and_faults_over_tls_behave_as_without_tls() -> None:
    data = DATA * 20
    with ScriptedOrigin({KEY: data}, ssl_context=server_context("good")) as origin:
        fetcher = presigned_fetcher(origin.authority, **{"fetch.remote.read.timeout.ms": 3000})
        assert fetch(fetcher, origin, 0, len(data)) == data
        origin.script(Answer(ending=Ending.CUT, at=100_000))
        with pytest.raises(RemoteStorageUnavailableError):
            fetch(fetcher, origin, 0, len(data))
        origin.script(Answer(ending=Ending.STALL, at=100_000))
        with pytest.raises(RemoteStorageTimeoutError):
            fetch(fetcher, origin, 0, len(data))
        assert fetch(fetcher, origin) == data[:1000]
        fetcher.close()


def test_one_read_over_tls_returns_all_received_records() -> None:
    """A read of the ssl module returns one TLS record, and a range has hundreds."""
    sent = DATA[:1000] * 60  # four records, and no more than a socket's buffer holds

    def send(connection: socket.socket) -> None:
        with server_context("good").wrap_socket(connection, server_side=True) as secured:
            secured.sendall(sent)

    ours, theirs = socket.socketpair()
    server = threading.Thread(target=send, args=(theirs,))
    server.start()
    with ours, tls_context(str(CERTIFICATES / "ca.pem")).wrap_socket(ours, server_hostname="localhost") as secured:
        server.join()
        secured.deadline = Deadline(SystemClock(), 30.0)
        buffer = bytearray(len(sent) + 1)
        assert secured.recv_into(buffer) == len(sent)
        assert bytes(buffer[:-1]) == sent
        assert secured.recv_into(buffer) == 0, "the end"


@pytest.mark.parametrize("certificate", BAD_CERTIFICATES)
def test_s04_f20_a_bad_certificate_is_refused_before_the_request(certificate: str) -> None:
    with ScriptedOrigin({KEY: DATA}, ssl_context=server_context(certificate)) as origin:
        fetcher = presigned_fetcher(origin.authority)
        with pytest.raises(RemoteStorageError, match=r"cannot verify the certificate of ") as caught:
            fetch(fetcher, origin)
        assert type(caught.value) is RemoteStorageError
        assert origin.exchanges == []
        fetcher.close()


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        ("expired", "certificate has expired"),
        ("not-yet-valid", "certificate is not yet valid"),
        ("wrong-name", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
def test_no_ca_is_suggested_for_an_expired_or_foreign_certificate(certificate: str, reason: str) -> None:
    with ScriptedOrigin({KEY: DATA}, ssl_context=server_context(certificate)) as origin:
        fetcher = presigned_fetcher(origin.authority)
        with pytest.raises(RemoteStorageError) as caught:
            fetch(fetcher, origin)
        fetcher.close()
        told = f"cannot verify the certificate of {origin.authority}: {reason}; {CHECKS}"
    assert str(caught.value) == told


def test_s04_our_own_authority_is_not_trusted_unless_configured() -> None:
    with ScriptedOrigin({KEY: DATA}, ssl_context=server_context("good")) as origin:
        fetcher = presigned_fetcher(origin.authority, **{"remote.storage.fetcher.ssl.ca.location": None})
        with pytest.raises(RemoteStorageError, match=r"cannot verify the certificate of "):
            fetch(fetcher, origin)
        fetcher.close()


def test_s04_the_tls_context_verifies() -> None:
    context = tls_context(None)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_s04_the_tls_context_is_made_once_and_not_for_plain_http(origin: ScriptedOrigin) -> None:
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        made.append(tls_context(None))
        return made[-1]

    pool = ConnectionPool(SystemClock(), connect_timeout=30, max_idle=1, allow_private=True, tls=make)
    target = AllowList.parse(origin.authority, allow_http=True).check(f"http://{origin.authority}/{KEY}")
    pool.release(pool.acquire(target, Deadline(SystemClock(), 30.0)))
    assert made == []
    assert pool.tls is pool.tls is made[0]
    assert len(made) == 1
    pool.close()


def test_f22_plaintext_on_the_tls_port_is_refused() -> None:
    def speak_plain(connection: socket.socket) -> None:
        connection.recv(10)
        connection.sendall(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-999/1000\r\n\r\n" + DATA[:1000])

    listener = ConnectionListener(speak_plain)
    listener.start()
    port = listener.address[1]
    fetcher = presigned_fetcher(f"127.0.0.1:{port}")
    with pytest.raises(RemoteStorageError, match=r"127\.0\.0\.1:\d+ does not answer with TLS; its URL must begin") as caught:
        read_by_name(fetcher, port, host="127.0.0.1", scheme="https")
    assert type(caught.value) is RemoteStorageError
    fetcher.close()
    listener.stop()


def test_f21_a_stalled_handshake_ends_at_the_connect_timeout() -> None:
    done = threading.Event()
    listener = ConnectionListener(lambda connection: done.wait(30) and None)
    listener.start()
    port = listener.address[1]
    fetcher = presigned_fetcher(f"127.0.0.1:{port}", **{"fetch.remote.connect.timeout.ms": 200})
    with pytest.raises(RemoteStorageTimeoutError):
        read_by_name(fetcher, port, host="127.0.0.1", scheme="https")
    done.set()
    fetcher.close()
    listener.stop()


def test_a_store_that_closes_during_the_handshake_is_unavailable() -> None:
    listener = ConnectionListener(lambda connection: connection.recv(10) and None)
    listener.start()
    port = listener.address[1]
    fetcher = presigned_fetcher(f"127.0.0.1:{port}")
    with pytest.raises(RemoteStorageUnavailableError):
        read_by_name(fetcher, port, host="127.0.0.1", scheme="https")
    fetcher.close()
    listener.stop()


def test_https_and_http_to_one_port_share_no_connection(origin: ScriptedOrigin) -> None:
    fetcher = presigned_fetcher(origin.authority)
    fetch(fetcher, origin)
    with pytest.raises(RemoteStorageError):
        read_by_name(fetcher, origin.port, host="127.0.0.1", scheme="https")
    fetcher.close()


def test_a_lost_connection_is_not_reopened_by_http_client() -> None:
    """http.client would reconnect to an unchecked address."""
    target = AllowList.parse("store.example").check("https://store.example/x")
    pool = ConnectionPool(
        SystemClock(),
        connect_timeout=1,
        max_idle=1,
        allow_private=True,
        tls=partial(tls_context, None),
        resolver=system_resolver,
    )
    with pytest.raises(ConnectionAbortedError):
        StoreConnection(target, pool).connect()
