"""Wakes requests that wait for more records."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["Changes"]


class Changes:
    """Runs in the cluster's thread."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self, seconds: float) -> None:
        """Returns after the next change, or after that time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting = [*(other for other in self._waiting if not other.done()), future]
        with suppress(TimeoutError):
            await asyncio.wait_for(future, seconds)

    def notify(self) -> None:
        """Something changed."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
