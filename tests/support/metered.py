"""An object that has a consumer's metrics."""

from __future__ import annotations

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.metrics import FetchMetrics

__all__ = ["MeteredClient"]


class MeteredClient:
    """The metrics of a consumer."""

    def __init__(self) -> None:
        self.counted = FetchMetrics(SystemClock())
        self.tiers: dict[str, int] = {}

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        return self.counted.snapshot() | {"remote-fetch-partition-tier": self.tiers}
