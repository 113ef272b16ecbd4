"""What all reads of one engine share: settings, the budget, what may be asked of stores, and what is counted. Pure (no I/O)."""

from __future__ import annotations

from typing import Protocol

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.admission import Admission
from kafka_remote_client.fetch.fetch_budget import FetchBudget

__all__ = ["Counters", "Shared"]


class Counters(Protocol):
    """What reads count; :class:`~kafka_remote_client.metrics.FetchMetrics` has them all."""

    def add(self, name: str, amount: int = 1) -> None:
        """Adds to a total."""

    def error(self, cause: str) -> None:
        """Counts one failure that was not a GET."""

    def over_read(self, size: int) -> None:
        """Counts bytes that were received for nothing."""

    def segment_opened(self, size: int) -> None:
        """Counts one segment of which something is going to be read, and its size in bytes."""


@attrs.frozen(eq=False)
class Shared:
    """What all reads of one engine share."""

    config: RemoteFetchConfig
    budget: FetchBudget
    admission: Admission
    counters: Counters
