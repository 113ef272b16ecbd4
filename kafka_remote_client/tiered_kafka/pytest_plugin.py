"""The pytest plugin: the fixture ``tiered_kafka`` and the marker of that name. Imports nothing heavy before a test asks for it.

References: pytest's entry-point group ``pytest11``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafka_remote_client.tiered_kafka.cluster import TieredCluster

__all__ = ["pytest_configure", "tiered_kafka"]

_MARKER = "tiered_kafka(**settings): settings of the TieredCluster that the fixture tiered_kafka starts"


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def tiered_kafka(request: pytest.FixtureRequest) -> Iterator[TieredCluster]:
    """A running TieredCluster with a temporary tier. Settings: ``@pytest.mark.tiered_kafka(partitions=1)``."""
    from kafka_remote_client.tiered_kafka.cluster import TieredCluster  # noqa: PLC0415 - only where a test asks for it

    marker = request.node.get_closest_marker("tiered_kafka")
    with TieredCluster(**({} if marker is None else marker.kwargs)) as cluster:
        yield cluster
