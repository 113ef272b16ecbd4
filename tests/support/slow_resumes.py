"""Consumers whose thread loses the processor after it has resumed the inner consumer, as on a loaded machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import attrs
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client.consumer.inner_consumer import InnerConsumer

__all__ = ["after_resumes"]


def after_resumes(monkeypatch: pytest.MonkeyPatch, then: Callable[[int], object]) -> list[int]:
    """Calls ``then`` with the number of the consumer, from 0 on, after each resume of its inner consumer.

    Returns the list of these numbers, which grows. A test asserts that its delays happened.
    """
    behind, numbers, resumed = InnerConsumer.behind, count(), list[int]()

    def slow(consumer: Any, overrides: type) -> InnerConsumer:
        inner, number = behind(consumer, overrides), next(numbers)

        def resume(partitions: list[TopicPartition]) -> None:
            inner.resume(partitions)
            then(number)
            resumed.append(number)

        return attrs.evolve(inner, resume=resume)

    monkeypatch.setattr(InnerConsumer, "behind", slow)
    return resumed
