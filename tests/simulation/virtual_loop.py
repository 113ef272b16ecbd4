"""An event loop of asyncio on the time of a world: the shim's and the brokers' coroutines run in it.

It has what coroutines need that do no I/O of their own: futures, tasks, timers. The world calls :meth:`VirtualLoop.run` after
each event, which runs all that is ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["VirtualLoop"]


class VirtualLoop(asyncio.AbstractEventLoop):
    """See the module."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ready: deque[asyncio.Handle] = deque()
        self._failure: BaseException | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def run(self) -> None:
        """Runs callbacks until none is ready. Raises the exception of a callback."""
        if not self._ready:
            return
        asyncio._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Cancels all tasks that have not ended, until none is left."""
        while pending := [task for task in self._tasks if not task.done()]:
            for task in pending:
                task.cancel()
            with suppress(Exception):  # of a task that fails when it is cancelled: the world is over
                self.run()

    # -- what asyncio calls ------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._world.clock.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._world.after(max(when - self.time(), 0.0), partial(self._ready.append, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the world's queue, and does nothing."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._failure = self._failure or context.get("exception") or RuntimeError(context["message"])
