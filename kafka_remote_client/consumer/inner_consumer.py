"""What the parts of the direct consumer call of the librdkafka consumer inside: confluent_kafka's methods, past our overrides.

The parts do not keep the consumer. A cycle would keep it, with its connections and its place in the group, until a cyclic
collection; see dropped.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import attrs
from confluent_kafka import Message, TopicPartition

__all__ = ["InnerConsumer"]


@attrs.frozen
class InnerConsumer:
    """Methods of the inner consumer, bound, and free of any override."""

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

    @classmethod
    def of(cls, method: Callable[[str], Callable[..., Any]]) -> InnerConsumer:
        """``method`` gives each one by its name."""
        return cls(*(method(field.name) for field in attrs.fields(cls)))

    @classmethod
    def behind(cls, consumer: Any, overrides: type) -> InnerConsumer:
        """Those of ``consumer`` that its class ``overrides`` overrides. They raise RuntimeError once the consumer is gone."""
        reference = weakref.ref(consumer)

        def method(name: str) -> Callable[..., Any]:
            function = getattr(super(overrides, type(consumer)), name)

            def call(*args: Any, **kwargs: Any) -> Any:
                alive = reference()
                if alive is None:
                    raise RuntimeError("Consumer closed")
                return function(alive, *args, **kwargs)

            return call

        return cls.of(method)
