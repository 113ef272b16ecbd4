"""Look-ups of what is kept: in a thread that says so, nothing is read and no read of another thread is waited for.

::

    with kept_only():             | what a look-up needs is
    gives its answer              | all kept in the caches
    raises NotKeptError           | not all there; the same look-up is made again where it may wait for the store

So a look-up of what was read before never waits behind those that wait for the store. Whatever reads, or waits for a read,
calls :func:`about_to_read` first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["NotKeptError", "about_to_read", "is_kept_only", "kept_only"]

_here = threading.local()


class NotKeptError(Exception):
    """The look-up needs a read. Not a failure: it says nothing about the store, and only the look-up handles it."""


@contextmanager
def kept_only(*, on: bool = True) -> Iterator[None]:
    """In this thread, reads raise NotKeptError; with ``on`` False they are allowed again."""
    before = is_kept_only()
    _here.kept_only = on
    try:
        yield
    finally:
        _here.kept_only = before


def is_kept_only() -> bool:
    """Whether this thread may give only what is kept."""
    return getattr(_here, "kept_only", False)


def about_to_read() -> None:
    """Raises NotKeptError where nothing may be read."""
    if is_kept_only():
        raise NotKeptError
