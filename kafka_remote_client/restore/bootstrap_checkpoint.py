"""KRaft metadata that a formatted node takes at its first start: the records of ``bootstrap.checkpoint``. Pure.

The file is a KRaft snapshot: batches of magic 2, of which the first (SnapshotHeader) and the last (SnapshotFooter) are control
batches. The value of each other record::

    uvarint frame version (1) | uvarint api key | uvarint version | body, flexible encoding

=== ================= ======= ==================================================================================
key record            version fields
=== ================= ======= ==================================================================================
2   TopicRecord       0       Name string, TopicId uuid
3   PartitionRecord   1       PartitionId int32, TopicId uuid, Replicas, Isr, RemovingReplicas, AddingReplicas
                              []int32, Leader, LeaderEpoch, PartitionEpoch int32, Directories []uuid
4   ConfigRecord      0       ResourceType int8 (2 = topic), ResourceName, Name, Value string
15  ProducerIdsRecord 0       BrokerId int32, BrokerEpoch int64, NextProducerId int64
=== ================= ======= ==================================================================================

The controller reads the file only while its metadata log is empty. A topic needs its records in this order: topic, partitions,
configs.

References: KIP-631, KIP-778 (bootstrap metadata), KIP-858 (directories); TopicRecord.json and its neighbours in Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import attrs

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import ConfigurationError, DirectFetchError
from kafka_remote_client.records import BatchHeader, BatchRules, RemoteLogInputStream
from kafka_remote_client.records.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, write_batch
from kafka_remote_client.records.completed_fetch import FetchState
from kafka_remote_client.wire import Writer

__all__ = ["BOOTSTRAP", "RestoredPartition", "RestoredTopic", "has_topics", "metadata_records", "with_records"]

BOOTSTRAP = "bootstrap.checkpoint"

_FRAME_VERSION = 1
_TOPIC, _PARTITION, _CONFIG, _PRODUCER_IDS = 2, 3, 4, 15
_PARTITION_VERSION = 1
_TOPIC_RESOURCE = 2
_RECORDS_IN_A_BATCH = 1000
_BASE_OFFSET = struct.Struct(">q")
_NO_EPOCH_OF_BROKER = -1


@attrs.frozen
class RestoredPartition:
    """A partition as the controller is told of it. ``leader_epoch`` is the one in which the first leader writes.

    ``replicas``: node ids. All are in sync, and the first one leads.
    """

    number: int
    leader_epoch: int
    replicas: tuple[int, ...]


@attrs.frozen
class RestoredTopic:
    """A topic with its old id, all its partitions, and its configs."""

    name: str
    topic_id: UUID
    partitions: tuple[RestoredPartition, ...]
    configs: Mapping[str, str]


def metadata_records(topics: Sequence[RestoredTopic], directories: Mapping[int, UUID], next_producer_id: int) -> list[bytes]:
    """The values of the records. ``directories``: the id of each node's log folder."""
    records = []
    for topic in topics:
        records.append(_topic(topic))
        records += (_partition(topic, partition, directories) for partition in topic.partitions)
        records += (_config(topic.name, name, value) for name, value in sorted(topic.configs.items()))
    records.append(_producer_ids(min(directories), next_producer_id))
    return records


def has_topics(checkpoint: bytes) -> bool:
    """Whether the file names any topic. Raises ConfigurationError as :func:`with_records`."""
    batches = _batches(checkpoint)
    return any(value[1] == _TOPIC for batch in batches if not batch.is_control for value in _values(checkpoint, batch))


def with_records(checkpoint: bytes, records: Sequence[bytes]) -> bytes:
    """The file with these records behind its own, before its footer. Raises ConfigurationError for a file of another form."""
    batches = _batches(checkpoint)
    *_, last, footer = batches
    offset, out = last.last_offset + 1, bytearray(checkpoint[: last.end])
    for start in range(0, len(records), _RECORDS_IN_A_BATCH):
        part = records[start : start + _RECORDS_IN_A_BATCH]
        out += write_batch(offset, [(last.base_timestamp, None, value) for value in part], last.leader_epoch)
        offset += len(part)
    out += _BASE_OFFSET.pack(offset)  # the checksum does not cover it
    out += checkpoint[footer.position + _BASE_OFFSET.size : footer.end]
    return bytes(out)


def _batches(checkpoint: bytes) -> list[BatchHeader]:
    stream = RemoteLogInputStream(checkpoint)
    batches = list(stream.batches)
    if stream.error is not None or stream.consumed != len(checkpoint):
        raise ConfigurationError(f"{BOOTSTRAP} is damaged: {stream.error or 'it ends within a batch'}")
    if [batch.is_control for batch in (batches[:1] + batches[-1:])] != [True, True] or all(b.is_control for b in batches):
        raise ConfigurationError(f"{BOOTSTRAP} is not a KRaft snapshot with records between a header and a footer")
    return batches


def _values(checkpoint: bytes, batch: BatchHeader) -> Iterator[bytes]:
    state = FetchState(BatchRules(), 0, None, MAX_OFFSET, block_bytes=DEFAULT_MAX_DECOMPRESSED_BYTES)
    try:
        block, _ = state.feed(memoryview(checkpoint)[batch.position : batch.end], copies=True)
    except DirectFetchError as error:
        raise ConfigurationError(f"{BOOTSTRAP} is damaged: {error}") from None
    for _, _, _, _, _, value, _ in block.rows():
        if value is None or len(value) < 3 or value[0] != _FRAME_VERSION:
            raise ConfigurationError(f"{BOOTSTRAP} has a record of another form")
        yield value


def _record(api_key: int, version: int) -> Writer:
    writer = Writer(flexible=True)
    for number in (_FRAME_VERSION, api_key, version):
        writer.uvarint(number)
    return writer


def _closed(writer: Writer) -> bytes:
    writer.tagged_fields({})
    return writer.getvalue()


def _topic(topic: RestoredTopic) -> bytes:
    writer = _record(_TOPIC, 0)
    writer.string(topic.name)
    writer.uuid(topic.topic_id)
    return _closed(writer)


def _partition(topic: RestoredTopic, partition: RestoredPartition, directories: Mapping[int, UUID]) -> bytes:
    writer = _record(_PARTITION, _PARTITION_VERSION)
    writer.int32(partition.number)
    writer.uuid(topic.topic_id)
    for brokers in (partition.replicas, partition.replicas, (), ()):
        writer.array(brokers, writer.int32)
    for number in (partition.replicas[0], partition.leader_epoch, 0):
        writer.int32(number)
    writer.array([directories[node] for node in partition.replicas], writer.uuid)
    return _closed(writer)


def _config(topic: str, name: str, value: str) -> bytes:
    writer = _record(_CONFIG, 0)
    writer.int8(_TOPIC_RESOURCE)
    for text in (topic, name, value):
        writer.string(text)
    return _closed(writer)


def _producer_ids(node_id: int, next_producer_id: int) -> bytes:
    writer = _record(_PRODUCER_IDS, 0)
    writer.int32(node_id)
    writer.int64(_NO_EPOCH_OF_BROKER)
    writer.int64(next_producer_id)
    return _closed(writer)
