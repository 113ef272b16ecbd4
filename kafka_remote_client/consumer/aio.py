"""The asyncio classes: confluent_kafka's own, around the Consumer of this package.

Upstream's constructors build the stock consumer themselves, by a name of their module. Here they run as they are, but for that
name: a copy of the function looks it up in a namespace of ours. So nothing is swapped for the rest of the process, and what
else upstream's constructors do, in whatever version, is done here too.

References: confluent_kafka.aio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar, cast

import confluent_kafka
from confluent_kafka import aio

from kafka_remote_client.consumer.call_gate import CallGate
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.consumer.tier_log import Tier

__all__ = ["AIOConsumer", "AsyncDeserializingConsumer"]

_PROGRESS = "fetch.remote.progress.cb"

_K = TypeVar("_K")
_V = TypeVar("_V")
_F = TypeVar("_F", bound=Callable[..., Any])


def _where(function: _F, **names: object) -> _F:
    """``function``, where these names of its module mean something else. Raises TypeError when it does not use them all."""
    original = cast("FunctionType", function)
    missing = names.keys() - set(original.__code__.co_names)
    if missing:
        raise TypeError(f"{original.__qualname__} of this confluent-kafka does not use {', '.join(sorted(missing))}")
    namespace = {**original.__globals__, **names}
    copy = FunctionType(original.__code__, namespace, original.__name__, original.__defaults__, original.__closure__)
    copy.__kwdefaults__ = original.__kwdefaults__
    return cast("_F", copy)


class _Metered:
    """What Consumer has beside confluent_kafka's methods."""

    _consumer: confluent_kafka.Consumer
    _closed: bool

    async def metrics(self) -> dict[str, float | int | dict[str, int]]:
        """As Consumer's."""
        return cast("Consumer", self._consumer).metrics()

    async def tier(self, message: confluent_kafka.Message) -> Tier | None:
        """As Consumer's."""
        tier = cast("Consumer", self._consumer).tier
        if self._closed:
            return tier(message)
        return cast("Tier | None", await cast("aio.AIOConsumer", self)._call(tier, message))  # noqa: SLF001 - our base class

    async def set_remote_fetch(self, enabled: bool) -> None:
        """As Consumer's."""
        cast("Consumer", self._consumer).set_remote_fetch(enabled)


class AIOConsumer(_Metered, aio.AIOConsumer):
    """As confluent_kafka.aio's, with direct fetch where the configuration turns it on."""

    def __init__(self, consumer_conf: dict[str, Any], max_workers: int = 100, executor: Executor | None = None) -> None:
        told = consumer_conf.get(_PROGRESS)
        if callable(told):  # as upstream does with callbacks that it knows
            consumer_conf = {**consumer_conf, _PROGRESS: aio._common.wrap_callback(asyncio.get_running_loop(), told)}  # noqa: SLF001 - upstream's own way to call a coroutine
        _begin(self, consumer_conf, max_workers, executor)
        if isinstance(self._consumer, DirectConsumer):
            self._consumer._gate = CallGate(aio._common.ReentryContext.current_id)  # noqa: SLF001 - named by upstream's gate


_begin = _where(aio.AIOConsumer.__init__, confluent_kafka=SimpleNamespace(Consumer=Consumer))


class AsyncDeserializingConsumer(_Metered, aio.AsyncDeserializingConsumer[_K, _V]):
    """As confluent_kafka.aio's, with direct fetch where the configuration turns it on; built by ``await``, too."""

    async def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:  # type: ignore[misc] # upstream awaits it
        await _begin_deserializing(self, conf, **kwargs)


_begin_deserializing = _where(aio.AsyncDeserializingConsumer.__init__, AIOConsumer=AIOConsumer)
