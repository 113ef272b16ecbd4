"""A stream whose bytes come in pieces that begin and end elsewhere than the buffers of its reader."""

from __future__ import annotations

from abc import abstractmethod

from kafka_remote_client.plugin import WritableBuffer

__all__ = ["PiecewiseStream"]


class PiecewiseStream:
    """What ReadableStreams of the positions ``[start, end)`` share: what is left of a piece waits in ``_rest``."""

    def __init__(self, start: int, end: int) -> None:
        self._at = start
        self._end = end
        self._rest = memoryview(b"")

    def readinto(self, buffer: WritableBuffer, /) -> int:
        with memoryview(buffer) as whole, whole.cast("B") as target:
            if not len(target) or self._at == self._end:
                return 0
            count = len(self._rest) or self._next_piece(target)
            if len(self._rest):
                count = min(len(target), len(self._rest))
                target[:count] = self._rest[:count]
                self._rest = self._rest[count:]
        self._at += count
        return count

    @abstractmethod
    def _next_piece(self, target: memoryview) -> int:
        """Reads a piece: into ``target`` if all of it is read and fits, then returns its size; else as the rest."""
