"""A filled topic on an embedded cluster, shared by the tests of one module."""

from __future__ import annotations

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import COUNT, TOPIC, Row, filled_cluster, plain_rows

running = filled_cluster(TOPIC, COUNT, partitions=range(2))
"""Has ``COUNT`` records of ``TOPIC`` in each of two partitions. Tests ask for ``cluster``, which is this one."""


@pytest.fixture(scope="module")
def expected(running: EmbeddedCluster) -> list[Row]:
    """The rows that a plain consumer reads from partition 0."""
    return plain_rows(running, TOPIC)
