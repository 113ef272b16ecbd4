"""What several modules about the consumer read: one filled topic on a cluster of the module's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import COUNT, TOPIC, Row, fill_topic, plain_rows, small_cluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Has ``COUNT`` records of ``TOPIC`` in each of two partitions. Tests ask for ``cluster``, which is this one."""
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        fill_topic(made, TOPIC, COUNT, partitions=range(2))
        yield made


@pytest.fixture(scope="module")
def expected(running: EmbeddedCluster) -> list[Row]:
    """What a plain consumer reads of partition 0."""
    return plain_rows(running, TOPIC)
