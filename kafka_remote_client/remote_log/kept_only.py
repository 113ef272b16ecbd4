"""Look-ups in the caches only: such a thread reads nothing and waits for no read of another thread.

::

    with kept_only():             | the objects that the look-up needs
    returns its answer            | are all cached
    raises NotKeptError           | are not all cached; the caller repeats the look-up in a thread that may wait for the store

So a look-up of cached objects never waits behind look-ups that wait for the store. Code that reads, or waits for a read, calls
:func:`about_to_read` first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["NotKeptError", "about_to_read", "is_kept_only", "kept_only"]

_here = threading.local()


class NotKeptError(Exception):
    """The look-up needs a read. This is no failure of the store, and only the caller of the look-up handles it."""


@contextmanager
def kept_only(*, on: bool = True) -> Iterator[None]:
    """Makes reads in this thread raise NotKeptError; ``on`` False allows them again."""
    before = is_kept_only()
    _here.kept_only = on
    try:
        yield
    finally:
        _here.kept_only = before


def is_kept_only() -> bool:
    """Whether this thread may use cached objects only."""
    return getattr(_here, "kept_only", False)


def about_to_read() -> None:
    """Raises NotKeptError if this thread may not read."""
    if is_kept_only():
        raise NotKeptError
