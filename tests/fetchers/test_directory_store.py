from __future__ import annotations

import contextlib
import errno
import os
import tracemalloc

import pytest
from kafka_remote_fetchers import directory_store
from kafka_remote_fetchers.directory_store import DirectoryStore, directory_of

from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ObjectInfo, StreamingObjectStore
from kafka_remote_client.testing import read_all
from tests.support.bad_keys import BAD_KEYS


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "store"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "object").write_bytes(b"0123456789")
    (root / "a-b").write_bytes(b"dash")
    (root / "top").write_bytes(b"")
    (tmp_path / "secret").write_bytes(b"not for you")
    return root


@pytest.fixture
def store(root):
    return DirectoryStore(root)


def test_get_gives_the_whole_object(store):
    assert store.get("a/b/object") == b"0123456789"
    assert store.get("top") == b""


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 10, b"0123456789"), (3, 5, b"34"), (8, 100, b"89"), (10, 20, b""), (99, 100, b""), (4, 4, b"")],
)
def test_get_range_is_cut_at_the_objects_end(store, start, end, expected):
    assert store.get_range("a/b/object", start, end) == expected


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (5, 4)])
def test_get_range_raises_for_an_invalid_range(store, start, end):
    with pytest.raises(ValueError, match="byte range"):
        store.get_range("a/b/object", start, end)


def test_an_open_range_has_all_of_its_bytes_or_is_refused(store):
    assert isinstance(store, StreamingObjectStore)
    assert read_all(store.open_range("a/b/object", 3, 10)) == b"3456789"
    for start, end in ((3, 11), (10, 12), (4, 4)):
        with pytest.raises(RangeNotSatisfiableError):
            store.open_range("a/b/object", start, end)


def test_a_range_far_beyond_the_object_allocates_nothing(store):
    tracemalloc.start()
    try:
        store.get_range("a/b/object", 0, 2**40)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_size(store):
    assert (store.size("a/b/object"), store.size("top")) == (10, 0)


def test_list_returns_the_objects_below_a_prefix_in_key_order(store, root):
    everything = [ObjectInfo("a-b", 4), ObjectInfo("a/b/object", 10), ObjectInfo("top", 0)]
    assert list(store.list("")) == everything
    assert list(store.list("a")) == everything[:2]
    assert list(store.list("a/")) == everything[1:2]
    assert list(store.list("a/b/obj")) == everything[1:2]
    assert list(store.list("a/b/objects")) == []
    assert list(store.list("none/at/all")) == []
    assert list(store.list("top/x")) == []


def test_list_reads_no_directory_outside_of_the_prefix(store, root, monkeypatch):
    """A tier's directory has all topics. The time to list one must not grow with the others."""
    (root / "b-0" / "deep").mkdir(parents=True)
    read, scandir = [], os.scandir

    def scanned(path):
        read.append(path.relative_to(root).as_posix())
        return scandir(path)

    monkeypatch.setattr(directory_store.os, "scandir", scanned)
    assert [info.key for info in store.list("a/b/ob")] == ["a/b/object"]
    assert read == ["a/b"]
    read.clear()
    assert [info.key for info in store.list("a")] == ["a-b", "a/b/object"]
    assert read == [".", "a", "a/b"]


def test_files_outside_of_the_prefix_need_no_permission(store, root, monkeypatch):
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(directory_store.os, "scandir", lambda path: Listing([Failing(denied)]))
    assert list(store.list("a")) == []


def test_list_leaves_out_links_and_special_files(store, root, tmp_path):
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "links").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    assert [info.key for info in store.list("")] == ["a-b", "a/b/object", "top"]


class Failing:
    """An entry of a directory whose metadata cannot be read."""

    name = "gone"

    def __init__(self, error):
        self.error = error

    def is_dir(self, *, follow_symlinks):
        return False

    def is_file(self, *, follow_symlinks):
        return True

    def stat(self, *, follow_symlinks):
        raise self.error


class Listing(list):
    def __enter__(self):
        return self

    def __exit__(self, *args):
        return None


def test_list_skips_files_that_vanish_meanwhile(store, root, monkeypatch):
    monkeypatch.setattr(directory_store.os, "scandir", lambda path: Listing([Failing(FileNotFoundError())]))
    assert list(store.list("")) == []


def test_files_that_may_not_be_looked_at_are_an_access_error(store, root, monkeypatch):
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(directory_store.os, "scandir", lambda path: Listing([Failing(denied)]))
    with pytest.raises(RemoteStorageAccessError, match="no permission to read 'gone'"):
        store.list("")


