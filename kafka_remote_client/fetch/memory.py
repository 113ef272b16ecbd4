"""The one budget for bytes held, and the buffers that ranges are read into. Not thread-safe: the engine's lock guards both."""

from __future__ import annotations

import mmap
from collections.abc import Callable

import attrs

from kafka_remote_client.plugin import WritableBuffer

__all__ = ["BufferPool", "Lease", "MemoryBudget"]

_GRAIN = 256 * 1024


class MemoryBudget:
    """Bytes taken before a GET and given back at delivery."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def fits(self, size: int) -> bool:
        """Whether ``size`` bytes are free. A size beyond the whole limit fits only when nothing else is held."""
        return not self.held or self.held + size <= self.limit

    def force(self, size: int) -> None:
        """Takes ``size`` bytes whether they fit or not: what was decoded is there, and the next range waits for it."""
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size


@attrs.define(eq=False)
class Lease:
    """A range's share of the budget and its buffer, until the range and all blocks that refer to it are done with it."""

    size: int
    release: Callable[[Lease], None]
    buffer: WritableBuffer | None = None
    users: int = 1

    def share(self) -> Lease:
        """One more user: a block whose records still lie in the buffer."""
        self.users += 1
        return self

    def drop(self) -> None:
        """One user less; the last one gives memory and buffer back."""
        self.users -= 1
        if self.users == 0:
            self.release(self)


class BufferPool:
    """Recycles read buffers: a fresh page costs ten times what writing to one that is there does.

    ``keep`` bytes at most wait to be used again, in one buffer at least. ``largest``: the size that ranges grow to, give or
    take a batch.
    """

    def __init__(self, keep: int, largest: int = 0) -> None:
        self._keep = keep
        self._longest = _whole(largest + _GRAIN)
        self._free: list[WritableBuffer] = []

    def take(self, size: int) -> WritableBuffer:
        """A buffer of at least ``size`` bytes; its content is arbitrary."""
        for index in reversed(range(len(self._free))):  # the last one may still lie in the processor's cache
            if _suits(size, len(self._free[index])):
                return self._free.pop(index)
        # Ranges have grown: a small one goes for each larger one, or both sizes would be held side by side.
        if self._free and size > max(map(len, self._free)):
            self._free.pop(0)
        # Pages of its own: nothing is written to them before the store does, and they go back whole.
        # Private ones: the system takes longer over each page of shared memory.
        # As long as those of the largest ranges, where it may be: it serves them too when ranges have grown.
        length = self._longest if _suits(size, self._longest) else _whole(size)
        return memoryview(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give_back(self, buffer: WritableBuffer) -> None:
        self._free.append(buffer)
        while len(self._free) > 1 and sum(map(len, self._free)) > self._keep:
            self._free.pop(0)


def _whole(size: int) -> int:
    """``size`` rounded up to what buffers are cut in."""
    return -(-size // _GRAIN) * _GRAIN


def _suits(size: int, length: int) -> bool:
    """Whether a buffer of ``length`` bytes is no waste for a range of ``size``."""
    return size <= length <= 2 * (size + _GRAIN)
