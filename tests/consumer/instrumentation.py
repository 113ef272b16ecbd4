"""A program whose confluent_kafka has been instrumented.

``python -m tests.consumer.instrumentation SETTINGS WAY CLASS CALL COUNT`` reads COUNT records of ``orders``-0 by CALL (poll or
consume), commits, and prints what the instrumentation has seen. Its stand-ins do what the classes of instrumentations do,
which replace those of confluent_kafka before this package is imported::

    cooperative | opentelemetry-instrumentation-confluent-kafka: methods that call super(), wrapped
    bypassing   | ddtrace: confluent_kafka's own methods, wrapped, and a DeserializingConsumer that is not generic
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import confluent_kafka

__all__: list[str] = []

_Stock = confluent_kafka.Consumer
_SEEN: list[tuple[str, int]] = []
"""Names of methods, and how many records each call returned."""


class _Wrapped:
    """What wrapt's FunctionWrapper does for a method."""

    def __init__(self, wrapped: Any, wrapper: Callable[..., object]) -> None:
        self.__wrapped__ = wrapped
        self._self_wrapper = wrapper

    def __get__(self, instance: object, owner: type) -> object:
        bound = self.__wrapped__.__get__(instance, owner)
        if instance is None:
            return _Wrapped(bound, self._self_wrapper)
        return lambda *args, **kwargs: self._self_wrapper(bound, *args, **kwargs)

    def __call__(self, consumer: object, *args: object, **kwargs: object) -> object:
        return self._self_wrapper(self.__wrapped__.__get__(consumer), *args, **kwargs)


class _Marked:
    def __init__(self, config: dict[str, Any], *args: object, **kwargs: object) -> None:
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg] # the consumer's
        self.group = config["group.id"]


class _Cooperative(_Marked, _Stock):
    def poll(self, timeout: float = -1) -> Any:
        return super().poll(timeout)

    def consume(self, *args: Any, **kwargs: Any) -> Any:
        return super().consume(*args, **kwargs)

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return super().commit(*args, **kwargs)


class _Bypassing(_Marked, _Stock):
    """Finds the methods to wrap in its base."""


class _Deserializing(_Marked, confluent_kafka.DeserializingConsumer):
    """Not generic, because it was made without a parameter."""


_WAYS: dict[str, Any] = {"cooperative": _Cooperative, "bypassing": _Bypassing}


def _see(wrapped: Callable[..., Any], *args: object, **kwargs: object) -> object:
    result = wrapped(*args, **kwargs)
    found = result if isinstance(result, list) else [result]
    _SEEN.append((wrapped.__name__, sum(isinstance(one, confluent_kafka.Message) for one in found)))
    return result


def _instrument(way: str) -> type[_Marked]:
    traced: Any = _WAYS[way]
    for name in ("poll", "consume", "commit"):
        setattr(traced, name, _Wrapped(getattr(traced, name), _see))
    confluent_kafka.Consumer = traced  # type: ignore[misc] # an instrumentation does that
    if traced is _Bypassing:
        confluent_kafka.DeserializingConsumer = _Deserializing  # type: ignore[misc,assignment] # as above
    return traced  # type: ignore[no-any-return] # see _WAYS


def _main(settings: dict[str, Any], way: str, name: str, call: str, count: int) -> None:
    traced = _instrument(way)
    import kafka_remote_client  # after the instrumentation

    consumer = getattr(kafka_remote_client, name)(settings)
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    offsets: list[int] = []
    delivering = 0
    while len(offsets) < count:
        found = [consumer.poll(1)] if call == "poll" else consumer.consume(50, 1)
        delivering += 1
        offsets += [one.offset() for one in found if one is not None]
    consumer.commit(asynchronous=False)
    told = {
        "offsets": offsets,
        "seen": [found for one, found in _SEEN if one == call],
        "others": [one for one, _ in _SEEN if one != call],
        "delivering": delivering,
        "from the store": consumer.metrics()["remote-fetch-records-total"],
        "is one": isinstance(consumer, traced) and consumer.group == settings["group.id"],
    }
    consumer.close()
    print(json.dumps(told))


if __name__ == "__main__":
    given, way, name, call, count = sys.argv[1:]
    _main(json.loads(given), way, name, call, int(count))
