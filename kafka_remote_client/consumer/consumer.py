"""The drop-in Consumer: the same class as confluent_kafka's until direct fetch is turned on.

``Consumer(config)`` looks at ``fetch.remote.enabled`` once, in its constructor. Off (the default), or where direct fetch cannot
work, the object has no method of ours in the way of confluent_kafka's. On, its class is completed with
:class:`~kafka_remote_client.consumer.direct_consumer.DirectConsumer`, an application's own subclass too, whose
``super().poll()`` then reaches ours.

References: KIP-1254, "Rollout Steps" and "Downgrade".
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import confluent_kafka

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.consumer.statistics import with_metrics_in_statistics
from kafka_remote_client.consumer.tier_log import Tier
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.location.oauth_tokens import with_watched_oauth
from kafka_remote_client.metrics import FetchMetrics

__all__ = ["Consumer"]


class Consumer(confluent_kafka.Consumer):
    """confluent_kafka.Consumer that can read tiered segments straight from the object store.

    Takes the same configuration plus the settings of docs/configs.md. Raises ConfigurationError for an unknown
    ``fetch.remote.*`` key, a value out of bounds or a fetcher that cannot be had, and what confluent_kafka raises for its own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and (len(args) > 1 or not isinstance(args[0], dict)):
            super().__init__(*args, **kwargs)  # raises, and knows best what to say
            return
        remote, inner = split_config({**(args[0] if args else {}), **kwargs})
        clock = SystemClock()
        self._metrics = FetchMetrics(clock)
        seen = with_metrics_in_statistics(with_watched_oauth(inner, clock), self) if remote.enabled else inner
        engine = build_engine(remote, seen, clock, self._metrics)
        if engine is None:
            super().__init__(inner)
            return
        # Completed here and not in __new__, because only here the configuration is known whatever a subclass's arguments are.
        self.__class__ = _completed(type(self))
        try:
            self._start_direct(engine, remote, seen, clock)
        except BaseException:
            engine.close()
            raise

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        """The metrics of docs/metrics.md as plain numbers; all zero where direct fetch is off."""
        return self._metrics.snapshot()

    def tier(self, message: confluent_kafka.Message) -> Tier | None:
        """Which tier delivered a record to this consumer last: "remote", the store, or "broker", wherever that had it from.

        ``None`` for an error, and where direct fetch is on for a record that this consumer did not deliver, or whose delivery
        is forgotten: ranges of offsets are kept, the newest 64 of a partition (one more with each seek, rebalance or change
        of tier).
        """
        return Tier.BROKER if message.error() is None else None

    def set_remote_fetch(self, enabled: bool) -> None:
        """Turns direct fetch off, or on again, for a consumer that was built with it; any thread may.

        It takes effect in the next call of poll() or consume(), or in the one that waits. Off: all partitions go on by the
        broker at the exact next offset, readers and their memory are given back, and what is assigned later stays with the
        broker. On: those that lie below the broker's local log are read directly again. Raises ConfigurationError when it is
        to be turned on where it was off, or could not work, when the consumer was built.
        """
        if enabled:
            raise ConfigurationError("direct fetch was off, or could not work, when this consumer was built")

    def _complete_statistics(self, statistics: dict[str, Any]) -> None:
        """Overridden where direct fetch is on."""
        raise NotImplementedError

    def _start_direct(self, *parts: Any) -> None:
        """Overridden where direct fetch is on."""
        raise NotImplementedError


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
