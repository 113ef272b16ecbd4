"""The shared parts of all reads of one engine: settings, the budget, admission to stores, and counters. Pure (no I/O)."""

from __future__ import annotations

from typing import Protocol

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.fetch_budget import FetchBudget

__all__ = ["ReadCounters", "Shared"]


class ReadCounters(Protocol):
    """The counters of reads; :class:`~kafka_remote_client.metrics.FetchMetrics` has all of them."""

    def add(self, name: str, amount: int = 1) -> None:
        """Adds to a total."""

    def error(self, cause: str) -> None:
        """Counts one failure that was not a GET."""

    def over_read(self, size: int) -> None:
        """Counts wasted bytes."""

    def segment_opened(self, size: int) -> None:
        """Counts one segment that is read, and its size in bytes."""


@attrs.frozen(eq=False)
class Shared:
    """The shared parts of all reads of one engine."""

    config: RemoteFetchConfig
    budget: FetchBudget
    admission: Admission
    counters: ReadCounters
