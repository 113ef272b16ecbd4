"""What a process of Spark keeps from task to task: engines, consumers, and whether the tier worked."""

from __future__ import annotations

from kafka_remote_client.spark.reading.broker_consumers import worker_consumers
from kafka_remote_client.spark.reading.task_engine import worker_engines
from kafka_remote_client.spark.reading.tier_health import worker_tier_health

__all__ = ["forget_tasks"]


def forget_tasks() -> None:
    """Closes and forgets all of it. A test that reads splits calls this before its cluster ends: a consumer that is kept goes
    on connecting to a broker that is gone.
    """
    worker_engines.close()
    worker_consumers.close()
    worker_tier_health.forget()
