"""obstore's fetcher and store with servers of all three kinds, and with one that misbehaves."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from kafka_remote_fetchers.object_store import ObjectStore, ObjectStoreFetcher

from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.plugin import LocationMetadata, ObjectInfo, StreamingObjectStore
from kafka_remote_client.registry import load_store
from kafka_remote_client.testing import (
    Answer,
    Ending,
    Pace,
    RemoteStorageFetcherTests,
    ScriptedOrigin,
    error,
    read_all,
    segment_metadata,
    texts_of,
)
from tests.support.azure_server import AzureServer
from tests.support.certificates import Authority
from tests.support.gcs_server import GcsServer
from tests.support.s3_server import S3Server

DATA = bytes(range(256)) * 4096  # more than one piece
PATIENT = {"fetch.remote.connect.timeout.ms": 60_000, "fetch.remote.read.timeout.ms": 60_000}


class Server(Protocol):
    """The interface that the three servers share."""

    @property
    def options(self) -> dict[str, object]: ...
    def new_bucket(self, objects: Any = ()) -> str: ...
    def put(self, bucket: str, objects: Any) -> None: ...


def fetcher_of(url: str, server: Server, **more: object) -> ObjectStoreFetcher:
    fetcher = ObjectStoreFetcher()
    options = {f"remote.storage.fetcher.{name}": value for name, value in server.options.items()}
    fetcher.configure({"remote.storage.store.url": url, **PATIENT, **options, **more})
    return fetcher


def by_key(key: str, etag: str | None = None) -> Any:
    return segment_metadata(LocationMetadata(object_key=key, etag=etag).encode(), len(DATA))


class _Conformance(RemoteStorageFetcherTests):
    scheme: str

    def made(self, server: Server) -> Iterator[ObjectStoreFetcher]:
        self.server, self.bucket = server, server.new_bucket()
        fetcher = fetcher_of(f"{self.scheme}://{self.bucket}/tier", server)
        yield fetcher
        fetcher.close()

    def put(self, key: str, data: bytes) -> bytes:
        self.server.put(self.bucket, [(f"tier/{key}", data)])
        return self.absent(key)

    def absent(self, key: str) -> bytes:
        return LocationMetadata(object_key=key).encode()


class TestObjectStoreFetcherOnS3(_Conformance):
    scheme = "s3"

    @pytest.fixture
    def fetcher(self, s3_environment: S3Server) -> Iterator[ObjectStoreFetcher]:
        yield from self.made(s3_environment)


class TestObjectStoreFetcherOnAzure(_Conformance):
    scheme = "az"

    @pytest.fixture
    def fetcher(self, azure_environment: AzureServer) -> Iterator[ObjectStoreFetcher]:
        yield from self.made(azure_environment)


class TestObjectStoreFetcherOnGcs(_Conformance):
    scheme = "gs"

    @pytest.fixture
    def fetcher(self, gcs_server: GcsServer) -> Iterator[ObjectStoreFetcher]:
        yield from self.made(gcs_server)


OBJECTS = {"a.log": DATA, "dir/b c+é.index": DATA, "dir/empty": b"", "dir2/c.log": b"c"}


@pytest.fixture(params=["s3+obstore", "az", "gs"])
def served(request: pytest.FixtureRequest) -> tuple[str, Server]:
    """A scheme and its server. ``pytestmark`` names the fixtures too, for the suite that these tests belong to."""
    names = {"s3+obstore": "s3_environment", "az": "azure_environment", "gs": "gcs_server"}
    return request.param, request.getfixturevalue(names[request.param])


pytestmark = pytest.mark.stores


@pytest.fixture
def url(served: tuple[str, Server]) -> str:
    scheme, server = served
    bucket = server.new_bucket([*((f"tier/{key}", data) for key, data in OBJECTS.items()), ("elsewhere", b"x")])
    return f"{scheme}://{bucket}/tier"


@pytest.fixture
def store(served: tuple[str, Server], url: str) -> Iterator[ObjectStore]:
    store = load_store(url, served[1].options)
    assert isinstance(store, ObjectStore)
    yield store
    store.close()


def test_reads_objects_and_their_ranges(store: ObjectStore) -> None:
    assert {key: store.get(key) for key in OBJECTS} == OBJECTS
    assert store.get_range("a.log", 5, 300) == DATA[5:300]
    assert store.get_range("a.log", len(DATA) - 3, len(DATA) + 10) == DATA[-3:], "cut at the object's end"
    assert store.get_range("a.log", len(DATA), len(DATA) + 10) == b""
    assert store.get_range("a.log", 7, 7) == b""
    assert isinstance(store, StreamingObjectStore)
    assert read_all(store.open_range("a.log", 5, len(DATA))) == DATA[5:]
    for start, end in ((5, len(DATA) + 1), (7, 7)):
        with pytest.raises(RangeNotSatisfiableError):
            store.open_range("a.log", start, end)
    assert {key: store.size(key) for key in OBJECTS} == {key: len(data) for key, data in OBJECTS.items()}
    with pytest.raises(ValueError, match="not a byte range"):
        store.get_range("a.log", 3, 2)


def test_an_etag_names_one_version_of_an_object(served: tuple[str, Server], store: ObjectStore, url: str) -> None:
    before = store.etag("a.log")
    assert store.etag("a.log") == before
    assert before
    served[1].put(url.split("/")[2], [("tier/a.log", DATA[::-1])])
    assert store.etag("a.log") not in {None, before}
    assert store.etag("dir/empty") is None
    with pytest.raises(ObjectNotFoundError):
        store.etag("none.log")


def test_lists_keys_below_its_root_in_order(store: ObjectStore) -> None:
    assert list(store.list("")) == [ObjectInfo(key, len(data)) for key, data in OBJECTS.items()]
    assert [found.key for found in store.list("dir")] == ["dir/b c+é.index", "dir/empty", "dir2/c.log"]
    assert [found.key for found in store.list("dir/e")] == ["dir/empty"]
    assert list(store.list("nothing/")) == []


def test_a_missing_object_is_not_found(store: ObjectStore) -> None:
    for ask in (store.get, store.size, *(partial(read, end=10, start=0) for read in (store.get_range, store.open_range))):
        with pytest.raises(ObjectNotFoundError) as caught:
            ask("absent.log")
        assert caught.value.key == "absent.log"


@pytest.mark.parametrize("key", ["../elsewhere", "/x", "a//b", ""])
def test_keys_outside_the_root_are_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(ForbiddenLocationError):
        store.get(key)


def test_a_missing_bucket_cannot_be_listed(served: tuple[str, Server]) -> None:
    scheme, server = served
    store = load_store(f"{scheme}://no-such-bucket", server.options)
    with pytest.raises(RemoteStorageUnavailableError):
        list(store.list(""))
    if scheme != "gs":  # here the GCS server of the tests does not distinguish a bucket from an object, unlike GCS
        with pytest.raises(RemoteStorageUnavailableError):
            store.get("a.log")
        with pytest.raises(RemoteStorageUnavailableError):
            store.size("a.log")


def test_a_replaced_object_is_not_found(served: tuple[str, Server], url: str) -> None:
    fetcher = fetcher_of(url, served[1])
    with pytest.raises(SegmentNotFoundError):
        fetcher.fetch_log_segment(by_key("a.log", '"another-version"'), 0, 10)
    fetcher.close()


def test_the_located_version_is_read(s3_environment: S3Server) -> None:
    bucket = s3_environment.new_bucket([("a.log", DATA)])
    etag = s3_environment.client.head_object(Bucket=bucket, Key="a.log")["ETag"]
    fetcher = fetcher_of(f"s3://{bucket}", s3_environment)
    assert read_all(fetcher.fetch_log_segment(by_key("a.log", etag), 3, 1000)) == DATA[3:1000]
    fetcher.close()


def test_lists_more_than_one_page(s3_environment: S3Server) -> None:
    names = [f"topic.a-b_c-{number:05d}" for number in range(2005)]
    bucket = s3_environment.new_bucket()
    s3_environment.put_empty(bucket, names)
    store = ObjectStore(f"s3+obstore://{bucket}", s3_environment.options)
    assert [found.key for found in store.list("topic.a-b_c-")] == names


def test_refused_credentials_are_access_errors_and_show_nothing(
    azure_environment: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = azure_environment.new_bucket([("a.log", DATA)])
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "Y2FuYXJ5")
    fetcher = fetcher_of(f"az://{container}", azure_environment)
    with pytest.raises(RemoteStorageAccessError) as caught:
        fetcher.fetch_log_segment(by_key("a.log"), 0, 10)
    assert not [text for text in texts_of(caught.value) if "Y2FuYXJ5" in text or "a.log" in text or "http" in text]


class Misbehaving:
    """An S3 endpoint that gives scripted answers."""

    def __init__(self, origin: ScriptedOrigin) -> None:
        self.origin = origin
        self.options = {"s3.endpoint.url": origin.url, "s3.path.style": "true", "allow.http": "true", "s3.region": "eu-west-1"}
        origin.objects["bucket/a.log"] = DATA

    def fetcher(self, read_timeout_ms: int = 60_000) -> ObjectStoreFetcher:
        return fetcher_of("s3://bucket", self, **{"fetch.remote.read.timeout.ms": read_timeout_ms})

    def fails(self, read_timeout_ms: int = 60_000) -> RemoteStorageError:
        with pytest.raises(RemoteStorageError) as caught:
            read_all(self.fetcher(read_timeout_ms).fetch_log_segment(by_key("a.log"), 0, len(DATA)))
        assert not [text for text in texts_of(caught.value) if "canary" in text or "a.log" in text or "http" in text]
        return caught.value


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaving]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"canary-{name}")
    with ScriptedOrigin() as origin:
        yield Misbehaving(origin)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(503, "SlowDown"), RemoteStorageThrottledError),
        (error(500, "InternalError"), RemoteStorageUnavailableError),
        (error(404, "NoSuchKey"), SegmentNotFoundError),
        (error(404, "NoSuchBucket"), RemoteStorageUnavailableError),
        (error(403, "AccessDenied"), RemoteStorageAccessError),
        (Answer(ending=Ending.CUT, at=100), RemoteStorageUnavailableError),
        (Answer(ending=Ending.RESET, at=600_000), RemoteStorageUnavailableError),
    ],
)
def test_each_answer_has_its_error(misbehaving: Misbehaving, answer: Answer, kind: type[RemoteStorageError]) -> None:
    misbehaving.origin.otherwise = answer
    assert type(misbehaving.fails()) is kind
    assert len(misbehaving.origin.exchanges) == 1, "whether to ask again is the client's to decide"


@pytest.mark.parametrize("answer", [Answer(pace=Pace(1, 0.02)), Answer(silent=True), Answer(ending=Ending.STALL, at=100)])
def test_no_answer_takes_longer_than_the_deadline(misbehaving: Misbehaving, answer: Answer) -> None:
    misbehaving.origin.otherwise = answer
    assert type(misbehaving.fails(300)) is RemoteStorageTimeoutError


def test_an_unreachable_store_is_unavailable(misbehaving: Misbehaving) -> None:
    misbehaving.origin.stop()
    assert type(misbehaving.fails()) is RemoteStorageUnavailableError


def test_an_unconfigured_fetcher_reads_nothing() -> None:
    with pytest.raises(RemoteStorageUnavailableError):
        ObjectStoreFetcher().fetch_log_segment(by_key("a.log"), 0, 10)


def test_an_answer_with_another_range_is_refused(misbehaving: Misbehaving) -> None:
    misbehaving.origin.otherwise = Answer(headers={"Content-Range": "bytes 5-1048575/2000000"}, body=DATA[5:])
    assert isinstance(misbehaving.fails(), RemoteStorageError)


def test_a_location_without_a_key_is_refused(misbehaving: Misbehaving) -> None:
    nameless = segment_metadata(LocationMetadata(url="https://elsewhere.example/").encode())
    with pytest.raises(RemoteStorageError, match="no object key"):
        misbehaving.fetcher().fetch_log_segment(nameless, 0, 10)


def test_reading_a_closed_stream_is_refused(misbehaving: Misbehaving) -> None:
    stream = misbehaving.fetcher().fetch_log_segment(by_key("a.log"), 0, 1000)
    stream.close()
    with pytest.raises(RemoteStorageUnavailableError):
        stream.readinto(bytearray(10))


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("tape://library", {}, "the store URL must be gs://BUCKET"),
        ("s3://bucket", {"s3.profile": "x"}, r"unknown setting s3\.profile; known settings: s3\.endpoint\.url"),
        ("gs://bucket", {"gcs.endpoint.url": "http://127.0.0.1:1"}, "plain http; set remote.storage.fetcher.allow.http=true"),
        ("gs://bucket", {"gcs.service.account.file": "/no/such/file"}, "obstore rejected the gs settings"),
        ("az://container", {"ssl.ca.location": "/no/such/file"}, "ssl.ca.location cannot be read"),
        ("az://container", {"azure.anonymous": "perhaps"}, "must be true or false"),
    ],
)
def test_an_unusable_configuration_is_refused_with_its_reason(url: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ObjectStore(url, options)


def test_a_configured_ca_file_is_trusted(misbehaving: Misbehaving, tmp_path: Path) -> None:
    """The same request fails without it."""
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue().write(tmp_path / "server.pem"))
    ca_file = str(authority.write(tmp_path / "ca.pem"))
    with ScriptedOrigin({"bucket/a.log": DATA}, ssl_context=context) as origin:
        options = {"s3.endpoint.url": origin.url, "s3.path.style": True, "s3.region": "eu-west-1"}
        assert ObjectStore("s3+obstore://bucket", {**options, "ssl.ca.location": ca_file}).get_range("a.log", 0, 9) == DATA[:9]
        with pytest.raises(RemoteStorageUnavailableError):
            ObjectStore("s3+obstore://bucket", options).get("a.log")
