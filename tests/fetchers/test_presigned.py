"""The presigned fetcher on real sockets with the scripted origin: each answer of the list, and each way to break off."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator

import pytest
from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationExpiredError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.shim.http_server import ConnectionListener
from kafka_remote_client.testing import (
    Answer,
    Ending,
    Pace,
    ScriptedOrigin,
    error,
    gzipped,
    multipart,
    other_bytes,
    read_all,
    redirect,
    segment_metadata,
    texts_of,
    whole_object,
)
from tests.support.clocks import TickingClock
from tests.support.store_client import DATA, KEY, fetch, open_range, presigned_fetcher, url_metadata

CANARY = "c0ffee5ecre7"
QUICK = {"fetch.remote.read.timeout.ms": 800, "fetch.remote.connect.timeout.ms": 800}


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin({KEY: DATA}, signature=CANARY) as started:
        yield started


@pytest.fixture
def fetcher(origin: ScriptedOrigin) -> Iterator[PresignedFetcher]:
    made = presigned_fetcher(origin.authority)
    yield made
    made.close()


@pytest.fixture
def quick(origin: ScriptedOrigin) -> Iterator[PresignedFetcher]:
    made = presigned_fetcher(origin.authority, **QUICK)
    yield made
    made.close()


ANSWERS = [
    (error(403, "AccessDenied", "Request has expired"), LocationExpiredError),
    (error(400, "ExpiredToken", "The provided token has expired."), LocationExpiredError),
    (error(403, "AuthenticationFailed", "Signature not valid in the specified time frame"), LocationExpiredError),
    (error(403, "SignatureDoesNotMatch"), RemoteStorageAccessError),
    (error(403), RemoteStorageAccessError),
    (error(401), RemoteStorageAccessError),
    (error(404, "NoSuchKey"), SegmentNotFoundError),
    (error(404), SegmentNotFoundError),
    (error(410), SegmentNotFoundError),
    (error(412, "PreconditionFailed"), SegmentNotFoundError),
    (error(416, "InvalidRange"), RangeNotSatisfiableError),
    (error(429, Retry_After="2"), RemoteStorageThrottledError),
    (error(503, "SlowDown", Retry_After="2"), RemoteStorageThrottledError),
    (error(500, "InternalError"), RemoteStorageUnavailableError),
    (error(502), RemoteStorageUnavailableError),
    (error(504), RemoteStorageUnavailableError),
    (error(418), RemoteStorageError),
    (error(200, "InternalError"), RemoteStorageUnavailableError),
    (error(200, "SlowDown"), RemoteStorageThrottledError),
    (whole_object(DATA), InvalidStorageResponseError),
    (whole_object(DATA[:1000]), InvalidStorageResponseError),
    (Answer(status=204, body=b""), InvalidStorageResponseError),
    (Answer(headers={"Content-Range": None}), InvalidStorageResponseError),
    (Answer(headers={"Content-Range": "bytes 1-1000/262144"}), InvalidStorageResponseError),
    (Answer(headers={"Content-Range": "bytes 0-998/262144"}), InvalidStorageResponseError),
    (Answer(headers={"Content-Range": "bytes 0-999/262144\r\nContent-Range: bytes 0-9/10"}), InvalidStorageResponseError),
    (Answer(headers={"Content-Length": "1000\r\nContent-Length: 999"}), InvalidStorageResponseError),
    (Answer(headers={"Content-Range": "bytes 0-499/500"}, body=DATA[:500]), RangeNotSatisfiableError),
    (other_bytes(DATA[:999]), InvalidStorageResponseError),
    (other_bytes(DATA[:1001]), InvalidStorageResponseError),
    (other_bytes(b""), InvalidStorageResponseError),
    (Answer(body=DATA[:1001], chunked=True), InvalidStorageResponseError),
    (Answer(body=DATA[:999], chunked=True), RemoteStorageUnavailableError),
    (gzipped(), InvalidStorageResponseError),
    (multipart(), InvalidStorageResponseError),
    (Answer(raw=b""), RemoteStorageUnavailableError),
    (Answer(raw=b"SSH-2.0-OpenSSH_9.6\r\n"), InvalidStorageResponseError),
    (Answer(raw=b"HTTP/1.1 206"), RemoteStorageUnavailableError),
    (Answer(raw=b"HTTP/1.1 206\r\n"), RemoteStorageUnavailableError),
    (Answer(raw=b"HTTP/1.1 206 OK\r\nContent-Range: by"), RemoteStorageUnavailableError),
    (Answer(raw=b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-999/262144\r\n"), RemoteStorageUnavailableError),
    (
        Answer(raw=b"HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-999/262144\r\n\r\n3e"),
        RemoteStorageUnavailableError,
    ),
    (Answer(raw=b"HTTP/1.1 206 OK\r\nX: " + b"x" * 70_000), InvalidStorageResponseError),
    (Answer(raw=b"HTTP/1.1 200000 X\r\n\r\n"), InvalidStorageResponseError),
    (Answer(raw=b"HTTP/9.9 206 X\r\n\r\n"), InvalidStorageResponseError),
    (Answer(raw=b"HTTP/1.1 206 " + b"x" * 70_000), InvalidStorageResponseError),
    (Answer(raw=b"HTTP/1.1 206 X\r\n" + b"A: b\r\n" * 200 + b"\r\n"), InvalidStorageResponseError),
    (Answer(headers={"Transfer-Encoding": "chunked", "Content-Length": None}, body=b"zz\r\nxx"), RemoteStorageUnavailableError),
    (Answer(ending=Ending.CUT, at=0), RemoteStorageUnavailableError),
    (Answer(ending=Ending.CUT, at=1), RemoteStorageUnavailableError),
    (Answer(ending=Ending.CUT, at=999), RemoteStorageUnavailableError),
    (Answer(ending=Ending.RESET, at=0), RemoteStorageUnavailableError),
    (Answer(ending=Ending.RESET, at=500), RemoteStorageUnavailableError),
    (Answer(ending=Ending.CUT, at=500, chunked=True), RemoteStorageUnavailableError),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_every_answer_other_than_the_range_has_its_error(
    fetcher: PresignedFetcher, origin: ScriptedOrigin, answer: Answer, expected: type[RemoteStorageError]
) -> None:
    origin.script(answer)
    with pytest.raises(RemoteStorageError) as caught:
        fetch(fetcher, origin)
    assert type(caught.value) is expected
    assert [exchange.answer for exchange in origin.exchanges] == [answer]
    assert fetch(fetcher, origin) == DATA[:1000]  # and the next range is not affected


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_s05_no_error_or_log_line_shows_the_signature(
    fetcher: PresignedFetcher,
    origin: ScriptedOrigin,
    caplog: pytest.LogCaptureFixture,
    answer: Answer,
    expected: type[RemoteStorageError],
) -> None:
    caplog.set_level(logging.DEBUG)
    origin.script(answer)
    with pytest.raises(expected) as caught:
        fetch(fetcher, origin)
    fetch(fetcher, origin)
    texts = [*texts_of(caught.value), *(record.getMessage() for record in caplog.records), repr(fetcher)]
    assert not [text for text in texts if CANARY in text or KEY in text or "X-Amz" in text]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert CANARY in origin.exchanges[0].request.target  # it was there to be leaked


@pytest.mark.parametrize(
    "broken_off",
    [
        {"ending": Ending.RESET, "at": 0},
        {"ending": Ending.CUT, "at": 10, "chunked": True},
        {"ending": Ending.STALL, "at": 10},
        {"ending": Ending.CUT, "at": 10},
    ],
)
def test_the_status_of_an_error_counts_even_if_its_body_never_comes(
    quick: PresignedFetcher, origin: ScriptedOrigin, broken_off: dict[str, object]
) -> None:
    origin.script(Answer(status=404, headers={"Content-Range": None}, body=b"x" * 100, **broken_off))
    with pytest.raises(SegmentNotFoundError):
        fetch(quick, origin)


def test_throttling_carries_the_stores_retry_after(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    origin.script(error(503, "SlowDown", Retry_After="2"))
    with pytest.raises(RemoteStorageThrottledError) as caught:
        fetch(fetcher, origin)
    assert caught.value.retry_after == 2.0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_f12_s03_a_redirect_is_not_followed(fetcher: PresignedFetcher, origin: ScriptedOrigin, status: int) -> None:
    with ScriptedOrigin({KEY: DATA}) as elsewhere:
        for target in (elsewhere.url_for(KEY), origin.url_for(KEY), "/other", ""):
            origin.script(redirect(target, status))
            with pytest.raises(ForbiddenLocationError, match="redirects are not followed"):
                fetch(fetcher, origin)
        assert elsewhere.connections == 0
    assert len(origin.exchanges) == 4


def test_s03_proxies_netrc_and_cookies_are_not_used(
    fetcher: PresignedFetcher, origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with ScriptedOrigin() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        origin.script(Answer(headers={"Set-Cookie": "a=b"}))
        assert fetch(fetcher, origin) == DATA[:1000]
        assert fetch(fetcher, origin) == DATA[:1000]
        assert proxy.connections == 0
    assert all(not {"authorization", "cookie"} & set(exchange.request.headers) for exchange in origin.exchanges)


def test_requests_exactly_the_range_without_an_encoding(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    fetch(fetcher, origin, 5, 10)
    fetch(fetcher, origin, 5, -1)
    first, second = (exchange.request for exchange in origin.exchanges)
    assert first.headers == {
        "host": origin.authority,
        "range": "bytes=5-9",
        "accept-encoding": "identity",
        "user-agent": "kafka-remote-client",
    }
    assert second.headers["range"] == "bytes=5-"
    assert first.target == origin.url_for(KEY).removeprefix(origin.url)


def test_connections_are_kept(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    for at in range(0, 10_000, 1000):
        assert fetch(fetcher, origin, at, at + 1000) == DATA[at : at + 1000]
    assert origin.connections == 1


@pytest.mark.parametrize("answer", [Answer(headers={"Connection": "close"}), Answer(chunked=True)])
def test_a_complete_range_counts_if_the_connection_then_closes(
    fetcher: PresignedFetcher, origin: ScriptedOrigin, answer: Answer
) -> None:
    origin.script(answer)
    assert fetch(fetcher, origin) == fetch(fetcher, origin) == DATA[:1000]


def test_a_chunked_answer_may_lack_its_last_chunk(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    origin.script(Answer(chunked=True, ending=Ending.CUT))
    assert fetch(fetcher, origin) == DATA[:1000]
    assert fetch(fetcher, origin) == DATA[:1000]
    assert origin.connections == 2


def test_an_answer_without_a_length_ends_with_the_range(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    origin.script(Answer(headers={"Content-Length": None, "Connection": "close"}))
    assert fetch(fetcher, origin) == DATA[:1000]


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
def test_f25_a_kept_connection_that_died_is_replaced_without_an_error(
    fetcher: PresignedFetcher, origin: ScriptedOrigin, ending: Ending
) -> None:
    fetch(fetcher, origin)
    origin.cut_connections()
    assert fetch(fetcher, origin) == DATA[:1000]
    # and one that closes during the request: no byte of the answer has arrived, so the request is sent once more
    origin.script(Answer(raw=b""))
    assert fetch(fetcher, origin) == DATA[:1000]
    assert len(origin.exchanges) == 4


def test_a_request_is_repeated_once_and_only_on_a_kept_connection(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    fetch(fetcher, origin)
    origin.script(Answer(raw=b""), Answer(raw=b""))
    with pytest.raises(RemoteStorageUnavailableError):
        fetch(fetcher, origin)
    assert len(origin.exchanges) == 3


@pytest.mark.parametrize(
    "answer",
    [
        Answer(silent=True),
        Answer(ending=Ending.STALL, at=0),
        Answer(ending=Ending.STALL, at=500),
        Answer(ending=Ending.STALL, at=500, chunked=True),
        Answer(delay=30.0),
        Answer(pace=Pace(1, 0.05)),
        Answer(pace=Pace(1, 0.05), chunked=True),
    ],
)
def test_f23_f24_the_deadline_bounds_the_whole_range_despite_a_trickle(
    quick: PresignedFetcher, origin: ScriptedOrigin, answer: Answer
) -> None:
    origin.script(answer)
    with pytest.raises(RemoteStorageTimeoutError) as caught:
        fetch(quick, origin)
    assert CANARY not in "".join(texts_of(caught.value))
    origin.release()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(ending=Ending.STALL, at=500),
        Answer(ending=Ending.STALL, at=500, chunked=True),
        Answer(pace=Pace(1, 0.05)),
        Answer(pace=Pace(10, 0.1), chunked=True),
    ],
    ids=["stall", "stall in chunks", "trickle", "trickle in chunks"],
)
def test_f24_f25_a_body_below_the_floor_is_cut_long_before_the_deadline(origin: ScriptedOrigin, answer: Answer) -> None:
    patient = presigned_fetcher(origin.authority, **{"fetch.remote.read.timeout.ms": 600_000})
    origin.script(answer)
    with pytest.raises(RemoteStorageTimeoutError) as caught:
        fetch(patient, origin)
    assert CANARY not in "".join(texts_of(caught.value))
    origin.release()
    patient.close()


def with_slow_clock(origin: ScriptedOrigin, floor: int) -> contextlib.closing[PresignedFetcher]:
    """A fetcher for which each wait is longer than a body without bytes may take."""
    day = 86_400_000
    settings = {
        "fetch.remote.read.timeout.ms": day,
        "fetch.remote.connect.timeout.ms": day,
        "fetch.remote.min.bytes.per.second": floor,
    }
    return contextlib.closing(presigned_fetcher(origin.authority, clock=TickingClock(3.0), **settings))


def test_without_a_floor_a_slow_body_is_read_to_its_end(origin: ScriptedOrigin) -> None:
    origin.script(Answer(pace=Pace(300, 0.001)))
    with with_slow_clock(origin, 0) as patient:
        assert fetch(patient, origin) == DATA[:1000]


def test_with_a_floor_a_body_that_keeps_its_reader_waiting_is_cut(origin: ScriptedOrigin) -> None:
    origin.script(Answer(ending=Ending.STALL, at=300))  # so that there is a wait, however late the reader is
    with with_slow_clock(origin, 65_536) as impatient, pytest.raises(RemoteStorageTimeoutError):
        fetch(impatient, origin)
    origin.release()


def test_a_trickling_response_head_meets_the_deadline_too(quick: PresignedFetcher) -> None:
    def trickle(connection: object) -> None:
        while not stop.wait(0.02):
            connection.sendall(b"H")

    stop = threading.Event()
    listener = ConnectionListener(trickle)
    listener.start()
    authority = f"127.0.0.1:{listener.address[1]}"
    fetcher = presigned_fetcher(authority, **QUICK)
    url = f"http://{authority}/x"
    with pytest.raises(RemoteStorageTimeoutError):
        fetcher.fetch_log_segment(segment_metadata(LocationMetadata(url=url).encode()), 0, 10)
    stop.set()
    fetcher.close()
    listener.stop()


_PARTIAL = b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-9/10\r\n"
_ERROR = b"HTTP/1.1 500 Error\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_PARTIAL + _CHUNKED + b"-1\r\n" + bytes(100_000), InvalidStorageResponseError),
        (_PARTIAL + _CHUNKED + b"-5\r\n" + bytes(100_000), InvalidStorageResponseError),
        (_PARTIAL + _CHUNKED + b"4\r\n0123\r\n-5\r\n" + bytes(100_000), InvalidStorageResponseError),
        (_ERROR + _CHUNKED + b"-1\r\n" + bytes(100_000), RemoteStorageUnavailableError),
    ],
)
def test_s19_a_negative_chunk_size_is_refused(answer: bytes, error: type[RemoteStorageError]) -> None:
    left = []

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)
        left.append(connection.recv(1))  # returns when the client has given up

    listener = ConnectionListener(serve)
    listener.start()
    authority = f"127.0.0.1:{listener.address[1]}"
    fetcher = presigned_fetcher(authority)
    metadata = segment_metadata(LocationMetadata(url=f"http://{authority}/x").encode())
    with pytest.raises(error) as caught:
        read_all(fetcher.fetch_log_segment(metadata, 0, 10))
    assert type(caught.value) is error
    fetcher.close()
    listener.stop()


def test_bytes_before_a_fault_are_delivered_first(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    origin.script(Answer(ending=Ending.CUT, at=600))
    stream = open_range(fetcher, origin)
    buffer = bytearray(1000)
    filled = stream.readinto(buffer)
    assert (filled, bytes(buffer[:600])) == (600, DATA[:600])
    for _ in range(2):
        with pytest.raises(RemoteStorageUnavailableError):
            stream.readinto(buffer)
    stream.close()


def test_a_timeout_drops_the_idle_connections_of_that_store(quick: PresignedFetcher, origin: ScriptedOrigin) -> None:
    streams = [open_range(quick, origin) for _ in range(3)]
    for stream in streams:
        while stream.readinto(bytearray(4096)):
            pass
    assert origin.connections == 3
    origin.script(Answer(ending=Ending.STALL, at=1))
    with pytest.raises(RemoteStorageTimeoutError):
        fetch(quick, origin)
    assert fetch(quick, origin) == DATA[:1000]
    assert origin.connections == 4


def test_close_ends_a_waiting_read(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    origin.script(Answer(ending=Ending.STALL, at=100))
    stream = open_range(fetcher, origin)
    assert stream.readinto(bytearray(100)) == 100
    outcome: list[BaseException] = []

    def read() -> None:
        try:
            stream.readinto(bytearray(100))
        except RemoteStorageError as failure:
            outcome.append(failure)

    reader = threading.Thread(target=read)
    reader.start()
    fetcher.close()
    reader.join(10)
    assert [type(failure) for failure in outcome] == [RemoteStorageUnavailableError]
    with pytest.raises(RemoteStorageUnavailableError, match="closed"):
        fetch(fetcher, origin)
    stream.close()


def test_a_stream_finished_after_the_fetcher_closed_keeps_no_connection(
    fetcher: PresignedFetcher, origin: ScriptedOrigin
) -> None:
    stream = open_range(fetcher, origin)
    assert origin.wait_for(1, finished=True)
    buffer = bytearray(1000)
    assert stream.readinto(buffer) == 1000
    fetcher.close()
    assert stream.readinto(buffer) == 0
    stream.close()


def test_reading_a_closed_stream_is_refused(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    stream = open_range(fetcher, origin)
    stream.close()
    with pytest.raises(RemoteStorageUnavailableError, match="stream is closed"):
        stream.readinto(bytearray(10))
    assert stream.readinto(bytearray()) == 0


def test_no_more_idle_connections_are_kept_than_ranges_in_flight(origin: ScriptedOrigin) -> None:
    fetcher = presigned_fetcher(origin.authority, **{"fetch.remote.max.in.flight": "2"})
    streams = [open_range(fetcher, origin) for _ in range(4)]
    for stream in streams:
        assert stream.readinto(bytearray(4096)) == 1000
    streams = [open_range(fetcher, origin) for _ in range(4)]
    assert origin.connections == 6
    for stream in streams:
        stream.close()
    fetcher.close()


SIGNED = (("X-Amz-Security-Token", "token"), ("x-goog-meta-a", "b"), ("x-ms-version", "2024-01-01"), ("If-Match", '"e"'))


def test_signed_headers_are_sent(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    headers = (*SIGNED, ("Host", origin.authority.upper()), ("range", "bytes=0-9"))
    location = LocationMetadata(url=origin.url_for(KEY), signed_headers=headers, etag="ignored")
    stream = fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 10)
    stream.close()
    sent = origin.exchanges[0].request.headers
    assert {name: sent[name.lower()] for name, _ in SIGNED} == dict(SIGNED)
    assert (sent["host"], sent["range"]) == (origin.authority, "bytes=0-9")


@pytest.mark.parametrize(("etag", "sent"), [("abc-1", '"abc-1"'), ('"abc"', '"abc"')])
def test_an_etag_is_pinned(fetcher: PresignedFetcher, origin: ScriptedOrigin, etag: str, sent: str) -> None:
    location = LocationMetadata(url=origin.url_for(KEY), etag=etag)
    fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 10).close()
    assert origin.exchanges[0].request.headers["if-match"] == sent


@pytest.mark.parametrize("etag", ['a"b', "a\r\nHost: evil", "a b\x7f", 'W/"x"', "\u00e9"])
def test_s18_an_etag_that_could_end_its_header_is_refused(fetcher: PresignedFetcher, origin: ScriptedOrigin, etag: str) -> None:
    location = LocationMetadata(url=origin.url_for(KEY), etag=etag)
    with pytest.raises(ForbiddenLocationError):
        fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 10)
    assert origin.connections == 0


@pytest.mark.parametrize(
    "header",
    [
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("Connection", "close"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Accept-Encoding", "gzip"),
        ("User-Agent", "x"),
        ("Proxy-Authorization", "x"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Original-URL", "/other"),
        ("Metadata-Flavor", "Google"),
        ("X-aws-ec2-metadata-token", "x"),
        ("Host", "evil.example"),
        ("Range", "bytes=0-10"),
        ("Range", "bytes=0-"),
        ("If-Match", "a\tb"),
        ("X-Amz-Date", ""),
        ("X-Amz-Date", " x"),
        ("X-Amz-Date", "x" * 5000),
        ("X-Amz-Date", "a\r\nHost: evil"),
        ("X-Amz-Date", "a\nb"),
        ("X-Amz-Date", "\u00e9"),
        ("X-Amz-Da te", "x"),
        ("X-Amz-Date:", "x"),
        ("X-Amz-Date\r\nHost", "x"),
        ("", "x"),
    ],
)
def test_s18_signed_headers_are_whitelisted(fetcher: PresignedFetcher, origin: ScriptedOrigin, header: tuple[str, str]) -> None:
    location = LocationMetadata(url=origin.url_for(KEY), signed_headers=(header,))
    with pytest.raises(ForbiddenLocationError) as caught:
        fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 10)
    assert header[1] == "" or len(header[1]) < 4 or header[1] not in "".join(texts_of(caught.value))
    assert origin.connections == 0


def test_s18_duplicate_and_too_many_headers_are_refused(fetcher: PresignedFetcher, origin: ScriptedOrigin) -> None:
    for headers in [(("x-amz-a", "1"), ("X-Amz-A", "2")), tuple((f"x-amz-{n}", "v") for n in range(33))]:
        location = LocationMetadata(url=origin.url_for(KEY), signed_headers=headers)
        with pytest.raises(ForbiddenLocationError):
            fetcher.fetch_log_segment(segment_metadata(location.encode()), 0, 10)
    assert origin.connections == 0


def test_a_location_without_a_url_is_refused(fetcher: PresignedFetcher) -> None:
    with pytest.raises(RemoteStorageError, match="has no URL"):
        fetcher.fetch_log_segment(segment_metadata(LocationMetadata(object_key="x").encode()), 0, 10)


def test_an_unconfigured_fetcher_reads_nothing(origin: ScriptedOrigin) -> None:
    fetcher = PresignedFetcher()
    with pytest.raises(RemoteStorageUnavailableError, match="not configured"):
        fetcher.fetch_log_segment(segment_metadata(url_metadata(origin)), 0, 10)
    fetcher.close()


def test_a_dead_store_is_unavailable(origin: ScriptedOrigin, fetcher: PresignedFetcher) -> None:
    origin.stop()
    with pytest.raises(RemoteStorageUnavailableError, match=r"cannot connect to .*: connection refused"):
        fetch(fetcher, origin)
    origin.start()
    assert fetch(fetcher, origin) == DATA[:1000]


def test_plain_http_is_logged_when_allowed(caplog: pytest.LogCaptureFixture) -> None:
    presigned_fetcher("store.example").close()
    assert "allow.http is on" in caplog.text
    caplog.clear()
    presigned_fetcher("store.example", **{"remote.storage.fetcher.allow.http": "false"}).close()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote.storage.fetcher.allowed.hosts", "http://store.example"),
        ("remote.storage.fetcher.allowed.hosts", 5),
        ("remote.storage.fetcher.allow.http", "perhaps"),
        ("remote.storage.fetcher.allow.private.addresses", "perhaps"),
        ("remote.storage.fetcher.ssl.ca.location", "/nowhere/ca.pem"),
        ("remote.storage.fetcher.ssl.ca.location", __file__),
        ("fetch.remote.connect.timeout.ms", 0),
        ("fetch.remote.read.timeout.ms", "soon"),
        ("fetch.remote.max.in.flight", -1),
    ],
)
def test_a_setting_out_of_bounds_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name.replace(".", r"\.")):
        presigned_fetcher("store.example", **{name: value})
