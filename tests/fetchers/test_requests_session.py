"""The fetcher ``requests``: what it sends and what it makes of answers, with ``responses``.

Bodies and proxies are on real sockets.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
import responses
from kafka_remote_fetchers.requests_session import RequestsFetcher
from requests.adapters import HTTPAdapter

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
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_client.testing import Answer, Ending, Pace, ScriptedOrigin, read_all, segment_metadata, texts_of
from tests.support.store_client import CERTIFICATES, DATA, KEY, url_metadata

CANARY = "c0ffee5ecre7"
STORE = "https://store.example"
URL = f"{STORE}/bucket/segment.log?X-Amz-Signature={CANARY}&x=%7E"
PUBLIC = "93.184.216.34"


def configured(fetcher: RequestsFetcher | None = None, **settings: object) -> RequestsFetcher:
    made = fetcher or RequestsFetcher(resolver=lambda *_: [PUBLIC])
    made.configure({"remote.storage.fetcher.allowed.hosts": "store.example", **settings})
    return made


def on_loopback(*authorities: str, fetcher: RequestsFetcher | None = None, **settings: object) -> RequestsFetcher:
    given = {
        "remote.storage.fetcher.allowed.hosts": ",".join(authorities),
        "remote.storage.fetcher.allow.http": True,
        "remote.storage.fetcher.allow.private.addresses": True,
    }
    return configured(fetcher or RequestsFetcher(), **given | settings)


def opened(fetcher: RequestsFetcher, location: LocationMetadata | bytes, start: int = 0, end: int = 1000) -> ReadableStream:
    custom = location if isinstance(location, bytes) else location.encode()
    return fetcher.fetch_log_segment(segment_metadata(custom), start, end)


def answered(**answer: object) -> None:
    """The answer of the store, in ``responses``."""
    headers = {"Content-Range": f"bytes 0-999/{len(DATA)}"} if answer.setdefault("status", 206) == 206 else {}
    answer["headers"] = headers | dict(answer.get("headers", {}))  # type: ignore[call-overload]  # a dict, as all callers give
    responses.get(URL, **{"body": DATA[:1000], **answer})


@responses.activate
def test_requests_exactly_what_was_signed() -> None:
    answered()
    location = LocationMetadata(url=URL, etag="abc", signed_headers=(("x-amz-request-payer", "requester"),))
    with closing(configured()) as fetcher:
        assert read_all(opened(fetcher, location)) == DATA[:1000]
    (call,) = responses.calls
    assert call.request.url == URL
    assert call.request.headers["Range"] == "bytes=0-999"
    assert call.request.headers["if-match"] == '"abc"'
    assert call.request.headers["x-amz-request-payer"] == "requester"
    assert call.request.headers["Accept-Encoding"] == "identity"
    assert "Cookie" not in call.request.headers


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 403, "body": b"<Code>AccessDenied</Code>Request has expired"}, LocationExpiredError),
        ({"status": 403, "body": b"<Code>SignatureDoesNotMatch</Code>"}, RemoteStorageAccessError),
        ({"status": 404, "body": b"<Code>NoSuchKey</Code>"}, SegmentNotFoundError),
        ({"status": 412}, SegmentNotFoundError),
        ({"status": 416}, RangeNotSatisfiableError),
        ({"status": 503, "body": b"<Code>SlowDown</Code>"}, RemoteStorageThrottledError),
        ({"status": 500}, RemoteStorageUnavailableError),
        ({"status": 200}, InvalidStorageResponseError),
        ({"status": 302, "headers": {"Location": "https://store.example/other"}}, ForbiddenLocationError),
        ({"headers": {"Content-Range": "bytes 1-1000/262144"}}, InvalidStorageResponseError),
        ({"headers": {"Content-Encoding": "gzip"}}, InvalidStorageResponseError),
        ({"headers": {"Content-Range": "bytes 0-499/500"}, "body": DATA[:500]}, RangeNotSatisfiableError),
        ({"body": requests.exceptions.ReadTimeout(f"for {URL}")}, RemoteStorageTimeoutError),
        ({"body": requests.exceptions.ProxyError(f"for {URL}")}, RemoteStorageUnavailableError),
        ({"body": requests.exceptions.SSLError(f"for {URL}")}, RemoteStorageError),
        ({"body": requests.exceptions.ConnectionError(f"for {URL}")}, RemoteStorageUnavailableError),
    ],
)
@responses.activate
def test_each_other_answer_is_an_error_without_secrets(answer: dict[str, object], error: type[RemoteStorageError]) -> None:
    answered(**answer)
    with closing(configured()) as fetcher, pytest.raises(RemoteStorageError) as raised:
        opened(fetcher, LocationMetadata(url=URL))
    assert type(raised.value) is error
    assert CANARY not in "".join(texts_of(raised.value))
    assert len(responses.calls) == 1, "no redirect is followed, and nothing is sent twice"


@responses.activate
def test_a_port_without_tls_is_not_reported_as_a_refused_certificate() -> None:
    failed = ssl.SSLError(1, "wrong version number")
    failed.reason = "WRONG_VERSION_NUMBER"
    error = requests.exceptions.SSLError(f"for {URL}")
    error.__cause__ = failed
    answered(body=error)
    with closing(configured()) as fetcher, pytest.raises(RemoteStorageError, match="does not answer with TLS") as raised:
        opened(fetcher, LocationMetadata(url=URL))
    assert CANARY not in "".join(texts_of(raised.value))


@responses.activate
def test_an_address_that_is_not_permitted_gets_no_request() -> None:
    for address in ("10.0.0.1", "169.254.169.254"):
        fetcher = configured(RequestsFetcher(resolver=lambda *_, address=address: [address]))
        with closing(fetcher), pytest.raises(ForbiddenLocationError, match="private address"):
            opened(fetcher, LocationMetadata(url=URL))
    with closing(configured()) as fetcher:
        with pytest.raises(ForbiddenLocationError, match="not in remote"):
            opened(fetcher, LocationMetadata(url="https://other.example/x"))
        with pytest.raises(RemoteStorageError, match="no URL"):
            opened(fetcher, LocationMetadata(object_key="x"))
    assert not responses.calls


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"remote.storage.fetcher.allowed.hosts": None}, "fetcher 'requests' needs remote.storage.fetcher.allowed.hosts"),
        ({"remote.storage.fetcher.requests.proxy": "proxy:3128"}, "requests.proxy must be http://host:port"),
        ({"remote.storage.fetcher.requests.client.certificate": "/none.pem"}, "client.certificate cannot be read"),
        ({"remote.storage.fetcher.ssl.ca.location": "/none.pem"}, "ssl.ca.location cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        configured(**settings)


def test_the_session_has_the_settings_and_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://elsewhere.example:1")
    pem = str(CERTIFICATES / "ca.pem")
    made: list[requests.Session] = []

    class Corporate(RequestsFetcher):
        def new_session(self) -> requests.Session:
            session = super().new_session()
            session.headers["X-Department"] = "data"
            session.mount("https://store.example", self.adapter)
            made.append(session)
            return session

    Corporate.adapter = HTTPAdapter(pool_maxsize=3)
    given = {
        "remote.storage.fetcher.requests.proxy": "http://proxy.example:3128",
        "remote.storage.fetcher.ssl.ca.location": pem,
        "remote.storage.fetcher.requests.client.certificate": pem,
    }
    with closing(configured(Corporate(), **given)):
        (session,) = made
        assert session.proxies == {"http": "http://proxy.example:3128", "https": "http://proxy.example:3128"}
        assert (session.verify, session.cert, session.trust_env) == (pem, pem, False)
        assert session.headers["X-Department"] == "data"
        assert session.get_adapter(URL) is Corporate.adapter
        assert session.get_adapter("https://other.example").max_retries.total == 0


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin({KEY: DATA}, signature=CANARY) as started:
        yield started


def test_nothing_that_is_logged_has_a_signature(origin: ScriptedOrigin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with closing(on_loopback(origin.authority)) as fetcher:
        assert read_all(opened(fetcher, url_metadata(origin))) == DATA[:1000]
    assert "urllib3.connectionpool" in {record.name for record in caplog.records}
    assert CANARY not in caplog.text


def test_connections_are_kept_and_cookies_are_not(origin: ScriptedOrigin) -> None:
    origin.script(Answer(headers={"Set-Cookie": "a=b; Path=/"}))
    with closing(on_loopback(origin.authority)) as fetcher:
        for _ in range(3):
            assert read_all(opened(fetcher, url_metadata(origin))) == DATA[:1000]
    assert origin.connections == 1
    assert not [one for one in origin.exchanges if "cookie" in one.request.headers]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(ending=Ending.CUT, at=500), RemoteStorageUnavailableError),
        (Answer(ending=Ending.STALL, at=500), RemoteStorageTimeoutError),
        (Answer(ending=Ending.RESET, at=500), RemoteStorageUnavailableError),
        (Answer(pace=Pace(100, 0.2)), RemoteStorageTimeoutError),
        (Answer(body=DATA[:1001], chunked=True), InvalidStorageResponseError),
    ],
)
def test_a_body_that_breaks_off_is_an_error(origin: ScriptedOrigin, answer: Answer, error: type[RemoteStorageError]) -> None:
    origin.script(answer)
    patience = 500 if error is RemoteStorageTimeoutError else 30_000
    with closing(on_loopback(origin.authority, **{"fetch.remote.read.timeout.ms": patience})) as fetcher:
        stream = opened(fetcher, url_metadata(origin))
        with pytest.raises(error):
            read_all(stream)
        with pytest.raises(error):
            stream.readinto(bytearray(1))


class _Proxy(BaseHTTPRequestHandler):
    """A forward proxy for plain http, as RFC 9112, section 3.2.2 has it: the request's target is the whole URL."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        authority, _, resource = self.path.removeprefix("http://").partition("/")
        with closing(http.client.HTTPConnection(authority, timeout=10)) as onward:
            onward.request("GET", f"/{resource}", headers={"Range": self.headers["Range"]})
            answer = onward.getresponse()
            body = answer.read()
        self.send_response(answer.status)
        for name in ("Content-Range", "Content-Length"):
            self.send_header(name, answer.headers[name])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """Its address and the URLs that it was asked for."""
    seen: list[str] = []
    handler = type("Proxy", (_Proxy,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def test_reads_through_a_proxy(origin: ScriptedOrigin) -> None:
    with proxy() as (address, seen):
        through = {"remote.storage.fetcher.requests.proxy": address}
        with closing(on_loopback(origin.authority, **through)) as fetcher:
            assert read_all(opened(fetcher, url_metadata(origin))) == DATA[:1000]
    assert seen == [origin.url_for(KEY)]
    alone = on_loopback(origin.authority, **through)
    with closing(alone), pytest.raises(RemoteStorageUnavailableError, match="the proxy does not connect to"):
        opened(alone, url_metadata(origin))


def test_a_proxy_of_the_environment_resolves_the_name(origin: ScriptedOrigin, monkeypatch: pytest.MonkeyPatch) -> None:
    class FromEnvironment(RequestsFetcher):
        def new_session(self) -> requests.Session:
            session = super().new_session()
            session.trust_env = True
            return session

    def unresolved(*_: object) -> list[str]:
        raise OSError

    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with proxy() as (address, seen):
        monkeypatch.setenv("HTTP_PROXY", address)
        with closing(on_loopback(f"localhost:{origin.port}", fetcher=FromEnvironment(resolver=unresolved))) as fetcher:
            url = origin.url_for(KEY).replace("127.0.0.1", "localhost")
            assert read_all(opened(fetcher, LocationMetadata(url=url))) == DATA[:1000]
    assert seen == [url]


def test_closed_fetchers_and_streams_read_nothing(origin: ScriptedOrigin) -> None:
    with pytest.raises(RemoteStorageUnavailableError, match="not configured"):
        opened(RequestsFetcher(), url_metadata(origin))
    fetcher = on_loopback(origin.authority)
    stream = opened(fetcher, url_metadata(origin))
    stream.close()
    with pytest.raises(RemoteStorageUnavailableError, match="the stream is closed"):
        stream.readinto(bytearray(10))
    fetcher.close()
    with pytest.raises(RemoteStorageUnavailableError, match="closed"):
        opened(fetcher, url_metadata(origin))
