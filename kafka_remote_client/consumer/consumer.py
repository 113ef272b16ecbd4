"""The drop-in Consumer: the same class as confluent_kafka's until direct fetch is turned on.

``Consumer(config)`` looks at ``fetch.remote.enabled`` once. Off (the default), the object has no method of ours in its way. On,
it is an instance of :class:`DirectConsumer`, also for an application's own subclass, whose ``super().poll()`` then reaches
ours: the class is completed at construction.

References: KIP-1254, "Rollout Steps" and "Downgrade".
"""

from __future__ import annotations

from typing import Any, Self
from weakref import WeakKeyDictionary

import confluent_kafka

from kafka_remote_client.config import split_config

__all__ = ["Consumer"]


def _merged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object]:
    """The configuration as confluent_kafka takes it: one mapping, keywords, or both."""
    return {**(args[0] if args else {}), **kwargs}


class Consumer(confluent_kafka.Consumer):
    """confluent_kafka.Consumer that can read tiered segments straight from the object store.

    Takes the same configuration plus the settings of docs/configs.md. Raises ConfigurationError for an unknown
    ``fetch.remote.*`` key or a value out of bounds, and what confluent_kafka raises for its own.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        remote, _ = split_config(_merged(args, kwargs))
        if not remote.enabled:
            return super().__new__(cls)
        return super().__new__(_completed(cls))  # type: ignore[return-value]  # a subclass of cls, which mypy cannot see

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _, inner = split_config(_merged(args, kwargs))
        super().__init__(inner)


_classes: WeakKeyDictionary[type[Consumer], type[Consumer]] = WeakKeyDictionary()


def _completed(cls: type[Consumer]) -> type[Consumer]:
    """``cls`` with direct fetch between its own methods and confluent_kafka's; the same class each time."""
    from kafka_remote_client.consumer.direct_consumer import DirectConsumer  # noqa: PLC0415 - it subclasses Consumer

    if issubclass(cls, DirectConsumer):
        return cls
    if cls is Consumer:
        return DirectConsumer
    if cls not in _classes:
        namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        _classes[cls] = type(cls.__name__, (cls, DirectConsumer), namespace)
    return _classes[cls]
