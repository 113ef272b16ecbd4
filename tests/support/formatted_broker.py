"""A real broker of a test's own, formatted but not started: for tests that write to its log folder first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.artifacts import SHORT_LIVED, MissingPartError
from tests.support.kafka_broker import KafkaBroker

__all__ = ["format_or_skip", "formatted_broker"]


def format_or_skip(broker: KafkaBroker) -> None:
    """Formats the broker's folder. Skips the test if there is no real broker."""
    try:
        broker.format()
    except MissingPartError as error:
        pytest.skip(f"no real broker: {error}")


@contextmanager
def formatted_broker(directory: Path) -> Iterator[KafkaBroker]:
    """The broker; it is removed at the end."""
    # After a kill the broker waits for the end of its session: Kafka's own default is shorter than that of the tests' brokers.
    broker = KafkaBroker(directory, properties={"broker.session.timeout.ms": "9000"}, java_options=("-Xmx512m", *SHORT_LIVED))
    format_or_skip(broker)
    try:
        yield broker
    finally:
        broker.destroy()
