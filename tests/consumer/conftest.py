"""What several modules about the consumer read: one filled topic on a cluster of the module's own."""

from __future__ import annotations

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import COUNT, TOPIC, Row, filled_cluster, plain_rows

running = filled_cluster(TOPIC, COUNT, partitions=range(2))
"""Has ``COUNT`` records of ``TOPIC`` in each of two partitions. Tests ask for ``cluster``, which is this one."""


@pytest.fixture(scope="module")
def expected(running: EmbeddedCluster) -> list[Row]:
    """What a plain consumer reads of partition 0."""
    return plain_rows(running, TOPIC)
