"""An object store that is a directory: ``file:///DIR``, confined to it.

A key is a relative path with ``/`` between its parts. Whatever a key says, only regular files below the root are opened
(``kafka_remote_client.safe_open``).
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar
from urllib.parse import unquote, urlsplit

from kafka_remote_client.errors import (
    ConfigurationError,
    DirectFetchError,
    ForbiddenLocationError,
    RemoteStorageAccessError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ObjectInfo, ReadableStream, WritableBuffer
from kafka_remote_client.safe_open import check_object_key, safe_open
from kafka_remote_fetchers._byte_range import WantedRange

__all__ = ["DirectoryStore", "directory_of", "open_file_range"]

_T = TypeVar("_T")
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class DirectoryStore:
    """A RemoteObjectStore over the files of one directory. Thread safe: it holds nothing open."""

    settings: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, url: str | os.PathLike[str], options: Mapping[str, object] | None = None) -> None:
        """``url``: ``file:///DIR`` or a path. Raises ConfigurationError for another URL, or when no directory is there."""
        self._root = directory_of(url)

    def get(self, key: str) -> bytes:
        return self._read(key, 0, None)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if not 0 <= start <= end:
            raise ValueError(f"not a byte range: [{start}, {end})")
        return self._read(key, start, end - start)

    def open_range(self, key: str, start: int, end: int) -> ReadableStream:
        return open_file_range(self._root, key, WantedRange.of(start, end))

    def size(self, key: str) -> int:
        return self._with_file(key, lambda fd: os.fstat(fd).st_size)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # The prefix need not end at a "/": the walk begins in its last whole directory, where names are compared.
        directory, _, _ = prefix.rpartition("/")
        if directory:
            _check_directory(directory)
        return iter(sorted(self._walk(directory, prefix), key=lambda info: info.key))

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
        fd = safe_open(self._root, key)
        try:
            return action(fd)
        except OSError as error:
            raise _translated(error, key) from None
        finally:
            os.close(fd)

    def _walk(self, directory: str, prefix: str) -> Iterator[ObjectInfo]:
        try:
            with os.scandir(self._root / directory) as entries:
                children = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return  # never there, or gone since its parent was read
        except OSError as error:
            raise _translated(error, directory) from None
        for entry in children:
            key = f"{directory}/{entry.name}" if directory else entry.name
            if not key.startswith(prefix):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(key, prefix)
            elif entry.is_file(follow_symlinks=False):
                try:
                    yield ObjectInfo(key, entry.stat(follow_symlinks=False).st_size)
                except FileNotFoundError:
                    continue  # removed since the directory was read
                except OSError as error:  # a directory may be listed without a right to its files
                    raise _translated(error, key) from None


def open_file_range(root: Path, key: str, wanted: WantedRange) -> ReadableStream:
    """Opens a range of the file ``key`` below ``root``. Raises as ``safe_open``, and RangeNotSatisfiableError."""
    file = os.fdopen(safe_open(root, key), "rb", buffering=0)
    try:
        end = wanted.end_in(os.fstat(file.fileno()).st_size)
        file.seek(wanted.start)
    except BaseException:
        file.close()
        raise
    return _FileRangeStream(file, end - wanted.start)


class _FileRangeStream:
    """A ReadableStream over an open file, from where it stands."""

    def __init__(self, file: io.FileIO, length: int) -> None:
        self._file = file
        self._remaining = length

    def readinto(self, buffer: WritableBuffer, /) -> int:
        with memoryview(buffer) as whole, whole.cast("B") as data:
            wanted = min(len(data), self._remaining)
            if not wanted:
                return 0
            with data[:wanted] as front:
                count = _read(self._file, front)
        self._remaining -= count
        return count

    def close(self) -> None:
        self._file.close()


def _read(file: io.FileIO, front: memoryview) -> int:
    try:
        count = file.readinto(front)
    except (OSError, ValueError):  # ValueError: the stream was closed
        count = 0
    if not count:
        raise RemoteStorageUnavailableError("the file ended before the range")
    return count


def directory_of(url: str | os.PathLike[str]) -> Path:
    """The directory that ``file:///DIR``, or a plain path, names. Raises ConfigurationError when there is none."""
    text = os.fspath(url)
    if "://" in text:
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
            raise ConfigurationError(f"the store URL must be file:///DIR, not {text!r}")
        text = unquote(parts.path)
    if not text or "\0" in text:
        raise ConfigurationError("the store URL file:// names no directory")
    path = Path(text).absolute()
    if not path.is_dir():
        raise ConfigurationError(f"directory does not exist: {path}")
    return path


def _check_directory(directory: str) -> None:
    try:
        check_object_key(directory)
    except ValueError as error:
        raise ForbiddenLocationError(f"the prefix must be below the store's root: {error}") from None


def _translated(error: OSError, key: str) -> DirectFetchError:
    if error.errno in _DENIED:
        return RemoteStorageAccessError(f"no permission to read {key!r}")
    return RemoteStorageUnavailableError(f"cannot read {key!r}: {error.strerror}")
