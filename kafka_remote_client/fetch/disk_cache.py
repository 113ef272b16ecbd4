"""A directory of cached ranges that many threads and processes of one user share, with files and locks, without a daemon.

::

    DIRECTORY/                      0700, of this user; refused if others could write to it
      eviction.lock                 held by the process that lists all files
      <identity>/                   one object (cache_entry.identity_of)
        <start>-<end>.chunk         a complete entry; its modification time is its last use
        <start>-<end>.tmp           being written, and locked by its writer

An entry is written under its temporary name and renamed, so it is either complete or missing. The lock of the temporary file
makes one of many callers read the store: a caller that cannot get it waits for the entry. It ends with its owner,
even if that is killed, so an unlocked temporary file was left behind, and the next process writes it again.

A crash of the machine may leave entries whose bytes never reached the disk: checksums find them, and damaged entries are
deleted.

The process that adds an entry enforces the limit: after listing all files, in the order of last use, a process may add a small
share of it without listing again. It deletes files down to 7/8 of the limit, so that up to 64 processes together stay within
it. A process that would have to list all files while another one does adds nothing: the other one may be suspended.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import crc32c

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.cache_entry import BLOCK_BYTES, CacheEntryHeader, DamagedEntryError, cover
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import ByteRange

__all__ = ["Claim", "DiskCache", "OpenEntry"]

_ENTRY = re.compile(r"(\d{1,19})-(\d{1,19})\.(chunk|tmp)", re.ASCII)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_PROCESSES = 64


@attrs.define(eq=False)
class OpenEntry:
    """An entry that is being read. ``wanted`` are the bytes of the object to read from it."""

    descriptor: int
    path: Path
    header: CacheEntryHeader
    wanted: ByteRange

    def read_block(self, number: int, target: memoryview) -> None:
        """Fills ``target``, which has the block's size. Raises DamagedEntryError if the bytes differ from the written ones."""
        at = CacheEntryHeader.size_for(self.header.range.size) + number * BLOCK_BYTES
        filled = 0
        while filled < len(target):
            count = os.preadv(self.descriptor, [target[filled:]], at + filled)
            if not count:
                raise DamagedEntryError
            filled += count
        if crc32c.crc32c(target) != self.header.checksums[number]:
            raise DamagedEntryError

    def close(self) -> None:
        os.close(self.descriptor)


