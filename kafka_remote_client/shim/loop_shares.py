"""Who may use how much of the event loop's time: fair shares by address, and one small share for clients that are not admitted.

One event loop serves all clients, so the work for one client delays all others. Each account has a share of the loop's time::

    account                   | its share                                   | within it, turns go
    all clients not admitted  | 0.1 while admitted clients use the loop,    | from address to address, then
                              | else 0.9                                    | from connection to connection
    each address of admitted  | the fair level, ``limit`` at most; all of   | from connection to connection
    clients                   | the loop if no other address uses it        |

Requests that only set up a connection also count as work of a client that is not admitted: the caller says so (``setting_up``).

The fair level is the largest share with which the demands of all addresses fit into 0.9 of the loop (max-min fairness). An
address that needs less than the level never waits. One that needs more gets the level. So 250 connections of one address weigh
no more than one connection of another address. ``limit`` keeps waits short for others: they depend on how busy the loop is.

A cost moves an account's time ahead by the cost divided by the share. A client of an account whose time is more than 1 ms ahead
waits for its turn (generic cell rate algorithm). So an account never uses more than its share of 1 ms at once. Clients that are
not admitted may use 10 ms of the loop at once: a consumer makes three connections before its first record, and on a busy
machine each costs the loop several milliseconds. Shares are computed again every 0.1 s from the costs of the last 0.1 s. No
debt is longer than 1 s. An admitted client counts as one that uses the loop for a second after each use: on a busy machine, a
client that reads all the time may have no event for some tenths of a second.

This module is pure: costs are arguments, the clock only tells which moment it is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from kafka_remote_client.clock import Clock

__all__ = ["LoopShares", "fair_level"]

_UNADMITTED = 0.1
_UNADMITTED_ALONE = 0.9
_ADMITTED = 0.9
_WINDOW_SECONDS = 0.001
_UNADMITTED_AT_ONCE_SECONDS = 0.01
_INTERVAL_SECONDS = 0.1
_IDLE_SECONDS = 1.0
_MAX_DEBT_SECONDS = 1.0

W = TypeVar("W", bound=Hashable)


def fair_level(demands: Iterable[float], capacity: float) -> float:
    """The largest level with which the sum of ``min(demand, level)`` is at most ``capacity``, and ``capacity`` at most."""
    left, ordered = capacity, sorted(demands)
    for count, demand in zip(range(len(ordered), 0, -1), ordered, strict=True):
        if demand * count > left:
            return left / count
        left -= demand
    return capacity


class _Account(Generic[W]):
    """``at_once``: seconds of the loop that it may use before it waits; 0 = its share of 1 ms."""

    def __init__(self, share: float, now: float, at_once: float = 0.0) -> None:
        self.share = share
        self.at_once = at_once
        self.paid = self.last_used = now
        self.used = 0.0
        self.waited = False
        self.queue: dict[str, dict[W, None]] = {}

    def charge(self, seconds: float, now: float) -> None:
        self.used += seconds
        self.last_used = now
        self.paid = min(max(self.paid, now) + seconds / self.share, now + _MAX_DEBT_SECONDS)

    def due(self) -> float:
        return -math.inf if self.share == 1 else self.paid - max(_WINDOW_SECONDS, self.at_once / self.share)

    def join(self, address: str, waiter: W) -> None:
        self.waited = True
        self.queue.setdefault(address, {})[waiter] = None

    def leave(self, address: str, waiter: W) -> None:
        waiters = self.queue.get(address, {})
        waiters.pop(waiter, None)
        if not waiters:
            self.queue.pop(address, None)

    def pop(self) -> W:
        """The first waiter of the address whose turn it is."""
        address = next(iter(self.queue))
        waiters = self.queue.pop(address)
        waiter = next(iter(waiters))
        del waiters[waiter]
        if waiters:
            self.queue[address] = waiters
        return waiter

    def demand(self, elapsed: float) -> float:
        return math.inf if self.waited or self.queue else self.used / elapsed


class LoopShares(Generic[W]):
    """The accounts of one event loop. A waiter is whatever the caller gets back from :meth:`turn` when its turn has come.

    ``limit``: the largest share of one address while others use the loop, in (0, 1].
    """

    def __init__(self, limit: float, clock: Clock) -> None:
        self.limit = limit
        self._clock = clock
        self._since = clock.monotonic()
        self._unadmitted: _Account[W] = _Account(_UNADMITTED_ALONE, self._since, _UNADMITTED_AT_ONCE_SECONDS)
        self._admitted: dict[str, _Account[W]] = {}
        self._level = 1.0

    def charge(self, address: str, seconds: float, *, setting_up: bool) -> None:
        """Counts ``seconds`` of the loop's time for a client of ``address``."""
        now = self._clock.monotonic()
        self._account(address, setting_up, now).charge(seconds, now)
        if now - self._since >= _INTERVAL_SECONDS:
            self._adjust(now)

    def exceeded(self, address: str, *, setting_up: bool) -> bool:
        """Whether a client of ``address`` has to wait for its turn now."""
        now = self._clock.monotonic()
        account = self._account(address, setting_up, now)
        return bool(account.queue) or account.due() > now

    def wait(self, address: str, waiter: W, *, setting_up: bool) -> None:
        """Queues a waiter, once."""
        self._account(address, setting_up, self._clock.monotonic()).join(address, waiter)

    def leave(self, address: str, waiter: W) -> None:
        """Ends the wait of a waiter, if it waits."""
        self._unadmitted.leave(address, waiter)
        account = self._admitted.get(address)
        if account is not None:
            account.leave(address, waiter)

    @property
    def waiting(self) -> bool:
        """Whether any client waits."""
        return any(account.queue for account in self._all())

    @property
    def unadmitted_debt(self) -> float:
        """Seconds until the clients that are not admitted have made up for what they used."""
        return max(0.0, self._unadmitted.paid - self._clock.monotonic())

    def turn(self) -> W | None:
        """The waiter whose turn it is, of the account that is due for longest. It waits no longer. ``None``: none is due."""
        account = min((one for one in self._all() if one.queue), key=_Account.due, default=None)
        return account.pop() if account is not None and account.due() <= self._clock.monotonic() else None

    def __len__(self) -> int:
        """The number of addresses with admitted clients that used the loop during the last second, or wait."""
        return len(self._admitted)

    def _all(self) -> tuple[_Account[W], ...]:
        return (self._unadmitted, *self._admitted.values())

    def _account(self, address: str, setting_up: bool, now: float) -> _Account[W]:
        if setting_up:
            return self._unadmitted
        account = self._admitted.get(address)
        if account is None:
            account = self._admitted[address] = _Account(self._level, now)
            if len(self._admitted) == 2:
                self._adjust(now)
        return account

    def _adjust(self, now: float) -> None:
        """Computes the shares from what was used since the last time."""
        elapsed = max(now - self._since, _INTERVAL_SECONDS)
        self._admitted = {
            address: one for address, one in self._admitted.items() if one.queue or now - one.last_used < _IDLE_SECONDS
        }
        self._unadmitted.share = _UNADMITTED if self._admitted else _UNADMITTED_ALONE
        alone = len(self._admitted) == 1 and not self._unadmitted.used
        demands = [account.demand(elapsed) for account in self._admitted.values()]
        self._level = 1.0 if alone else min(self.limit, fair_level(demands, _ADMITTED))
        for account in self._all():
            account.used, account.waited = 0.0, False
            if account is not self._unadmitted:
                account.share = self._level
        self._since = now
