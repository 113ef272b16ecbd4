"""Memory for ranges and chunks, in pages that the system takes back at once when nothing refers to them.

glibc keeps what is freed, apart for each thread. With many threads and large blocks that is several times what is in use.
"""

from __future__ import annotations

import mmap

__all__ = ["new_pages"]


def new_pages(size: int) -> memoryview:
    """Returns ``size`` writable bytes, all zero. Only bytes that are written take memory."""
    # Private ones: pages of shared memory take the system longer.
    return memoryview(mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:size]
