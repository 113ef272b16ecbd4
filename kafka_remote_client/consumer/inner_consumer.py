"""The inner librdkafka consumer for the parts of the direct consumer: confluent_kafka's methods without our overrides.

The parts have no strong reference to the consumer. A cycle would keep it, with its connections and its place in the group,
until a cyclic collection; see dropped.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import attrs
from confluent_kafka import Message, TopicPartition

from kafka_remote_client.consumer.class_choice import inherited
from kafka_remote_client.consumer.instrumented import uninstrumented

__all__ = ["InnerConsumer"]


@attrs.frozen
class InnerConsumer:
    """Bound methods of the inner consumer, without overrides."""

    pause: Callable[[list[TopicPartition]], None]
    resume: Callable[[list[TopicPartition]], None]
    seek: Callable[[TopicPartition], None]
    position: Callable[[list[TopicPartition]], list[TopicPartition]]
    assign: Callable[[list[TopicPartition]], None]
    unassign: Callable[[], None]
    incremental_unassign: Callable[[list[TopicPartition]], None]
    incremental_assign: Callable[[list[TopicPartition]], None]
    assignment: Callable[[], list[TopicPartition]]
    committed: Callable[..., list[TopicPartition]]
    commit: Callable[..., list[TopicPartition] | None]
    store_offsets: Callable[..., None]
    consume: Callable[[int, float], list[Message]]
    list_topics: Callable[..., Any]
    offsets_for_times: Callable[..., list[TopicPartition]]

    @classmethod
    def of(cls, method: Callable[[str], Callable[..., Any]]) -> InnerConsumer:
        """``method`` returns each one by its name."""
        return cls(*(method(field.name) for field in attrs.fields(cls)))

    @classmethod
    def behind(cls, consumer: Any, overrides: type) -> InnerConsumer:
        """Returns the methods of ``consumer`` that ``overrides`` overrides. They raise RuntimeError after it is freed."""
        reference = weakref.ref(consumer)

        def method(name: str) -> Callable[..., Any]:
            function = uninstrumented(inherited(type(consumer), overrides, name))

            def call(*args: Any, **kwargs: Any) -> Any:
                alive = reference()
                if alive is None:
                    raise RuntimeError("Consumer closed")
                return function(alive, *args, **kwargs)

            return call

        return cls.of(method)
