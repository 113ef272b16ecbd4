"""Follows ``__remote_log_metadata`` and keeps a :class:`RemoteLogMetadataStore` up to date.

One thread with one consumer: no group, no commits, all partitions from the beginning. librdkafka reconnects and retries by
itself; what is decided here is only when a partition's events are complete (``followed_partition``) and what to do with a
record that makes no sense: say so, count it, and trust its metadata partition no more.

References: Kafka's ConsumerTask, ConsumerManager; KIP-405.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.followed_partition import FollowedPartition, FollowState
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde

__all__ = ["METADATA_TOPIC", "RemoteLogMetadataFollower"]

METADATA_TOPIC = "__remote_log_metadata"

ClientConfig: TypeAlias = Mapping[str, str | int | float | bool]

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_POLL_RECORDS = 1000
_REQUEST_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_OUR_CONFIG: dict[str, str | int | float | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # a position that fell out of the topic means lost events, never a silent jump
    "allow.auto.create.topics": False,
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
}
_LOST = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})  # noqa: SLF001 - librdkafka's own codes


class RemoteLogMetadataFollower:
    """``config`` is librdkafka's: ``bootstrap.servers`` and how to connect. Begins with :meth:`start`, ends with :meth:`close`.

    The principal needs READ and DESCRIBE on the metadata topic, and nothing else. ``bad_records`` counts records that made
    their partition distrusted.
    """

    def __init__(
        self, config: ClientConfig, store: RemoteLogMetadataStore, *, topic: str = METADATA_TOPIC, clock: Clock | None = None
    ) -> None:
        self._config = {**config, **_OUR_CONFIG, "group.id": f"kafka-remote-metadata-{uuid.uuid4()}"}
        self._store = store
        self._topic = topic
        self._clock = clock or SystemClock()
        self._serde = RemoteLogMetadataSerde()
        self._partitions: dict[int, FollowedPartition] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="remote-log-metadata", daemon=True)
        self.bad_records = 0

    def start(self) -> None:
        """Begins to read. Raises ConfigurationError-free KafkaException for a configuration that librdkafka refuses."""
        consumer = Consumer(self._config)
        self._consumer = consumer
        self._thread.start()

    def close(self) -> None:
        """Stops the thread; from then on nothing is ready. May be called twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Whether the store holds all that the metadata topic said of this partition when reading began, and no doubt."""
        with self._changed:
            if not self._partitions or self._stop.is_set():
                return False
            number = metadata_partition(topic_id_partition, len(self._partitions))
            return self._partitions[number].state is FollowState.READY

    def wait_settled(self, seconds: float) -> bool:
        """Waits until every metadata partition is ready or distrusted, or reading has ended; False when time ran out."""
        with self._changed:
            return self._changed.wait_for(self._settled, seconds)

    def distrusted(self) -> list[int]:
        """The metadata partitions that are not trusted any more."""
        with self._changed:
            return [n for n, partition in self._partitions.items() if partition.state is FollowState.DISTRUSTED]

    def _settled(self) -> bool:
        states = [partition.state for partition in self._partitions.values()]
        return self._stop.is_set() or (bool(states) and FollowState.REPLAYING not in states)

    def _run(self) -> None:
        try:
            if self._assign():
                while not self._stop.is_set():
                    for message in self._consumer.consume(_POLL_RECORDS, _POLL_SECONDS):
                        self._take(message)
        except Exception:
            _log.exception("following %s ended; no segment will be located", self._topic)
        finally:
            with self._changed:
                self._stop.set()
                self._changed.notify_all()
            self._consumer.close()

    def _assign(self) -> bool:
        """Waits for the topic and its offsets, then begins at the beginning; False when closed meanwhile."""
        while not self._stop.is_set():
            try:
                found = self._watermarks()
            except KafkaException as error:
                _log.warning("%s cannot be read yet: %s", self._topic, error)
            else:
                if found:
                    partitions = {n: FollowedPartition(low, high) for n, (low, high) in sorted(found.items())}
                    self._consumer.assign([TopicPartition(self._topic, n, low) for n, (low, _) in found.items()])
                    with self._changed:
                        self._partitions = partitions
                        self._changed.notify_all()
                    return True
            self._clock.wait(self._stop, _RETRY_SECONDS)
        return False

    def _watermarks(self) -> dict[int, tuple[int, int]]:
        """First and end offset of each partition; empty when the topic does not exist."""
        topic = self._consumer.list_topics(self._topic, timeout=_REQUEST_SECONDS).topics[self._topic]
        if topic.error is not None:
            return {}
        found = {}
        for number in topic.partitions:
            if self._stop.is_set():
                return {}
            found[number] = self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=_REQUEST_SECONDS)
        return found

    def _take(self, message: Message) -> None:
        partition = self._partitions.get(message.partition())
        error = message.error()
        if error is None and partition is not None:
            self._take_record(partition, message)
        elif error is not None and partition is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - as above
            with self._changed:
                partition.end_of_partition(message.offset())
                self._changed.notify_all()
        elif error is not None and partition is not None and error.code() in _LOST:
            self._doubt(message.partition(), partition, str(error))
        else:
            _log.warning("reading %s: %s", self._topic, error)

    def _take_record(self, partition: FollowedPartition, message: Message) -> None:
        try:
            partition.record(message.offset())
            event = self._serde.deserialize(message.value())
            self._store.apply(event)
        except RemoteLogMetadataError as error:
            partition.next_offset = message.offset() + 1
            self._doubt(message.partition(), partition, str(error))
            return
        with self._changed:
            partition.applied()
            self._changed.notify_all()

    def _doubt(self, number: int, partition: FollowedPartition, why: str) -> None:
        _log.error("%s-%d is not trusted any more, before offset %d: %s", self._topic, number, partition.next_offset, why)
        with self._changed:
            self.bad_records += 1
            partition.doubt()
            self._changed.notify_all()
