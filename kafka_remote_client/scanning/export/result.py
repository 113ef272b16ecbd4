"""The result of an export, and how a stream continues after it: starting offsets as JSON, or a consumer group's commit.

::

    export ends at   orders-0: 5000   ->   {"orders":{"0":5000}}   ->  startingOffsets of Spark's sources
                                      ->   the group's committed offset 5000

References: Spark's "Structured Streaming + Kafka Integration Guide" (startingOffsets);
``AdminClient.alter_consumer_group_offsets`` of confluent_kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as CommittedPartition
from confluent_kafka.admin import AdminClient

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.written_files import WrittenFile

__all__ = ["ExportResult"]

_EARLIEST = -2
_TIMEOUT_SECONDS = 30.0


@attrs.frozen
class ExportResult:
    """The files of a table that one job wrote, with paths relative to the target, and the end of each partition.

    ``ends``: the first offset of each partition that is not exported. ``resumed``: the number of splits of earlier runs.
    ``dead_letters``: the files of records that do not parse.
    """

    job: str
    files: tuple[WrittenFile, ...] = attrs.field(repr=lambda files: f"<{len(files)}>")
    ends: Mapping[TopicPartition, int]
    splits: int
    resumed: int = 0
    dead_letters: tuple[WrittenFile, ...] = attrs.field(default=(), repr=lambda files: f"<{len(files)}>")

    @property
    def rows(self) -> int:
        """Records in all files of the table."""
        return sum(file.rows for file in self.files)

    @property
    def unreadable(self) -> int:
        """Records in all files of dead letters."""
        return sum(file.rows for file in self.dead_letters)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_in_bytes for file in self.files)

    def starting_offsets(self, partitions: Mapping[str, int] | None = None) -> str:
        """The option ``startingOffsets`` of ``format("kafka-remote")`` and ``format("kafka")`` for a stream from here on.

        ``partitions``: the number of partitions of each topic, because these formats need all of them. Partitions without
        tiered records are read from their beginning.
        """
        found: dict[str, dict[str, int]] = {}
        for topic, count in (partitions or {}).items():
            found[topic] = {str(number): _EARLIEST for number in range(count)}
        for partition, end in self.ends.items():
            found.setdefault(partition.topic, {})[str(partition.partition)] = end
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False)

    def commit_to_group(self, group: str, config: Mapping[str, Any]) -> None:
        """Commits the ends for a consumer group, so that its members continue here.

        ``config``: librdkafka's settings, ``bootstrap.servers`` at least. No member of the group may be running.

        Raises ConfigurationError for settings that librdkafka rejects. Raises ExportError if the cluster does not commit, and
        for a group that has committed a later offset: it would read those records again. The table is complete in any case.
        """
        if not self.ends:
            return
        try:
            admin = AdminClient(dict(config))
        except KafkaException as error:
            raise ConfigurationError(f"cannot commit offsets for group {group}: {error.args[0].str()}") from None
        asked = ConsumerGroupTopicPartitions(group, [CommittedPartition(*one) for one in self.ends])
        request = ConsumerGroupTopicPartitions(group, [CommittedPartition(*one, end) for one, end in self.ends.items()])
        try:
            known = admin.list_consumer_group_offsets([asked], request_timeout=_TIMEOUT_SECONDS)[group].result()
            self._check_behind(group, known.topic_partitions)
            done = admin.alter_consumer_group_offsets([request], request_timeout=_TIMEOUT_SECONDS)[group].result()
        except KafkaException as error:
            raise ExportError(
                f"cannot commit offsets for group {group}: {error.args[0].str()}; stop its members, then call this again"
            ) from error
        refused = [f"{one.topic}-{one.partition}: {one.error.str()}" for one in done.topic_partitions if one.error is not None]
        if refused:
            raise ExportError(f"cannot commit offsets for group {group}: {', '.join(refused)}")

    def _check_behind(self, group: str, committed: Iterable[CommittedPartition]) -> None:
        """Raises ExportError if a committed offset is past the export: a job that is done may be repeated weeks later."""
        reached = {TopicPartition(one.topic, one.partition): one.offset for one in committed}
        past = [
            f"{partition} at {offset}, where the export ends at {self.ends[partition]}"
            for partition, offset in reached.items()
            if offset > self.ends[partition]
        ]
        if past:
            raise ExportError(
                f"cannot commit offsets for group {group}: it has read past the export ({'; '.join(past)}); "
                "delete its offsets to send it back, or name another group"
            )
