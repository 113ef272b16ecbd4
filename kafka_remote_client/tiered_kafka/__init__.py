"""A Kafka with tiered storage in this process, for tests: a TCP shell around the pure model in ``tiered_cluster/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_remote_client.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from kafka_remote_client.tiered_kafka.cluster import TieredCluster
    from kafka_remote_client.tiered_kafka.topics import CrashPoint

__all__ = ["CrashPoint", "TieredCluster"]

_HOMES = {
    "CrashPoint": "kafka_remote_client.tiered_kafka.topics",
    "TieredCluster": "kafka_remote_client.tiered_kafka.cluster",
}

__getattr__, __dir__ = lazy_exports(globals(), _HOMES)
