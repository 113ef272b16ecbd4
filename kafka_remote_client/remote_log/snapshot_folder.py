"""The folder of a metadata snapshot: one file, replaced as a whole, used by one process.

A new snapshot is written beside the old one, flushed to the disk and renamed, so that a crash at any moment leaves one of the
two. Folder and file belong to the process's user or to root, and no other user can write to them. A lock on the folder, which
ends with the process, keeps a second process from using it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from kafka_remote_client.errors import ConfigurationError

__all__ = ["MAX_SNAPSHOT_BYTES", "SNAPSHOT_FILE", "SnapshotFolder"]

SNAPSHOT_FILE = "remote-log-metadata.snapshot"
_PART = SNAPSHOT_FILE + ".part"
MAX_SNAPSHOT_BYTES = 2 << 30
"""Of a file that is read or written: about 20,000,000 segments."""
_CHUNK_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SnapshotFolder:
    """Opens and locks ``path``, which is created if it does not exist. Ends with :meth:`close`.

    Raises OSError, and ConfigurationError for a folder that others can write to or that another process uses.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file = path / SNAPSHOT_FILE
        self._folder = os.open(path, _DIRECTORY)
        try:
            _check_owner(os.fstat(self._folder), f"the folder {path}")
            try:
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(f"the folder {path} is used by another process") from None
        except BaseException:
            os.close(self._folder)
            raise

    def read(self, most: int = MAX_SNAPSHOT_BYTES) -> bytes | None:
        """The file's bytes, at most ``most``; None where there is none.

        Raises OSError, and ConfigurationError for a file that is larger, not a regular one, or that others can write to.
        """
        try:
            descriptor = os.open(SNAPSHOT_FILE, _READ, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ConfigurationError("it is not a regular file")
            _check_owner(found, "the file")
            _check_size(found.st_size, most)
            data = bytearray(found.st_size)
            view, at = memoryview(data), 0
            while at < len(data) and (count := os.readv(descriptor, [view[at:]])):
                at += count
            view.release()
        finally:
            os.close(descriptor)
        return bytes(data[:at])

    def write(self, parts: Iterable[bytes], most: int = MAX_SNAPSHOT_BYTES) -> int:
        """Replaces the file by ``parts``; returns its size in bytes.

        Raises OSError, what ``parts`` raises, and ConfigurationError for more than ``most`` bytes. The old file stays then.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_PART, dir_fd=self._folder)  # of a process that was killed
        size = 0
        try:
            with os.fdopen(os.open(_PART, _WRITE, 0o600, dir_fd=self._folder), "wb", buffering=_CHUNK_BYTES) as file:
                for part in parts:
                    size += file.write(part)
                    _check_size(size, most)
                file.flush()
                os.fsync(file.fileno())
            os.replace(_PART, SNAPSHOT_FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(_PART, dir_fd=self._folder)
            raise
        return size

    def close(self) -> None:
        """Ends the lock."""
        os.close(self._folder)


def _check_owner(found: os.stat_result, what: str) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(f"{what} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & _OTHERS_WRITE:
        raise ConfigurationError(f"other users can write to {what}; its mode is {stat.S_IMODE(found.st_mode):o}")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ConfigurationError(f"a snapshot of more than {most} bytes is neither read nor written")
