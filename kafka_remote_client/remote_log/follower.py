"""Follows ``__remote_log_metadata`` and keeps a :class:`RemoteLogMetadataStore` up to date.

One thread with one consumer: no group, no commits, all partitions from the beginning. librdkafka reconnects and retries. This
module decides when a partition's events are complete (``followed_partition``), and what to do after a failure::

    failure                                         | not ready until it is read again         | pauses
    an invalid record, lost records, a damaged part | the metadata partition                   | 1 s to 5 min
    of a snapshot                                   |                                          |
    any other exception, in the thread or librdkafka| all partitions; with a new consumer      | 1 s to 1 min

With a snapshot, reading begins one record before its offsets (``metadata_snapshots``), but only at the start of the follower
and not after a failure.

Failures are logged and counted. While a metadata partition is not ready, its user partitions are read through the broker.

References: Kafka's ConsumerTask, ConsumerManager; KIP-405.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.backoff import Backoff
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import UNKNOWN_EPOCH, TopicIdPartition
from kafka_remote_client.remote_log.client_log import ClientLog
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataSnapshot
from kafka_remote_client.remote_log.followed_partition import FollowedPartition, FollowState
from kafka_remote_client.remote_log.metadata_keys import EndOffsetKey, MetadataKey, SegmentKey
from kafka_remote_client.remote_log.metadata_snapshot import MetadataPosition
from kafka_remote_client.remote_log.metadata_snapshots import MetadataSnapshots
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.packed_segment import MetadataEvent
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.settings import default_of

__all__ = ["METADATA_TOPIC", "RemoteLogMetadataFollower"]

METADATA_TOPIC: str = default_of("fetch.remote.metadata.topic")

ClientConfig: TypeAlias = Mapping[str, str | int | float | bool]

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_POLL_RECORDS = 1000
_REQUEST_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_RESTART_SECONDS = (1.0, 60.0)
_REREAD_SECONDS = (1.0, 300.0)
_OUR_CONFIG: dict[str, str | int | float | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # a position that fell out of the topic means lost events, never a silent jump
    "allow.auto.create.topics": False,
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
}
_DECIDED = (FollowState.READY, FollowState.DISTRUSTED)
_LOST = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})

_REFUSALS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})
"""Errors of a topic that do not pass by themselves, as LEADER_NOT_AVAILABLE of a new topic does."""


class RemoteLogMetadataFollower:
    """Begins with :meth:`start`, ends with :meth:`close`. ``config``: librdkafka's ``bootstrap.servers`` and security settings.

    The principal needs READ and DESCRIBE on the metadata topic. ``bad_records`` counts records that made their partition
    distrusted, ``rereads`` partitions that were read again, ``restarts`` failures of the whole follower. ``refused``: why the
    brokers do not show the topic. ``recovers``: False for a caller that reads the metadata once and keeps it after a failure;
    then the follower does not wait for a topic that is refused. ``snapshots``: closed with the follower.
    """

    def __init__(
        self,
        config: ClientConfig,
        store: RemoteLogMetadataStore,
        *,
        topic: str = METADATA_TOPIC,
        clock: Clock | None = None,
        recovers: bool = True,
        snapshots: MetadataSnapshots | None = None,
    ) -> None:
        self._store = store
        self._topic = topic
        self._clock = clock or SystemClock()
        self._client_log = ClientLog(_log, self._clock)
        own = {**_OUR_CONFIG, "group.id": f"kafka-remote-metadata-{uuid.uuid4()}"}
        self._config: dict[str, Any] = {**self._client_log.callbacks(), **config, **own}
        self._serde = RemoteLogMetadataSerde()
        self._partitions: dict[int, FollowedPartition] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._recovers = recovers
        self._snapshots = snapshots
        self._restart = Backoff(self._clock, *_RESTART_SECONDS)
        self._pauses: dict[int, Backoff] = {}
        self.bad_records = self.rereads = self.restarts = 0
        self.refused: KafkaError | None = None

    def start(self) -> None:
        """Starts the thread; call it once. Raises KafkaException for a configuration that librdkafka refuses."""
        consumer = Consumer(self._config)
        self._thread = threading.Thread(target=self._run, args=(consumer,), name="remote-log-metadata", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the thread; afterwards no partition is ready. May be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._snapshots is not None:
            self._snapshots.close()

    def ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Whether the store has all events of this partition up to the time when reading began, without a doubt."""
        with self._changed:
            return not self._stop.is_set() and self._state(topic_id_partition) is FollowState.READY

    def wait_ready(self, topic_id_partition: TopicIdPartition, seconds: float) -> bool:
        """Waits until the partition is ready, distrusted or closed, for at most ``seconds``; returns :meth:`ready`."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or self._state(topic_id_partition) in _DECIDED, seconds)
            return self.ready(topic_id_partition)

    def wait_settled(self, seconds: float) -> bool:
        """Waits until every metadata partition is ready or distrusted, or reading has ended; False after ``seconds``."""
        with self._changed:
            return self._changed.wait_for(self._settled, seconds)

    def not_ready(self) -> list[int] | None:
        """The metadata partitions that are not ready; None while none is known."""
        with self._changed:
            if not self._partitions or self._stop.is_set():
                return None
            return [n for n, partition in self._partitions.items() if partition.state is not FollowState.READY]

    def distrusted(self) -> list[int]:
        """The metadata partitions that are distrusted, until they were read again."""
        with self._changed:
            return [n for n, partition in self._partitions.items() if partition.state is FollowState.DISTRUSTED]

    def _state(self, topic_id_partition: TopicIdPartition) -> FollowState:
        if not self._partitions:
            return FollowState.REPLAYING
        return self._partitions[metadata_partition(topic_id_partition, len(self._partitions))].state

    def _settled(self) -> bool:
        states = [partition.state for partition in self._partitions.values()]
        return self._stop.is_set() or (bool(states) and FollowState.REPLAYING not in states)

    def _run(self, consumer: Consumer | None) -> None:
        while not self._stop.is_set():
            try:
                consumer = consumer or Consumer(self._config)
                self._follow(consumer)
            except Exception:  # noqa: BLE001 - a defect must not end direct reads forever
                self._failed()
            finally:
                if consumer is not None:
                    _close(consumer)
                consumer = None
        with self._changed:
            self._changed.notify_all()

    def _follow(self, consumer: Consumer) -> None:
        if not self._assign(consumer):
            return
        while not self._stop.is_set():
            for message in consumer.consume(_POLL_RECORDS, _POLL_SECONDS):
                self._take(message)
            for tip in self._store.take_damaged():
                number = metadata_partition(tip, len(self._partitions))
                self._doubt(number, self._partitions[number], f"{tip} in the snapshot is damaged")
            if self._recovers:
                self._read_anew(consumer)
            self._write_snapshot()

    def _write_snapshot(self) -> None:
        if self._snapshots is None or not self._settled():
            return
        trusted = {n: one for n, one in self._partitions.items() if one.state is FollowState.READY}
        positions = {n: MetadataPosition(one.next_offset, one.leader_epoch) for n, one in trusted.items()}
        if self._snapshots.wanted(positions):
            self._snapshots.write(positions, self._store.contents())

    def _failed(self) -> None:
        """Called while an exception is handled: makes all partitions not ready, and waits for the next attempt."""
        with self._changed:
            self._partitions = {}
            self.restarts += 1
            if not self._recovers:
                self._stop.set()
            self._changed.notify_all()
        self._store.clear()
        if not self._recovers:
            _log.exception("following %s failed; no location is granted until it recovers", self._topic)
            return
        pause = self._restart.failed()
        _log.exception("following %s failed; reading it again from the start in %.1f s", self._topic, pause)
        self._clock.wait(self._stop, pause)

    def _read_anew(self, consumer: Consumer) -> None:
        """Reads distrusted partitions again whose pause is over."""
        for number in self.distrusted():
            if not self._pauses[number].waiting:
                self._begin_again(consumer, number)

    def _begin_again(self, consumer: Consumer, number: int) -> None:
        place = TopicPartition(self._topic, number)
        try:
            place.offset, high = consumer.get_watermark_offsets(place, timeout=_REQUEST_SECONDS)
        except KafkaException as error:
            pause = self._pauses[number].failed()
            _log.warning("reading %s-%d from the start failed, retrying in %.1f s: %s", self._topic, number, pause, error)
            return
        # Not by a seek: librdkafka refuses it for a partition whose position it has lost.
        consumer.incremental_unassign([place])
        consumer.incremental_assign([place])
        _log.warning("reading %s-%d from offset %d to %d", self._topic, number, place.offset, high)
        count = len(self._partitions)
        self._store.forget(lambda tip: metadata_partition(tip, count) == number)
        with self._changed:
            self.rereads += 1
            self._partitions[number].read_anew(place.offset, high)
            self._changed.notify_all()

    def _assign(self, consumer: Consumer) -> bool:
        """Waits for the topic and its offsets, then assigns all partitions; False if the follower was closed."""
        while not self._stop.is_set():
            try:
                consumer.poll(0)  # serves callbacks, such as the one that fetches a token for the first connection
                found = self._watermarks(consumer)
            except KafkaException as error:
                self._client_log.limited(logging.WARNING, "topic", "%s is not readable yet: %s", self._topic, error)
                found = {}
            if found:
                begun = self._begun(found)
                consumer.assign([TopicPartition(self._topic, number, one.next_offset) for number, one in begun.items()])
                with self._changed:
                    self._partitions = begun
                    self._changed.notify_all()
                return True
            if self.refused is not None and not self._recovers:
                self._stop.set()
                return False
            self._clock.wait(self._stop, _RETRY_SECONDS)
        return False

    def _begun(self, found: dict[int, tuple[int, int]]) -> dict[int, FollowedPartition]:
        """The partitions at the end of the snapshot, whose contents go to the store, or at their first offsets."""
        begun = {number: FollowedPartition(low, high) for number, (low, high) in sorted(found.items())}
        if self._snapshots is None:
            return begun
        self._snapshots.open(len(found))
        loaded = None if self.restarts else self._snapshots.load(found)
        if loaded is None:
            return begun
        for tip, packed in loaded.partitions.items():
            self._store.restore(tip, packed)
        return begun | {
            number: FollowedPartition.continued(one.next_offset, found[number][1], one.leader_epoch)
            for number, one in loaded.positions.items()
        }

    def _watermarks(self, consumer: Consumer) -> dict[int, tuple[int, int]]:
        """First and end offset of each partition; empty if the topic does not exist yet."""
        topic = consumer.list_topics(self._topic, timeout=_REQUEST_SECONDS).topics[self._topic]
        self.refused = topic.error if topic.error is not None and topic.error.code() in _REFUSALS else None
        found = {}
        for number in topic.partitions:
            if self._stop.is_set():
                return {}
            found[number] = consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=_REQUEST_SECONDS)
        return found

    def _take(self, message: Message) -> None:
        number, offset, error = message.partition(), message.offset(), message.error()
        partition = None if number is None else self._partitions.get(number)
        if number is None or offset is None or partition is None:
            _log.warning("reading %s: %s", self._topic, error)
            if error is not None and error.fatal():
                raise KafkaException(error)
        elif partition.state is FollowState.DISTRUSTED:
            return  # it is read from its first offset again
        elif error is None:
            self._take_record(number, partition, offset, message)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._take_end(number, partition, offset)
        elif error.code() in _LOST:
            self._doubt(number, partition, str(error))
        else:
            _log.warning("reading %s-%d: %s", self._topic, number, error)

    def _take_end(self, number: int, partition: FollowedPartition, offset: int) -> None:
        try:
            with self._changed:
                partition.end_of_partition(offset)
                self._changed.notify_all()
        except RemoteLogMetadataError as error:
            self._doubt(number, partition, str(error))

    def _take_record(self, number: int, partition: FollowedPartition, offset: int, message: Message) -> None:
        key: Any = message.key()  # bytes, as the value: this consumer has no deserializers
        value: Any = message.value()
        leader_epoch, keyed = message.leader_epoch(), key is not None
        try:
            if partition.record(offset, UNKNOWN_EPOCH if leader_epoch is None else leader_epoch, keyed=keyed):
                event = self._serde.read(key, value)
                if isinstance(event, (SegmentKey, EndOffsetKey)):  # no union: one is made for each record
                    self._remove(number, event)
                else:
                    self._apply(number, event, keyed=keyed)
        except RemoteLogMetadataError as error:
            self._doubt(number, partition, f"the record at offset {offset}: {error}")
            return
        except Exception as error:  # noqa: BLE001 - after a defect here the event is unknown too
            _log.exception("applying the record at offset %d of %s-%d failed", offset, self._topic, number)
            self._doubt(number, partition, f"the record at offset {offset}: {type(error).__name__}")
            return
        if partition.catches_up:  # one record of a million, so the others need no lock
            with self._changed:
                partition.applied()
                self._changed.notify_all()

    def _remove(self, number: int, key: MetadataKey) -> None:
        tip = TopicIdPartition(key.topic_id, "", key.partition)  # the metadata partition does not depend on the name
        if metadata_partition(tip, len(self._partitions)) != number:
            raise RemoteLogMetadataError(f"a tombstone of {tip} is in the wrong metadata partition")
        self._store.remove(key)

    def _apply(self, number: int, event: MetadataEvent, *, keyed: bool) -> None:
        if not isinstance(event, RemoteLogSegmentMetadataSnapshot):
            tip = event.topic_id_partition
            if metadata_partition(tip, len(self._partitions)) != number:
                # Its order among the other events of that partition is unknown.
                raise RemoteLogMetadataError(f"an event of {tip} is in the wrong metadata partition")
        self._store.apply(event, keyed=keyed)

    def _doubt(self, number: int, partition: FollowedPartition, why: str) -> None:
        pause = self._pauses.setdefault(number, Backoff(self._clock, *_REREAD_SECONDS)).failed()
        again = f"reading it again in {pause:.1f} s" if self._recovers else "no location of this partition is granted"
        _log.error("%s-%d is inconsistent, %s: %s", self._topic, number, again, why)
        with self._changed:
            self.bad_records += 1
            partition.doubt()
            self._changed.notify_all()


def _close(consumer: Consumer) -> None:
    try:
        consumer.close()
    except Exception:  # noqa: BLE001 - the next attempt has a consumer of its own
        _log.exception("closing the consumer of the metadata topic failed")
