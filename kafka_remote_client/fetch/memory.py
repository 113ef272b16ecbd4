"""The budget for held bytes, and the buffers of ranges. Not thread-safe: the engine's lock guards both."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kafka_remote_client.pages import new_pages
from kafka_remote_client.plugin import WritableBuffer
from kafka_remote_client.records import RecordBlock

__all__ = ["BufferPool", "Lease", "MemoryBudget", "ReadyBlock"]

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
        """Takes ``size`` bytes even if they do not fit: decoded records exist already, and the next range waits for them."""
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size

    def for_idle_buffers(self, awaited: int = 0) -> int:
        """Bytes of buffers that may wait for reuse: what is free but a sixteenth of the limit, and at most half of it.

        ``awaited`` of the held bytes are for ranges that have no buffer yet: idle ones will be theirs.
        """
        return max(0, min(self.limit // 2, self.limit - self.limit // 16 - self.held + awaited))


@attrs.define(eq=False)
class Lease:
    """A range's share of the budget and its buffer, until the range and all blocks that refer to it have released it."""

    size: int
    release: Callable[[Lease], None]
    buffer: WritableBuffer | None = None
    users: int = 1

    def share(self) -> Lease:
        """One more user: a block that refers to the buffer."""
        self.users += 1
        return self

    def again(self, take: Callable[[int], None]) -> Lease:
        """Memory for another GET of the range, which ``take`` takes before this use ends: blocks may still use the buffer."""
        take(self.size)
        self.drop()
        return Lease(self.size, self.release)

    def drop(self) -> None:
        """One user less; the last one releases memory and buffer."""
        self.users -= 1
        if self.users == 0:
            self.release(self)


@attrs.frozen(eq=False)
class ReadyBlock:
    """Decoded records of ``source_bytes`` of batches. They hold ``extra`` bytes of memory beside a share of ``lease``."""

    block: RecordBlock
    extra: int
    lease: Lease | None
    source_bytes: int

    @classmethod
    def held(cls, block: RecordBlock, lease: Lease | None, source_bytes: int, memory: MemoryBudget) -> ReadyBlock:
        """Takes memory for what the block has beyond the range's own, which it shares if it refers to the range's buffer."""
        extra = max(0, block.nbytes - lease.size) if lease else block.nbytes
        memory.force(extra)
        return cls(block, extra, lease, source_bytes)

    def release(self, memory: MemoryBudget) -> None:
        """Gives the memory back."""
        memory.give_back(self.extra)
        if self.lease is not None:
            self.lease.drop()


class BufferPool:
    """Recycles read buffers: a new page costs ten times as much as a write to an existing one.

    At most ``keep()`` bytes wait for reuse, but at least one buffer. ``largest``: the size that ranges grow to, give or
    take a batch.
    """

    def __init__(self, keep: Callable[[], int], largest: int = 0) -> None:
        self._keep = keep
        self._longest = _whole(largest + _GRAIN)
        self._free: list[WritableBuffer] = []

    def take(self, size: int) -> WritableBuffer:
        """A buffer of at least ``size`` bytes; its content is arbitrary."""
        for index in reversed(range(len(self._free))):  # the last one may still be in the processor's cache
            if _suits(size, len(self._free[index])):
                return self._free.pop(index)
        # Ranges have grown: a larger buffer replaces a small one, so that the pool does not keep both sizes.
        if self._free and size > max(map(len, self._free)):
            self._free.pop(0)
        # If possible as long as the largest ranges, so that it also serves them when ranges have grown.
        length = self._longest if _suits(size, self._longest) else _whole(size)
        self._trim(self._keep() - length)
        return new_pages(length)

    def give_back(self, buffer: WritableBuffer) -> None:
        self._free.append(buffer)
        self._trim(self._keep())

    def _trim(self, keep: int) -> None:
        while len(self._free) > 1 and sum(map(len, self._free)) > keep:
            self._free.pop(0)


def _whole(size: int) -> int:
    """Returns ``size`` rounded up to a buffer size."""
    return -(-size // _GRAIN) * _GRAIN


def _suits(size: int, length: int) -> bool:
    """Whether a buffer of ``length`` bytes is not too large for a range of ``size``."""
    return size <= length <= 2 * (size + _GRAIN)
