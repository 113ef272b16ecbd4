"""Shares the event loop between clients: measures the cost of each client, and delays clients that exceed their share.

:mod:`~kafka_remote_client.shim.loop_shares` decides by costs, :mod:`~kafka_remote_client.shim.request_rates` by the number of
requests if ``max_request_rate_per_ip`` is set. A cost is CPU time of the loop's thread, times one factor for all clients: the
ratio of elapsed time to CPU time, which grows when other processes use the machine. So an interruption does not add to the cost
of one client, and shares are those of the available time. Not measured: the work of look-ups, and of asyncio before it delivers
bytes.

A client that waits gets one request for each turn, and the loop looks at all sockets between two turns. So a client below its
share waits for one request of the others at most, however many wait.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Callable, Coroutine, Generator, Hashable
from typing import Any, Protocol, TypeVar, cast

from kafka_remote_client.clock import Clock
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.loop_shares import LoopShares
from kafka_remote_client.shim.request_rates import RequestRates

__all__ = ["Client", "LoopTurns"]

_TICK_SECONDS = 0.001
_LATELY_SECONDS = 0.2
_LEAST_WORKED_SECONDS = 0.001
_EVENT_SECONDS = 20e-6
"""The cost in asyncio of an event, before and after the work for a client."""
_ENTERING_SECONDS = 200e-6
"""The cost in asyncio of a connection: its transports, and their end."""

T = TypeVar("T")


class Client(Hashable, Protocol):
    """A connection, as far as LoopTurns needs it."""

    peer: str
    """Its address."""

    @property
    def setting_up(self) -> bool:
        """Whether it uses the share of clients that are not admitted, and not that of its address."""

    def turn(self) -> None:
        """Continues the waiting work."""


class LoopTurns:
    """The turns of one event loop. ``cpu``: seconds of CPU time of the calling thread."""

    def __init__(
        self,
        rates: RequestRates,
        shares: LoopShares[Client],
        counters: Counters,
        clock: Clock,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._rates = rates
        self._shares = shares
        self._counters = counters
        self._cpu = cpu
        self._clock = clock
        self._depth = 0
        self._began = self._began_at = 0.0
        self._worked = self._took = 0.0  # recent CPU time and elapsed time of all clients
        self._ticking: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begins work for one client, which :meth:`end` ends. May be nested."""
        self._depth += 1
        if self._depth == 1:
            self._began, self._began_at = self._cpu(), self._clock.monotonic()

    def end(self, client: Client) -> None:
        """Counts the work for this client."""
        self._depth -= 1
        if not self._depth:
            self._shares.charge(client.peer, _EVENT_SECONDS * self.slowdown, setting_up=client.setting_up)
            self._spent(client)

    @types.coroutine
    def measured(self, client: Client, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Runs a coroutine for a client, and counts each of its steps."""
        step: Callable[[Any], Any] = work.send
        argument: Any = None
        while True:
            self.begin()
            try:
                awaited = step(argument)
            except StopIteration as ended:
                return cast("T", ended.value)
            finally:
                self.end(client)
            try:
                argument = yield awaited
            except BaseException as error:  # noqa: BLE001 - goes on into the coroutine, cancellation included
                step, argument = work.throw, error
            else:
                step = work.send

    def _spent(self, client: Client) -> None:
        now, now_at = self._cpu(), self._clock.monotonic()
        worked = now - self._began
        self._worked += worked
        self._took += max(worked, now_at - self._began_at)
        self._shares.charge(client.peer, worked * self.slowdown, setting_up=client.setting_up)
        self._began, self._began_at = now, now_at
        if self._took > _LATELY_SECONDS:
            self._worked /= 2
            self._took /= 2

    @property
    def slowdown(self) -> float:
        """The recent ratio of elapsed time to CPU time of the loop's work, 1 at least."""
        return self._took / self._worked if self._worked > _LEAST_WORKED_SECONDS else 1.0

    def may_enter(self, client: Client) -> bool:
        """Whether a new connection is served now. If not, its turn comes later."""
        if not self._shares.exceeded(client.peer, setting_up=True):
            return True
        self._counters.add("connections_paced")
        self._wait(client)
        return False

    def entered(self, client: Client) -> None:
        """Counts the cost of a new connection that is served from now on."""
        self._shares.charge(client.peer, _ENTERING_SECONDS * self.slowdown, setting_up=True)

    def may_go_on(self, client: Client) -> bool:
        """Counts a request between :meth:`begin` and :meth:`end`. Whether the next one may follow; else its turn comes."""
        self._spent(client)
        pause = self._rates.charge(client.peer)
        if pause > 0:
            self._counters.add("requests_paced.max_request_rate_per_ip")
            asyncio.get_running_loop().call_later(pause, client.turn)
            return False
        if self._shares.exceeded(client.peer, setting_up=client.setting_up):
            self._counters.add(f"requests_paced.{'unadmitted' if client.setting_up else 'share'}")
            self._wait(client)
            return False
        return True

    def leave(self, client: Client) -> None:
        """The client waits for no turn any more."""
        self._shares.leave(client.peer, client)

    def stop(self) -> None:
        """Gives no further turns."""
        if self._ticking is not None:
            self._ticking.cancel()

    def _wait(self, client: Client) -> None:
        self._shares.wait(client.peer, client, setting_up=client.setting_up)
        if self._ticking is None:
            self._tick_later(_TICK_SECONDS)

    def _tick_later(self, seconds: float) -> None:
        self._ticking = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tick(self) -> None:
        """Gives one turn. The loop serves all clients that do not wait before it gives the next one."""
        client = self._shares.turn()
        try:
            if client is not None:
                client.turn()
        finally:
            self._ticking = None
            if self._shares.waiting:
                self._tick_later(_TICK_SECONDS if client is None else 0.0)
