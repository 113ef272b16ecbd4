"""The folder of a metadata snapshot: one file, replaced atomically, for one process.

A new snapshot is written to a second file, synced to disk and renamed. After a crash at any moment, the folder has the old or
the new snapshot. Folder and file must belong to the process's user or to root, and no other user may have write permission. A
lock on the folder (flock) excludes a second process; it ends with the process.
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
"""Maximum size of a snapshot: about 20,000,000 segments."""
_CHUNK_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SnapshotFolder:
    """Creates ``path`` if it does not exist, opens and locks it. Call :meth:`close` at the end.

    Raises OSError, and ConfigurationError if other users can write to the folder, or another process uses it.
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
                raise ConfigurationError(f"another process uses the folder {path}") from None
        except BaseException:
            os.close(self._folder)
            raise

    def read(self, most: int = MAX_SNAPSHOT_BYTES) -> bytes | None:
        """Reads the snapshot; None if there is none.

        Raises OSError, and ConfigurationError if it has more than ``most`` bytes, is not a regular file, or other users can
        write to it.
        """
        try:
            descriptor = os.open(SNAPSHOT_FILE, _READ, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ConfigurationError(f"{SNAPSHOT_FILE} is not a regular file")
            _check_owner(found, f"the file {SNAPSHOT_FILE}")
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
        """Replaces the snapshot by ``parts``. Returns its size in bytes.

        Raises OSError, the errors of ``parts``, and ConfigurationError for more than ``most`` bytes. The old snapshot then
        remains.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_PART, dir_fd=self._folder)  # left by a process that was killed
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
        """Releases the lock."""
        os.close(self._folder)


def _check_owner(found: os.stat_result, what: str) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(f"{what} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & _OTHERS_WRITE:
        raise ConfigurationError(f"other users can write to {what}; its mode is {stat.S_IMODE(found.st_mode):o}")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ConfigurationError(f"the snapshot has more than {most} bytes, which is the limit")
