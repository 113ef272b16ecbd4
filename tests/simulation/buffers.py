"""The buffers of a simulated world: each comes back once, and never while a GET or an owner uses it."""

from __future__ import annotations

from kafka_remote_client.plugin import WritableBuffer
from tests.simulation.judge import ViolationError

__all__ = ["Buffers"]

_OVERWRITTEN = 0xEE


class Buffers:
    """Recycled buffers are overwritten, so that a block that still refers to one has other records afterwards."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        self._used: dict[int, bytearray] = {}
        self._written: dict[int, bytearray] = {}

    def take(self, size: int) -> bytearray:
        """A buffer of at least ``size`` bytes, to which a GET writes from now on."""
        for number, buffer in enumerate(self._free):
            if len(buffer) >= size:
                taken = self._free.pop(number)
                break
        else:
            taken = bytearray(size)
        self._used[id(taken)] = self._written[id(taken)] = taken
        return taken

    def written(self, buffer: bytearray) -> None:
        """The GET writes to it no more."""
        self._written.pop(id(buffer), None)

    def lost(self, buffer: bytearray) -> None:
        """The GET was given up, so the scheduler does not have the buffer any more."""
        self._used.pop(id(buffer), None)
        self._written.pop(id(buffer), None)

    def give_back(self, buffer: WritableBuffer) -> None:
        """The scheduler recycles it."""
        if id(buffer) in self._written:
            raise ViolationError("J6", "a buffer came back while a GET writes to it")
        used = self._used.pop(id(buffer), None)
        if used is None:
            raise ViolationError("J7", "a buffer came back twice")
        used[:] = bytes([_OVERWRITTEN]) * len(used)
        self._free.append(used)

    @property
    def outstanding(self) -> int:
        """Buffers that have not come back."""
        return len(self._used)
