"""DeserializingConsumer: confluent_kafka's, over the Consumer of this package.

References: confluent_kafka.DeserializingConsumer.
"""

from __future__ import annotations

from typing import TypeVar

import confluent_kafka

from kafka_remote_client.consumer.consumer import Consumer

__all__ = ["DeserializingConsumer"]

_K = TypeVar("_K")
_V = TypeVar("_V")


class DeserializingConsumer(confluent_kafka.DeserializingConsumer[_K, _V], Consumer):
    """As confluent_kafka's: ``poll()`` gives deserialised keys and values, ``consume()`` is not there.

    Takes the settings of both. Raises what both raise.
    """