class DiskCache:
    """Thread safe, and safe among processes. Raises the disk's OSError; a caller should not let that stop a fetch."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        """Raises ConfigurationError for a directory that cannot be made, belongs to another user, or is writable by others."""
        self._directory = directory
        self._low = max_bytes - max_bytes // 8
        self._share = max_bytes // 8 // _PROCESSES
        self._lock = threading.Lock()
        self._allowance = self._nbytes = 0
        self._hits = self._misses = self._evictions = self._damaged = 0
        _prepare(directory)

    def statistics(self) -> CacheStatistics:
        """The counters of this process, and an estimate of the bytes of all processes."""
        with self._lock:
            return CacheStatistics(self._hits, self._misses, self._evictions, self._nbytes, self._damaged)

    def count(self, *, hit: bool) -> None:
        """One range was served from here, or was not."""
        with self._lock:
            self._hits += hit
            self._misses += not hit

    def fits(self, size: int) -> bool:
        """Whether the cache can keep a range of ``size`` bytes."""
        return CacheEntryHeader.size_for(size) + size <= self._low

    def open(self, identity: bytes, wanted: ByteRange) -> list[OpenEntry] | None:
        """Returns entries that together have ``wanted``, which the caller must close; ``None`` if there are none."""
        chosen = cover(wanted, [wanted]) if self._path(identity, wanted).exists() else cover(wanted, self._entries(identity))
        opened: list[OpenEntry] = []
        at = wanted.start
        with ExitStack() as undone:
            for entry in chosen or ():
                one = self._open(identity, entry, ByteRange(at, min(entry.end, wanted.end)))
                if one is None:
                    return None
                undone.callback(one.close)
                opened.append(one)
                at = entry.end
            undone.pop_all()
        return opened or None

    def claim(self, identity: bytes, wanted: ByteRange) -> Claim | None:
        """The right to write an entry; ``None`` if another writer has it, or had it until now: then call :meth:`open` again.

        Raises BlockingIOError while another process makes room.
        """
        path = self._path(identity, wanted)
        unfinished = path.with_suffix(".tmp")
        try:
            descriptor = os.open(unfinished, _WRITE, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(unfinished, _WRITE, 0o600)
        claim = Claim(descriptor, path, unfinished, identity, wanted)
        try:
            if not _is_ours(descriptor, path, unfinished):
                os.close(descriptor)
                return None
            os.ftruncate(descriptor, 0)
            size = CacheEntryHeader.size_for(wanted.size) + wanted.size
            self._make_room(size)
            claim.abandoned = partial(self._uncount, size)
        except OSError:
            claim.abandon()
            raise
        return claim

    def discard(self, identity: bytes, wanted: ByteRange) -> None:
        """Deletes all entries with some of these bytes, because they are wrong."""
        for entry in self._entries(identity):
            if entry.start < wanted.end and wanted.start < entry.end:
                self.delete(self._path(identity, entry))

    def delete(self, path: Path) -> None:
        """Deletes a damaged entry."""
        with suppress(OSError):
            path.unlink()
        with self._lock:
            self._damaged += 1

    def _path(self, identity: bytes, entry: ByteRange) -> Path:
        return self._directory / identity.hex() / f"{entry.start}-{entry.end}.chunk"

    def _entries(self, identity: bytes) -> list[ByteRange]:
        try:
            files = list(os.scandir(self._directory / identity.hex()))
        except FileNotFoundError:
            return []
        found = (_ENTRY.fullmatch(file.name) for file in files)
        return [ByteRange(int(one[1]), int(one[2])) for one in found if one and one[3] == "chunk" and int(one[1]) < int(one[2])]

    def _open(self, identity: bytes, entry: ByteRange, wanted: ByteRange) -> OpenEntry | None:
        path = self._path(identity, entry)
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            return None  # evicted meanwhile
        try:
            front = os.pread(descriptor, CacheEntryHeader.size_for(entry.size), 0)
            header = CacheEntryHeader.decode(front, identity, entry, os.fstat(descriptor).st_size)
            os.utime(descriptor)
        except DamagedEntryError:
            os.close(descriptor)
            self.delete(path)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return OpenEntry(descriptor, path, header, wanted)

    def _make_room(self, size: int) -> None:
        with self._lock:
            if self._allowance < size:
                with self._only_process():
                    self._evict(size)
                self._allowance = self._share + size
            self._allowance -= size
            self._nbytes += size

    def _uncount(self, size: int) -> None:
        """An entry is not kept. The allowance stays as it is, because it may be that of a later count of the files."""
        with self._lock:
            self._nbytes = max(0, self._nbytes - size)

    def _evict(self, size: int) -> None:
        files = sorted(_files(self._directory))
        total = sum(length for _, length, _ in files)
        for _, length, path in files:
            if total + size <= self._low:
                break
            if path.suffix == ".tmp" and not _is_left_behind(path):
                continue
            with suppress(FileNotFoundError):
                path.unlink()
                self._evictions += 1
            total -= length
            with suppress(OSError):
                path.parent.rmdir()  # deleted with its last file
        self._nbytes = total

    @contextmanager
    def _only_process(self) -> Iterator[None]:
        descriptor = os.open(self._directory / "eviction.lock", _WRITE, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)


class Claim:
    """An entry that is being written, by one thread. Ends with :meth:`finish` or :meth:`abandon`; both may raise OSError."""

    def __init__(self, descriptor: int, path: Path, unfinished: Path, identity: bytes, wanted: ByteRange) -> None:
        self._descriptor = descriptor
        self._path = path
        self._unfinished = unfinished
        self._identity = identity
        self._range = wanted
        self._at = CacheEntryHeader.size_for(wanted.size)
        self._block = 0
        self._in_block = 0
        self._checksums: list[int] = []
        self.abandoned: Callable[[], None] | None = None
        """Called when nothing of the entry is kept."""

    def write(self, data: memoryview) -> None:
        """The next bytes."""
        while len(data):
            part = data[: BLOCK_BYTES - self._in_block]
            data = data[len(part) :]
            self._block = crc32c.crc32c(part, self._block)
            self._in_block += len(part)
            if self._in_block == BLOCK_BYTES:
                self._end_block()
            while len(part):
                count = os.pwrite(self._descriptor, part, self._at)
                part = part[count:]
                self._at += count

    def finish(self) -> None:
        """All bytes were written: completes the entry."""
        if self._in_block:
            self._end_block()
        header = CacheEntryHeader(self._identity, self._range, tuple(self._checksums))
        try:
            os.pwrite(self._descriptor, header.encode(), 0)
            self._unfinished.rename(self._path)
        except OSError:
            with suppress(OSError):
                self.abandon()
            raise
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Deletes it; a waiting process may claim it, also if it cannot be deleted."""
        if self.abandoned is not None:
            self.abandoned()
        try:
            with suppress(FileNotFoundError):
                self._unfinished.unlink()
        finally:
            os.close(self._descriptor)

    def _end_block(self) -> None:
        self._checksums.append(self._block)
        self._block = self._in_block = 0


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except FileExistsError:
        raise ConfigurationError("fetch.remote.cache.directory is not a directory") from None
    except OSError as error:
        raise ConfigurationError(f"fetch.remote.cache.directory cannot be used: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigurationError(
            "fetch.remote.cache.directory belongs to another user, who could change its contents; use another one"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError("fetch.remote.cache.directory is writable by other users; set its mode to 0700")


def _files(directory: Path) -> Iterator[tuple[int, int, Path]]:
    """Yields last use, bytes and path of each entry, including unfinished ones, without those that are deleted meanwhile."""
    for object_directory in os.scandir(directory):
        if not object_directory.is_dir(follow_symlinks=False):
            continue
        with suppress(FileNotFoundError):
            for file in os.scandir(object_directory):
                with suppress(FileNotFoundError):
                    found = file.stat(follow_symlinks=False)
                    if _ENTRY.fullmatch(file.name):
                        yield found.st_mtime_ns, found.st_size, Path(file.path)


def _is_ours(descriptor: int, path: Path, unfinished: Path) -> bool:
    """Whether this process now has the lock of the temporary file ``descriptor``, and may write the entry to it."""
    if not _lock(descriptor):
        return False
    try:
        if not os.path.samestat(os.fstat(descriptor), unfinished.stat()):
            return False
    except FileNotFoundError:  # renamed or deleted after we opened it, and before we got its lock
        return False
    if path.exists():  # renamed before we opened it: this new file is not needed
        unfinished.unlink()
        return False
    return True


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_left_behind(unfinished: Path) -> bool:
    """Whether the file has no writer, because its lock is free."""
    try:
        descriptor = os.open(unfinished, _READ)
    except OSError:
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)
