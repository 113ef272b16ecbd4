"""The sources of the origin: files of a directory, or the objects of a RemoteObjectStore."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
from pathlib import Path
from typing import BinaryIO, Protocol

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.safe_open import safe_open

__all__ = ["ServedObject", "ServedObjects", "served_objects"]


class ServedObject(Protocol):
    """One object while it is being served. ``size`` is in bytes; ``etag`` names this version, in quotes."""

    size: int
    etag: str

    def send(self, connection: socket.socket, start: int, end: int) -> None:
        """Sends bytes ``[start, end)``. Raises OSError: the head is sent already, so the caller closes the connection."""

    def close(self) -> None:
        """Releases the object."""


class ServedObjects(Protocol):
    """The source of an origin's objects."""

    def open(self, key: str) -> ServedObject:
        """Raises as plugin.RemoteObjectStore.get does."""


def served_objects(objects: Path | RemoteObjectStore) -> ServedObjects:
    """A directory's files, or a store's objects."""
    return _DirectoryObjects(objects) if isinstance(objects, Path) else _StoreObjects(objects)


class _DirectoryObjects:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, key: str) -> ServedObject:
        return _File(os.fdopen(safe_open(self._root, key), "rb", buffering=0))


class _File:
    """A file goes to a plain socket inside the kernel; TLS has to see the bytes."""

    def __init__(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        self._file = file
        self.size = status.st_size
        self.etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'

    def send(self, connection: socket.socket, start: int, end: int) -> None:
        if not isinstance(connection, ssl.SSLSocket):
            sent = connection.sendfile(self._file, start, end - start)
        else:
            data = os.pread(self._file.fileno(), end - start, start)
            connection.sendall(data)
            sent = len(data)
        if sent != end - start:  # the file was cut while it was being sent: the announced length cannot be kept
            raise ConnectionAbortedError

    def close(self) -> None:
        self._file.close()


class _StoreObjects:
    def __init__(self, store: RemoteObjectStore) -> None:
        self._store = store

    def open(self, key: str) -> ServedObject:
        return _StoredObject(self._store, key, self._store.size(key))


class _StoredObject:
    """The store's objects are immutable, so key and size name a version."""

    def __init__(self, store: RemoteObjectStore, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self.size = size
        self.etag = f'"{hashlib.sha256(key.encode()).hexdigest()[:32]}-{size:x}"'

    def send(self, connection: socket.socket, start: int, end: int) -> None:
        try:
            data = self._store.get_range(self._key, start, end)
        except DirectFetchError:
            data = b""
        if len(data) != end - start:  # the head is sent already: only closing the connection reports the error
            raise ConnectionAbortedError
        connection.sendall(data)

    def close(self) -> None:
        """Does nothing: the owner closes the store."""
