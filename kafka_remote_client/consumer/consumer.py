"""The drop-in Consumer: the same class as confluent_kafka's until direct fetch is turned on.

``Consumer(config)`` reads ``fetch.remote.enabled`` once, in its constructor. Off (the default), or if direct fetch cannot
work, all methods of the object are confluent_kafka's. On, its class is completed with ``DirectConsumer``
(direct_consumer.py, class_choice.py), an application's own subclass too, whose ``super().poll()`` then reaches
``DirectConsumer``.

This module imports nothing of this package, because a consumer with direct fetch off needs none of it. The constructor imports
the settings if a key may be one of them, and the rest if direct fetch is on, so that no call after it, and no thread of it,
waits for an import.

References: KIP-1254, "Rollout Steps" and "Downgrade".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import confluent_kafka
from confluent_kafka import Message
from confluent_kafka.deserializing_consumer import DeserializingConsumer as _UpstreamDeserializing

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_remote_client.consumer.arrow_batches import PlainBatches
    from kafka_remote_client.consumer.call_gate import Gate
    from kafka_remote_client.consumer.tier_log import Tier

__all__ = ["Consumer", "DeserializingConsumer"]

_PART_OF_OUR_NAMES = "remote."
"""In the name of each setting of this package. A configuration without it has none of them."""

_K = TypeVar("_K")
_V = TypeVar("_V")


class Consumer(confluent_kafka.Consumer):
    """confluent_kafka.Consumer that can read tiered segments straight from the object store.

    Takes the same configuration plus the settings of docs/configs.md. Raises ConfigurationError for an unknown
    ``fetch.remote.*`` key, a value out of bounds or a missing fetcher, and confluent_kafka's errors for its own settings.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and (len(args) > 1 or not isinstance(args[0], dict)):
            super().__init__(*args, **kwargs)  # raises the right error
            return
        settings = {**(args[0] if args else {}), **kwargs}
        self._direct_plain_batches: PlainBatches | None = None
        if any(_PART_OF_OUR_NAMES in str(name) for name in settings):
            from kafka_remote_client.config import split_config  # noqa: PLC0415 - see the module

            remote, settings = split_config(settings)
            if remote.enabled:
                from kafka_remote_client.consumer.direct_consumer import begin_direct  # noqa: PLC0415 - see the module

                if begin_direct(self, remote, settings):
                    return
        super().__init__(settings)

    def consume_arrow(self, max_records: int = 1, timeout: float = -1) -> pa.Table:
        """Returns the records that ``consume(max_records, timeout)`` would return, in order, as a ``pyarrow.Table``.

        Its schema is ``kafka_remote_client.records.arrow.RECORD_SCHEMA``; without records it is empty. Positions, stored
        offsets and commits follow as for ``consume``. A message with an error, including the end of a partition, is raised as
        ConsumeError, whose ``kafka_message`` is that message. It ends a batch: the call returns the records before it, and the
        next call raises it. (With direct fetch off, the records after it in the same batch also come first.)

        Raises the errors of ``consume``, and ImportError without pyarrow (extra ``arrow``).
        """
        from kafka_remote_client.consumer.arrow_batches import PlainBatches  # noqa: PLC0415 - pyarrow is an extra

        if self._direct_plain_batches is None:
            self._direct_plain_batches = PlainBatches()
        return self._direct_plain_batches.consume(self, max_records, timeout)

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        """The metrics of docs/metrics.md as plain numbers; all zero where direct fetch is off."""
        from kafka_remote_client.clock import SystemClock  # noqa: PLC0415 - see the module
        from kafka_remote_client.metrics import FetchMetrics  # noqa: PLC0415 - as above

        return FetchMetrics(SystemClock()).snapshot()

    def tier(self, message: Message) -> Tier | None:
        """Returns the tier that delivered a record to this consumer last: "remote" for the store, or "broker".

        ``None`` for an error and, with direct fetch on, for a record that this consumer did not deliver, or whose delivery is
        forgotten: the consumer keeps the newest 64 ranges of offsets of a partition (one more with each seek, rebalance or
        change of tier).
        """
        from kafka_remote_client.consumer.tier_log import Tier  # noqa: PLC0415 - see the module

        return Tier.BROKER if message.error() is None else None

    def set_remote_fetch(self, enabled: bool) -> None:
        """Turns direct fetch off, or on again, for a consumer that was built with it. Any thread may call it.

        It takes effect in the next call of poll() or consume(), or in the waiting one. Off: all partitions continue at the
        broker at the exact next offset, readers and their memory are released, and partitions assigned later stay with the
        broker. On: partitions below the broker's local log are read directly again. Raises ConfigurationError for True if
        direct fetch was off, or could not work, when the consumer was built.
        """
        from kafka_remote_client.errors import ConfigurationError  # noqa: PLC0415 - see the module

        if enabled:
            raise ConfigurationError("direct fetch cannot be enabled: it was off or unavailable when this consumer was created")

    def _direct_enter_by(self, gate: Gate) -> None:
        """Admits callers by another gate. With direct fetch off, confluent_kafka's own admits them."""


class DeserializingConsumer(_UpstreamDeserializing[_K, _V], Consumer):
    """As confluent_kafka's: ``poll()`` returns deserialised keys and values, ``consume()`` is not supported.

    Takes the settings of both, and raises the errors of both.
    """

    def consume_arrow(self, max_records: int = 1, timeout: float = -1) -> pa.Table:
        """Not supported: raises NotImplementedError."""
        raise NotImplementedError("DeserializingConsumer has no consume_arrow; use Consumer.consume_arrow")
