"""The asyncio classes: confluent_kafka's own, around the Consumer of this package.

Upstream's constructors create it instead of the stock consumer (upstream_constructor.py). If they cannot, they create the
stock consumer, and direct fetch stays off.

References: confluent_kafka.aio.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import confluent_kafka
from confluent_kafka import aio

from kafka_remote_client.config import split_config
from kafka_remote_client.consumer.call_gate import CallGate
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.tier_log import Tier
from kafka_remote_client.consumer.upstream_constructor import with_names

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_remote_client.consumer.arrow_batches import PlainBatches

__all__ = ["AIOConsumer", "AsyncDeserializingConsumer"]

_log = logging.getLogger(__name__)

_PROGRESS = "fetch.remote.progress.cb"

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Off:
    """The methods of Consumer beyond confluent_kafka's, for a consumer with direct fetch off."""

    metrics, tier, set_remote_fetch = Consumer.metrics, Consumer.tier, Consumer.set_remote_fetch


class _Metered:
    """The methods of Consumer beyond confluent_kafka's, for the asyncio classes; their inner consumer may be a stock one."""

    _consumer: confluent_kafka.Consumer
    _closed: bool
    _direct_plain_batches: PlainBatches | None = None

    @property
    def _direct_ours(self) -> Consumer:
        return self._consumer if isinstance(self._consumer, Consumer) else cast("Consumer", _Off())

    async def metrics(self) -> dict[str, float | int | dict[str, int]]:
        """As Consumer's."""
        return self._direct_ours.metrics()

    async def tier(self, message: confluent_kafka.Message) -> Tier | None:
        """As Consumer's."""
        tier = self._direct_ours.tier
        if self._closed:
            return tier(message)
        return cast("Tier | None", await cast("aio.AIOConsumer", self)._call(tier, message))  # noqa: SLF001 - our base class

    async def consume_arrow(self, max_records: int = 1, timeout: float = -1) -> pa.Table:
        """As Consumer's: keys and values are bytes, also of a consumer that deserialises."""
        from kafka_remote_client.consumer.arrow_batches import PlainBatches  # noqa: PLC0415 - pyarrow is an extra

        if isinstance(self._consumer, Consumer):
            consume = self._consumer.consume_arrow
        else:
            self._direct_plain_batches = self._direct_plain_batches or PlainBatches()
            consume = partial(self._direct_plain_batches.consume, self._consumer)
        return await cast("aio.AIOConsumer", self)._call(consume, max_records, timeout)  # noqa: SLF001 - our base class

    async def set_remote_fetch(self, enabled: bool) -> None:
        """As Consumer's."""
        self._direct_ours.set_remote_fetch(enabled)


def _stock_settings(conf: dict[str, Any]) -> dict[str, Any]:
    remote, stock = split_config(conf)
    if remote.enabled:
        _log.warning(
            "direct fetch is off: confluent_kafka.aio cannot build a consumer with direct fetch, or "
            "KAFKA_REMOTE_CLIENT_AIO=0 disables it"
        )
    return stock


class AIOConsumer(_Metered, aio.AIOConsumer):
    """As confluent_kafka.aio's, with direct fetch where the configuration turns it on."""

    def __init__(self, consumer_conf: dict[str, Any], max_workers: int = 100, executor: Executor | None = None) -> None:
        if _begin is None:
            super().__init__(_stock_settings(consumer_conf), max_workers, executor)
            return
        callback = consumer_conf.get(_PROGRESS)
        if callable(callback):  # as upstream does with its own callbacks
            consumer_conf = {**consumer_conf, _PROGRESS: aio._common.wrap_callback(asyncio.get_running_loop(), callback)}  # noqa: SLF001 - upstream's own way to call a coroutine
        _begin(self, consumer_conf, max_workers, executor)
        gate = CallGate(aio._common.ReentryContext.current_id)  # noqa: SLF001 - named by upstream's gate
        cast("Consumer", self._consumer)._direct_enter_by(gate)  # noqa: SLF001 - a class of this package


_begin = with_names(aio.AIOConsumer.__init__, confluent_kafka=SimpleNamespace(Consumer=Consumer))


class AsyncDeserializingConsumer(_Metered, aio.AsyncDeserializingConsumer[_K, _V]):
    """As confluent_kafka.aio's, with direct fetch where the configuration turns it on; built by ``await``, too."""

    async def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:  # type: ignore[misc] # upstream awaits it
        if _begin_deserializing is None:
            await super().__init__(_stock_settings(conf), **kwargs)
        else:
            await _begin_deserializing(self, conf, **kwargs)


_begin_deserializing = with_names(aio.AsyncDeserializingConsumer.__init__, AIOConsumer=AIOConsumer)
