"""Opens files below a root and never outside it: what local fetcher, directory store and the shim's origin stand on.

A key is walked segment by segment, each opened relative to the directory before it and never through a symbolic link
(``openat`` with ``O_NOFOLLOW``), so that nothing between check and use can lead elsewhere. Only regular files open: a FIFO
would block its reader forever, a device is not an object.

The root is opened again for each file. It may be a link itself, it may come and go with its mount.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from kafka_remote_client.errors import (
    DirectFetchError,
    ForbiddenLocationError,
    ObjectNotFoundError,
    RemoteStorageAccessError,
    RemoteStorageUnavailableError,
)

__all__ = ["check_object_key", "safe_open"]

_MAX_KEY = 1024
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def check_object_key(key: str) -> None:
    """Raises ValueError unless ``key`` is a relative object key: segments parted by ``/``, none empty, ``.`` or ``..``.

    Control characters and backslashes are refused too: keys become part of signed texts and of file names.
    """
    if not 0 < len(key) <= _MAX_KEY:
        raise ValueError(f"an object key must have 1 to {_MAX_KEY} characters")
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise ValueError("an object key must not have an empty, '.' or '..' segment")
    if _FORBIDDEN.search(key):
        raise ValueError("an object key must not contain control characters or backslashes")
    key.encode()  # a lone surrogate has no bytes: UnicodeEncodeError is a ValueError


def safe_open(root: Path, key: str) -> int:
    """A file descriptor, open for reading, of the regular file ``key`` below ``root``. The caller closes it.

    Raises ObjectNotFoundError; ForbiddenLocationError for a key that is none, a symbolic link on the way, or what is not a
    regular file; RemoteStorageAccessError for missing rights; RemoteStorageUnavailableError for anything else.
    """
    try:
        check_object_key(key)
    except ValueError as error:
        reason = str(error)
    else:
        return _walk(root, key)
    raise ForbiddenLocationError(reason)


def _walk(root: Path, key: str) -> int:
    *directories, name = key.split("/")
    try:
        at = os.open(root, _DIRECTORY)
    except OSError as error:
        raise _root_error(error) from None
    try:
        for directory in directories:
            at, before = _open_at(at, directory, _DIRECTORY | os.O_NOFOLLOW, key), at
            os.close(before)
        descriptor = _open_at(at, name, _FILE, key)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ForbiddenLocationError("the object is not a regular file")
    return descriptor


def _open_at(directory: int, name: str, flags: int, key: str) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        raise _error(error, directory, name, key) from None


def _root_error(error: OSError) -> DirectFetchError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return RemoteStorageAccessError("no permission to read the store's directory")
    return RemoteStorageUnavailableError(f"the store's directory cannot be opened ({_name(error)})")


def _error(error: OSError, directory: int, name: str, key: str) -> DirectFetchError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(directory, name):
        return ForbiddenLocationError("the object is behind a symbolic link")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return ObjectNotFoundError(key)
    if error.errno in (errno.EACCES, errno.EPERM):
        return RemoteStorageAccessError("no permission to read the object")
    if error.errno == errno.ENXIO:  # a socket
        return ForbiddenLocationError("the object is not a regular file")
    return RemoteStorageUnavailableError(f"the object cannot be opened ({_name(error)})")


def _is_link(directory: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "unknown error")
