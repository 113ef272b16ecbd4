"""The S3 store with a real S3 server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from botocore.exceptions import ReadTimeoutError
from kafka_remote_fetchers.s3_store import S3Store

from kafka_remote_client.errors import (
    ForbiddenLocationError,
    InvalidStorageResponseError,
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ObjectInfo, StreamingObjectStore, VersionedObjectStore
from kafka_remote_client.registry import load_store
from kafka_remote_client.testing import Answer, Ending, ScriptedOrigin, multipart, read_all, texts_of, whole_object
from tests.support.clocks import TickingClock
from tests.support.locations import ManualClock
from tests.support.s3_server import S3Server

DATA = bytes(range(256)) * 2048  # more than one piece


@pytest.fixture
def bucket(s3_environment: S3Server) -> str:
    names = ["a.log", "dir/b c+é.index", "dir/empty", "dir2/c.log"]
    objects = [(f"tier/{name}", b"" if name.endswith("empty") else DATA) for name in names]
    return s3_environment.new_bucket([*objects, ("tier/folder/", b""), ("elsewhere/d.log", b"d")])


@pytest.fixture
def store(s3_environment: S3Server, bucket: str) -> Iterator[S3Store]:
    store = S3Store(f"s3://{bucket}/tier", s3_environment.options)
    yield store
    store.close()


def test_reads_objects_and_their_ranges(store: S3Store) -> None:
    assert store.get("dir/b c+é.index") == DATA
    assert store.get("dir/empty") == b""
    assert store.get_range("a.log", 5, 300) == DATA[5:300]
    assert store.get_range("a.log", len(DATA) - 3, len(DATA) + 10) == DATA[-3:], "cut at the object's end"
    assert store.get_range("a.log", len(DATA), len(DATA) + 10) == b""
    assert store.get_range("a.log", 7, 7) == b""
    assert [store.size(key) for key in ("a.log", "dir/empty")] == [len(DATA), 0]
    with pytest.raises(ValueError, match="not a byte range"):
        store.get_range("a.log", 3, 2)


def test_an_open_range_has_all_of_its_bytes_or_is_refused(store: S3Store) -> None:
    assert isinstance(store, StreamingObjectStore)
    assert read_all(store.open_range("dir/b c+é.index", 5, len(DATA))) == DATA[5:]
    for start, end in ((5, len(DATA) + 1), (len(DATA), len(DATA) + 1), (7, 7)):
        with pytest.raises(RangeNotSatisfiableError):
            store.open_range("a.log", start, end)


def test_ranges_that_are_open_end_with_the_store(store: S3Store) -> None:
    store.open_range("a.log", 0, 10).close()
    store.close()
    with pytest.raises(RemoteStorageUnavailableError):
        store.open_range("a.log", 0, 10)


def test_ranges_go_through_the_proxy_of_the_environment(
    s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedOrigin(otherwise=Answer(status=206, headers={"Content-Range": "bytes 0-2/9"}, body=b"abc")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        store = S3Store(f"s3://{bucket}/tier", s3_environment.options)
        assert read_all(store.open_range("a.log", 0, 3)) == b"abc"
        store.close()
        assert proxy.exchanges
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    store = S3Store(f"s3://{bucket}/tier", s3_environment.options)
    assert read_all(store.open_range("a.log", 0, 3)) == DATA[:3]
    store.close()


def test_the_etag_is_that_of_the_current_version(s3_environment: S3Server, store: S3Store, bucket: str) -> None:
    assert isinstance(store, VersionedObjectStore)
    before = store.etag("a.log")
    head = s3_environment.client.head_object(Bucket=bucket, Key="tier/a.log")
    assert before == head["ETag"]
    s3_environment.put(bucket, [("tier/a.log", DATA[::-1])])
    assert store.etag("a.log") not in {None, before}
    assert store.etag("dir/empty") is None
    s3_environment.put(bucket, [("tier/a.log", DATA)])
    with pytest.raises(ObjectNotFoundError):
        store.etag("none.log")


def test_lists_keys_below_its_root_in_order(store: S3Store) -> None:
    expected = [("a.log", len(DATA)), ("dir/b c+é.index", len(DATA)), ("dir/empty", 0), ("dir2/c.log", len(DATA))]
    assert list(store.list("")) == [ObjectInfo(key, size) for key, size in expected]
    assert [found.key for found in store.list("dir")] == ["dir/b c+é.index", "dir/empty", "dir2/c.log"]
    assert [found.key for found in store.list("dir/e")] == ["dir/empty"]
    assert list(store.list("nothing/")) == []


def test_lists_more_than_one_page(s3_environment: S3Server) -> None:
    names = [f"topic.a-b_c-{number:05d}" for number in range(2005)]
    bucket = s3_environment.new_bucket()
    s3_environment.put_empty(bucket, names)
    store = load_store(f"s3://{bucket}", s3_environment.options)
    assert [found.key for found in store.list("topic.a-b_c-")] == names
    store.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: list(store.list("")),
        lambda store: store.get("a.log"),
        lambda store: store.get_range("a.log", 0, 3),
        lambda store: store.size("a.log"),
        lambda store: store.open_range("a.log", 0, 3),
    ],
    ids=["list", "get", "get-range", "size", "open-range"],
)
def test_each_operation_refuses_a_wrong_region(s3_environment: S3Server, bucket: str, ask: Callable[[S3Store], object]) -> None:
    store = S3Store(f"s3://{bucket}/tier", {**s3_environment.options, "s3.region": "eu-north-1"})
    with closing(store), pytest.raises(RemoteStorageError, match=r"; set s3\.region to us-east-1, the region of the bucket$"):
        ask(store)


@pytest.mark.parametrize("status", [301, 302, 307])
def test_redirects_of_a_listing_are_not_followed(s3_environment: S3Server, status: int) -> None:
    del s3_environment
    elsewhere = Answer(status=status, headers={"Location": "http://elsewhere.example/", "x-amz-bucket-region": "eu-north-1"})
    with ScriptedOrigin(otherwise=elsewhere) as origin:
        options = {"s3.endpoint.url": origin.url, "s3.path.style": True, "allow.http": True, "s3.region": "eu-west-1"}
        with closing(S3Store("s3://bucket", options)) as store, pytest.raises(ForbiddenLocationError):
            list(store.list(""))
        assert len(origin.exchanges) == 1


@pytest.mark.parametrize("key", ["absent.log", "folder"])
def test_a_missing_object_is_not_found(store: S3Store, key: str) -> None:
    ranges = [lambda key: store.get_range(key, 0, 10), lambda key: store.open_range(key, 0, 10)]
    for ask in (store.get, store.size, *ranges):
        with pytest.raises(ObjectNotFoundError) as caught:
            ask(key)
        assert caught.value.key == key


def test_a_missing_bucket_is_not_a_missing_object(s3_environment: S3Server) -> None:
    """A missing index has a meaning in a tier. A missing store must not be mistaken for it."""
    store = S3Store("s3://no-such-bucket", s3_environment.options)
    for ask in (store.get, store.size, lambda prefix: list(store.list(prefix))):
        with pytest.raises(RemoteStorageUnavailableError, match="NoSuchBucket"):
            ask("a.log")
    store.close()


@pytest.mark.parametrize("key", ["../x", "/x", "a//b", ""])
def test_keys_outside_the_root_are_refused(store: S3Store, key: str) -> None:
    with pytest.raises(ForbiddenLocationError):
        store.get(key)


def test_refused_credentials_are_access_errors_and_show_nothing(
    s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-key")
    store = S3Store(f"s3://{bucket}/tier", s3_environment.options)
    with pytest.raises(RemoteStorageAccessError) as caught:
        store.get("a.log")
    assert not [text for text in texts_of(caught.value) if "canary" in text or "Signature=" in text or "tier/" in text]
    store.close()


def test_replaced_credentials_are_read_again(
    s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    good = f"[default]\naws_access_key_id = {s3_environment.access_key}\naws_secret_access_key = {s3_environment.secret_key}\n"
    file.write_text(good.replace(s3_environment.access_key, "former-key"))
    clock = ManualClock()
    store = S3Store(f"s3://{bucket}/tier", s3_environment.options, clock)
    with pytest.raises(RemoteStorageAccessError):
        store.size("a.log")
    file.write_text(good)
    with pytest.raises(RemoteStorageAccessError):
        store.size("a.log")  # they were read a moment ago
    clock.now += 10
    assert store.size("a.log") == len(DATA)
    assert read_all(store.open_range("a.log", 3, 8)) == DATA[3:8]
    store.close()


def scripted(origin: ScriptedOrigin, **options: object) -> S3Store:
    given = {"s3.endpoint.url": f"http://{origin.authority}", "s3.path.style": True, "allow.http": True, **options}
    return S3Store("s3://bucket", given)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary")


def test_a_truncated_answer_is_unavailable(credentials: None) -> None:
    with ScriptedOrigin(otherwise=Answer(ending=Ending.CUT, at=10)) as origin:
        origin.objects["bucket/a.log"] = DATA
        store = scripted(origin)
        with pytest.raises(RemoteStorageUnavailableError):
            store.get_range("a.log", 0, 1000)
        store.close()


@pytest.mark.parametrize(
    "answer",
    [
        whole_object(DATA),
        multipart(),
        Answer(headers={"Content-Range": None}),
        Answer(headers={"Content-Range": f"bytes 10-19/{len(DATA)}"}),
        Answer(headers={"Content-Range": f"bytes 5-20/{len(DATA)}"}),
    ],
)
def test_an_answer_with_another_range_is_invalid(credentials: None, answer: Answer) -> None:
    with ScriptedOrigin(otherwise=answer) as origin:
        origin.objects["bucket/a.log"] = DATA
        store = scripted(origin)
        with pytest.raises(InvalidStorageResponseError):
            store.get_range("a.log", 5, 15)
        store.close()


def test_an_answer_without_a_size_is_invalid(credentials: None) -> None:
    with ScriptedOrigin(otherwise=Answer(status=200, body=b"x")) as origin:
        store = scripted(origin)
        with pytest.raises(InvalidStorageResponseError):
            store.size("a.log")
        store.close()


def test_one_object_has_one_deadline(s3_environment: S3Server, bucket: str) -> None:
    store = S3Store(f"s3://{bucket}/tier", s3_environment.options, TickingClock(40))
    with pytest.raises(RemoteStorageTimeoutError):
        store.get("a.log")
    store.close()


def test_a_silent_store_times_out(s3_environment: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store(f"s3://{bucket}/tier", s3_environment.options)

    def silent(**_: object) -> None:
        raise ReadTimeoutError(endpoint_url="http://canary")

    monkeypatch.setattr(store._clients.current.boto, "get_object", silent)
    with pytest.raises(RemoteStorageTimeoutError) as caught:
        store.get("a.log")
    assert not [text for text in texts_of(caught.value) if "canary" in text]
    store.close()
