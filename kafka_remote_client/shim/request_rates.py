"""Limits the requests per second of all clients of one address: the setting ``max_request_rate_per_ip``.

It also limits what clients send to brokers. ``loop_shares.py`` shares the time in the event loop without this setting.

Each address has a time up to which its requests are paid for. A request moves it by one interval, from one second ago at the
earliest: an address may send what one second brings at once. A connection whose request is not yet due sends its next one when
it is. Requests above the rate wait in the shim and in the client's socket; none is refused. (Generic cell rate algorithm.)
"""

from __future__ import annotations

from kafka_remote_client.clock import Clock

__all__ = ["RequestRates"]

_BURST_SECONDS = 1.0


class RequestRates:
    """``rate``: requests per second for each address; ``None`` = no limit. Used in one event loop."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._paid: dict[str, float] = {}

    def charge(self, address: str) -> float:
        """Counts one request. Returns the seconds until the same connection may send its next one, 0 = none."""
        if self.rate is None:
            return 0.0
        now = self._clock.monotonic()
        paid = max(self._paid.get(address, 0.0), now - _BURST_SECONDS) + 1 / self.rate
        self._paid[address] = paid
        return max(0.0, paid - now)

    def forget(self) -> None:
        """Drops addresses without a debt."""
        due = self._clock.monotonic() - _BURST_SECONDS
        self._paid = {address: paid for address, paid in self._paid.items() if paid > due}

    def __len__(self) -> int:
        """The number of addresses with a debt."""
        return len(self._paid)
