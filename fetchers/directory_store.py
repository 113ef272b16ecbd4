"""An object store that is a directory: ``file:///DIR``, confined to it.

A key is a relative path with ``/`` between its parts. Whatever a key says, only regular files below the root are opened: the
path is walked part by part from the root with symbolic links refused at each step, so that nobody who can write into the
store, or make up a key, can make us read a file elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from kafka_remote_client.errors import (
    ConfigurationError,
    DirectFetchError,
    ForbiddenLocationError,
    ObjectNotFoundError,
    RemoteStorageAccessError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ObjectInfo

__all__ = ["DirectoryStore", "directory_of", "open_beneath"]

_T = TypeVar("_T")
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class DirectoryStore:
    """A RemoteObjectStore over the files of one directory. Thread safe: it holds nothing open."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        """``url``: ``file:///DIR`` or a path. Raises ConfigurationError for another URL, or when no directory is there."""
        self._root = directory_of(url)

    def get(self, key: str) -> bytes:
        return self._read(key, 0, None)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if not 0 <= start <= end:
            raise ValueError(f"not a byte range: [{start}, {end})")
        return self._read(key, start, end - start)

    def size(self, key: str) -> int:
        return self._with_file(key, lambda fd: os.fstat(fd).st_size)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # The prefix need not end at a "/": only its whole directories are walked, its last part is compared.
        directory, _, _ = prefix.rpartition("/")
        if directory:
            _parts(directory)
        found = [info for info in self._walk(directory) if info.key.startswith(prefix)]
        return iter(sorted(found, key=lambda info: info.key))

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, key: str, start: int, size: int | None) -> bytes:
        def read(fd: int) -> bytes:
            available = max(0, os.fstat(fd).st_size - start)
            wanted = available if size is None else min(size, available)
            pieces = []
            at = start
            while wanted > 0 and (piece := os.pread(fd, wanted, at)):
                pieces.append(piece)
                at += len(piece)
                wanted -= len(piece)
            return b"".join(pieces)

        return self._with_file(key, read)

    def _with_file(self, key: str, action: Callable[[int], _T]) -> _T:
        fd = open_beneath(self._root, key)
        try:
            return action(fd)
        except OSError as error:
            raise _translated(error, key) from None
        finally:
            os.close(fd)

    def _walk(self, directory: str) -> Iterator[ObjectInfo]:
        try:
            with os.scandir(self._root / directory) as entries:
                children = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return  # never there, or gone since its parent was read
        except OSError as error:
            raise _translated(error, directory) from None
        for entry in children:
            key = f"{directory}/{entry.name}" if directory else entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(key)
            elif entry.is_file(follow_symlinks=False):
                try:
                    yield ObjectInfo(key, entry.stat(follow_symlinks=False).st_size)
                except FileNotFoundError:
                    continue  # removed since the directory was read


def directory_of(url: str | os.PathLike[str]) -> Path:
    """The directory that ``file:///DIR``, or a plain path, names. Raises ConfigurationError when there is none."""
    text = os.fspath(url)
    if "://" in text:
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
            raise ConfigurationError(f"a directory store is named file:///DIR, not {text!r}")
        text = unquote(parts.path)
    if not text or "\0" in text:
        raise ConfigurationError("a directory store needs a directory")
    path = Path(text).absolute()
    if not path.is_dir():
        raise ConfigurationError(f"no such directory: {path}")
    return path


def open_beneath(root: Path, key: str) -> int:
    """A file descriptor, open for reading, of the regular file ``key`` below ``root``. The caller closes it.

    Raises ForbiddenLocationError for a key that is absolute, has empty parts, ``.``, ``..`` or NUL, or meets a symbolic link
    or anything but a regular file; ObjectNotFoundError; RemoteStorageAccessError; RemoteStorageUnavailableError.
    """
    *directories, name = _parts(key)
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _translated(error, key) from None
    try:
        for part in directories:
            child = _enter(at, part)
            os.close(at)
            at = child
        # O_NONBLOCK: opening a FIFO must not wait for a writer. It means nothing to a regular file.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError as error:
        raise _translated(error, key) from None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ForbiddenLocationError(f"not a regular file: {key!r}")
    return fd


def _enter(directory: int, name: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except NotADirectoryError:
        # Linux says ENOTDIR of a symbolic link here, other systems ELOOP: make them alike.
        if stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def _parts(key: str) -> list[str]:
    parts = key.split("/")
    if "\0" in key or any(part in {"", ".", ".."} for part in parts):
        raise ForbiddenLocationError(f"not a key below the store's root: {key!r}")
    return parts


def _translated(error: OSError, key: str) -> DirectFetchError:
    if error.errno in _MISSING:
        return ObjectNotFoundError(key)
    if error.errno == errno.ELOOP:
        return ForbiddenLocationError(f"the path of {key!r} has a symbolic link")
    if error.errno in _DENIED:
        return RemoteStorageAccessError(f"not allowed to read {key!r}")
    return RemoteStorageUnavailableError(f"cannot read {key!r}: {error.strerror}")
