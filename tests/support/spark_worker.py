"""The state that a Spark process keeps between tasks: engines, consumers, and the health of the tier."""

from __future__ import annotations

from kafka_remote_client.spark.reading.broker_consumers import worker_consumers
from kafka_remote_client.spark.reading.task_engine import worker_engines
from kafka_remote_client.spark.reading.tier_health import worker_tier_health

__all__ = ["close_task_state"]


def close_task_state() -> None:
    """Closes and drops all of it. A test that reads splits calls this before its cluster ends: a kept consumer would continue
    to connect to a broker that no longer exists.
    """
    worker_engines.close()
    worker_consumers.close()
    worker_tier_health.forget()
