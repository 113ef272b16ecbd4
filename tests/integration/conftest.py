"""Shims in front of the real broker that tests of several modules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import shim_before
from tests.support.spark_topics import small_grants_shim


@pytest.fixture
def shim(kafka_broker: KafkaBroker) -> Iterator[Shim]:
    """A shim with default grants."""
    with shim_before(kafka_broker) as running:
        yield running


@pytest.fixture
def spark_shim(kafka_broker: KafkaBroker) -> Iterator[Shim]:
    """A shim with small windows, so that a split takes several grants."""
    with small_grants_shim(kafka_broker) as running:
        yield running