@pytest.mark.parametrize("key", ["missing", "a/missing", "missing/object", "top/object", "a/b/object/deeper", "x" * 1000])
def test_raises_for_a_missing_object(store, key):
    for call in (store.get, store.size, lambda key: store.get_range(key, 0, 1), lambda key: store.open_range(key, 0, 1)):
        with pytest.raises(ObjectNotFoundError) as caught:
            call(key)
        assert caught.value.key == key


@pytest.mark.parametrize("key", [*BAD_KEYS, "a/./b/object", "./top", "a//b/object", "top/", "a/b/object\0.log"])
def test_refuses_a_key_that_is_not_a_path_below_the_root(store, key):
    with pytest.raises(ForbiddenLocationError, match=r"object key must|surrogates"):
        store.get(key)


@pytest.mark.parametrize("prefix", ["../", "a/../", "/etc/", "a//"])
def test_refuses_a_prefix_that_is_not_a_path_below_the_root(store, prefix):
    with pytest.raises(ForbiddenLocationError):
        store.list(prefix)


def test_refuses_links_anywhere_in_a_path(store, root, tmp_path):
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "links").symlink_to(tmp_path)
    (root / "inside").symlink_to(root / "a")
    (root / "dangling").symlink_to(root / "nowhere")
    for key in ("link", "links/secret", "inside/b/object", "dangling", "links/store/top"):
        with pytest.raises(ForbiddenLocationError, match="symbolic link"):
            store.get(key)


def test_refuses_special_files_without_waiting_for_them(store, root):
    os.mkfifo(root / "pipe")
    for key in ("pipe", "a"):
        with pytest.raises(ForbiddenLocationError, match="not a regular file"):
            store.get(key)


def test_a_root_that_is_a_link_is_followed(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    assert DirectoryStore(tmp_path / "alias").get("a-b") == b"dash"


def test_no_descriptor_stays_open(store, root, monkeypatch):
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / "top")
    opened, closed = [], []
    real_open, real_close = os.open, os.close
    monkeypatch.setattr(directory_store.os, "open", lambda *a, **k: opened.append(fd := real_open(*a, **k)) or fd)
    monkeypatch.setattr(directory_store.os, "close", lambda fd: closed.append(fd) or real_close(fd))
    for key in ("a/b/object", "pipe", "link", "missing", "top/x", "a/b"):
        with contextlib.suppress(ForbiddenLocationError, ObjectNotFoundError):
            store.get(key)
    assert sorted(opened) == sorted(closed)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, RemoteStorageAccessError),
        (errno.EPERM, RemoteStorageAccessError),
        (errno.EIO, RemoteStorageUnavailableError),
    ],
)
def test_system_errors_are_distinguished(store, monkeypatch, number, expected):
    def failing(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(directory_store.os, "open", failing)
        with pytest.raises(expected):
            store.get("top")
    with monkeypatch.context() as patched:
        patched.setattr(directory_store.os, "pread", failing)
        with pytest.raises(expected):
            store.get("a-b")
    with monkeypatch.context() as patched:
        patched.setattr(directory_store.os, "scandir", failing)
        with pytest.raises(expected):
            store.list("")


def test_a_root_that_vanishes_makes_the_store_unavailable(store, root):
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(RemoteStorageUnavailableError):
        store.get("top")
    assert list(store.list("")) == []


def test_a_file_that_shrinks_during_a_read_gives_the_rest(store, monkeypatch):
    pread = os.pread
    monkeypatch.setattr(directory_store.os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at) if at < 6 else b"")
    assert store.get("a/b/object") == b"012345"


def test_the_directory_is_named_by_url_or_path(root, tmp_path):
    spaced = tmp_path / "with space"
    spaced.mkdir()
    for url in (root, str(root), root.as_uri(), f"file://localhost{root}"):
        assert directory_of(url) == root
    assert directory_of(spaced.as_uri()) == spaced
    DirectoryStore(root.as_uri()).close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "s3://bucket/prefix",
        "http://host/dir",
        "file://otherhost/dir",
        "file:///dir?query",
        "file:///dir#fragment",
        "file://",
        "/no/such/directory/at/all",
        "file:///no/such/directory",
        "file:///a%00b",
    ],
)
def test_raises_for_a_url_or_path_without_a_directory(url):
    with pytest.raises(ConfigurationError):
        DirectoryStore(url)


def test_raises_for_a_file_in_place_of_the_directory(root):
    with pytest.raises(ConfigurationError, match="directory does not exist"):
        DirectoryStore(root / "top")
