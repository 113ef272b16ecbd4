"""S17: which paths below a root open, and which do not."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from kafka_remote_client import safe_open as confined
from kafka_remote_client.errors import (
    DirectFetchError,
    ForbiddenLocationError,
    ObjectNotFoundError,
    RemoteStorageAccessError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.safe_open import check_object_key, safe_open
from tests.support.bad_keys import BAD_KEYS
from tests.support.descriptors import open_below


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "object").write_bytes(b"bytes")
    return root


def read(root: Path, key: str) -> bytes:
    with os.fdopen(safe_open(root, key), "rb") as file:
        return file.read()


def test_opens_a_regular_file_below_the_root(root: Path) -> None:
    assert read(root, "a/b/object") == b"bytes"


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert read(tmp_path / "link", "a/b/object") == b"bytes"


@pytest.mark.parametrize("key", BAD_KEYS)
def test_s17_an_invalid_key_is_forbidden(root: Path, key: str) -> None:
    with pytest.raises(ForbiddenLocationError):
        safe_open(root, key)
    with pytest.raises(ValueError, match=r"object key|surrogates"):
        check_object_key(key)


@pytest.mark.parametrize(
    "key", ["absent", "a/absent", "absent/object", "a/b/object/deeper", "a/" + "x" * 300, "~/x", "%2e%2e/secret"]
)
def test_a_missing_file_is_not_found(root: Path, key: str) -> None:
    with pytest.raises(ObjectNotFoundError) as caught:
        safe_open(root, key)
    assert caught.value.key == key


def test_s17_links_are_not_followed_wherever_they_lead(root: Path, tmp_path: Path) -> None:
    (root / "file-link").symlink_to(tmp_path / "secret")
    (root / "inner-link").symlink_to(root / "a" / "b" / "object")
    (root / "directory-link").symlink_to(tmp_path)
    (root / "a" / "up").symlink_to("..")
    (root / "dangling").symlink_to("nowhere")
    (root / "self").symlink_to("self")
    (root / "proc").symlink_to("/proc/self")
    for key in [
        "file-link",
        "inner-link",
        "directory-link/secret",
        "a/up/a/b/object",
        "dangling",
        "self",
        "self/x",
        "proc/environ",
    ]:
        with pytest.raises(ForbiddenLocationError, match="symbolic link"):
            safe_open(root, key)


def test_s17_only_regular_files_open(root: Path) -> None:
    os.mkfifo(root / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "socket"))
    for key in ["fifo", "socket", "a", "a/b"]:
        with pytest.raises(ForbiddenLocationError, match="regular file"):
            safe_open(root, key)
    listener.close()
    with pytest.raises(ForbiddenLocationError, match="regular file"):
        safe_open(Path("/dev"), "null")


def test_a_missing_root_is_unavailable_not_empty(tmp_path: Path) -> None:
    for root in (tmp_path / "gone", Path(__file__)):
        with pytest.raises(RemoteStorageUnavailableError, match="directory cannot be opened"):
            safe_open(root, "a")


@pytest.mark.parametrize(
    ("code", "of_root", "of_object"),
    [
        (errno.EACCES, RemoteStorageAccessError, RemoteStorageAccessError),
        (errno.EPERM, RemoteStorageAccessError, RemoteStorageAccessError),
        (errno.EIO, RemoteStorageUnavailableError, RemoteStorageUnavailableError),
        (errno.ESTALE, RemoteStorageUnavailableError, RemoteStorageUnavailableError),
        (0, RemoteStorageUnavailableError, RemoteStorageUnavailableError),
    ],
)
def test_the_systems_error_code_decides_the_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, of_root: type[DirectFetchError], of_object: type[DirectFetchError]
) -> None:
    really_open = os.open
    refused: list[object] = []

    def refuse(path: object, flags: int, *, dir_fd: int | None = None) -> int:
        if path in refused:
            raise OSError(code, "refused")
        return really_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(confined.os, "open", refuse)
    for name, expected in ((root, of_root), ("b", of_object), ("object", of_object)):
        refused[:] = [name]
        with pytest.raises(expected):
            safe_open(root, "a/b/object")


def test_a_name_that_vanishes_during_the_check_is_not_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> os.stat_result:
        raise FileNotFoundError

    monkeypatch.setattr(confined.os, "stat", gone)
    with pytest.raises(ObjectNotFoundError):
        safe_open(root, "a/b/object/deeper")


def test_no_descriptor_stays_open(root: Path) -> None:
    for key in ["a/b/object/x", "a/b", "absent", "a/absent"]:
        with pytest.raises(DirectFetchError):
            safe_open(root, key)
    read(root, "a/b/object")
    assert open_below(root) == []
