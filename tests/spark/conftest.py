"""What a process of Spark keeps from task to task belongs to one test here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client.spark.reading.broker_consumers import worker_consumers
from kafka_remote_client.spark.reading.task_engine import worker_engines
from kafka_remote_client.spark.reading.tier_health import worker_tier_health


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    worker_engines.close()
    worker_consumers.close()
    worker_tier_health.forget()
