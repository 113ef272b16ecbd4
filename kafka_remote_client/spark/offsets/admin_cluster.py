"""The driver's requests to the cluster: partitions, starts and ends of logs, offsets of timestamps.

While a partition has no leader, or its leader has just changed, librdkafka returns an error at once, and keeps the metadata
that caused it. Java's admin client, which Spark's own source uses, asks for metadata and repeats the request until
``default.api.timeout.ms`` has passed; so does this one. It does the same for a broker that finds the offset of a timestamp too
late in its tier. Brokers may say so although the offset has just been found. As in Java, only partitions without an answer are
asked for again.

References: Spark's KafkaOffsetReaderAdmin, Kafka's ListOffsetsHandler, PartitionLeaderStrategy and DelayedRemoteListOffsets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import BrokerResponseError, LocationError
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.protocol.error_codes import ErrorCode, refreshes_metadata
from kafka_remote_client.spark.options.source_options import SourceOptions, Subscription
from kafka_remote_client.spark.options.trust_store import librdkafka_settings

__all__ = ["AdminCluster", "Cluster"]

_T = TypeVar("_T")
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # its annotations are unfinished
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # as above
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_LEADER_PAUSE_SECONDS = 1.0
_LATE_PAUSE_SECONDS = 0.1
_LONGEST_REQUEST_SECONDS = 3600.0
"""librdkafka's admin client accepts no longer time-out of one request."""
_CONSUMERS_ALONE = (
    "allow.auto.create.topics",
    "check.crcs",
    "fetch.",
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
)


class Cluster(Protocol):
    """Answers about partitions. All methods raise LocationError if the cluster does not answer."""

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        """Returns the subscribed partitions, sorted. Raises BrokerResponseError for a missing topic or partition."""

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset of each."""

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset after the last record of each that the isolation level shows."""

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Returns the first offset at or after the timestamp (in milliseconds); -1 if there is none."""

    def close(self) -> None:
        """Releases connections."""


class AdminCluster:
    """A Cluster through librdkafka. Repeats a failed request up to ``fetchOffset.numRetries`` times.

    An answer that a partition has no leader, or that its broker was late, is a failure once ``default.api.timeout.ms`` has
    passed.
    """

    def __init__(
        self, options: SourceOptions, clock: Clock, make_admin: Callable[[dict[str, Any]], AdminClient] = AdminClient
    ) -> None:
        """Raises KafkaException for settings that librdkafka rejects."""
        self._seconds = options.client.api_timeout_ms / 1000
        self._isolation = options.client.isolation_level
        self._retries = options.offset_retries
        self._pause = options.offset_retry_interval_ms / 1000
        self._clock = clock
        settings = {
            name: value for name, value in librdkafka_settings(options.client).items() if not name.startswith(_CONSUMERS_ALONE)
        }
        self._admin = make_admin({**settings})

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        def ask() -> list[TopicPartition]:
            known = self._admin.list_topics(timeout=self._seconds).topics
            there = {
                TopicPartition(name, number)
                for name, topic in known.items()
                if topic.error is None
                for number in topic.partitions
            }
            return _chosen(subscription, there)

        return self._repeated(ask)

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, _EARLIEST))

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, _LATEST))

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return self._offsets({partition: OffsetSpec.for_timestamp(time) for partition, time in timestamps.items()})

    def close(self) -> None:
        """librdkafka's admin client has no close(); it is freed with the last reference."""
        del self._admin

    def _offsets(self, wanted: Mapping[TopicPartition, OffsetSpec]) -> Mapping[TopicPartition, int]:
        if not wanted:
            return {}
        committed = self._isolation is IsolationLevel.READ_COMMITTED
        level = confluent_kafka.IsolationLevel.READ_COMMITTED if committed else confluent_kafka.IsolationLevel.READ_UNCOMMITTED
        found: dict[TopicPartition, int] = {}
        seconds = min(self._seconds, _LONGEST_REQUEST_SECONDS)

        def ask() -> Mapping[TopicPartition, int]:
            left = {confluent_kafka.TopicPartition(*one): spec for one, spec in wanted.items() if one not in found}
            failures = []
            for key, future in self._admin.list_offsets(left, isolation_level=level, request_timeout=seconds).items():
                try:
                    found[TopicPartition(key.topic, key.partition)] = future.result().offset
                except KafkaException as error:
                    failures.append(error)
            if failures:
                raise min(failures, key=lambda error: _passes(error.args[0].code()))  # one that does not pass, if there is one
            return found

        return self._repeated(ask)

    def _repeated(self, ask: Callable[[], _T]) -> _T:
        left = self._retries
        deadline = Deadline(self._clock, self._seconds)
        while True:
            try:
                return ask()
            except KafkaException as error:
                failure = error.args[0]
            if _passes(failure.code()) and not deadline.expired():
                self._wait_for_change(failure.code())
                continue
            if not left or failure.code() in _FINAL:
                raise LocationError(f"the cluster did not answer: {failure.str()}")
            left -= 1
            self._clock.wait(threading.Event(), self._pause)
            deadline = Deadline(self._clock, self._seconds)

    def _wait_for_change(self, code: int) -> None:
        if code == ErrorCode.REQUEST_TIMED_OUT:
            self._clock.wait(threading.Event(), _LATE_PAUSE_SECONDS)
            return
        self._clock.wait(threading.Event(), _LEADER_PAUSE_SECONDS)
        with suppress(KafkaException):  # the next answer tells why
            self._admin.list_topics(timeout=self._seconds)


_FINAL = frozenset({int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)})


def _passes(code: int) -> bool:
    """Whether a broker was late, or a partition has no leader or a new one. ``_NOENT``: none of a request's has one."""
    if code in (KafkaError._NOENT, ErrorCode.REQUEST_TIMED_OUT):
        return True
    return refreshes_metadata(code) and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _chosen(subscription: Subscription, there: Collection[TopicPartition]) -> list[TopicPartition]:
    pattern = subscription.pattern
    if pattern is not None:
        # As Spark's own source does: a part of the name is enough.
        return sorted(found for found in there if found.topic not in _INTERNAL and pattern.search(found.topic))
    missing = [str(wanted) for wanted in subscription.partitions if wanted not in there]
    missing += sorted(set(subscription.topics) - {found.topic for found in there})
    if missing:
        told = f"unknown partitions: {', '.join(missing)}; check the topics of the query"
        raise BrokerResponseError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, told)
    return sorted(subscription.partitions) or sorted(found for found in there if found.topic in subscription.topics)
