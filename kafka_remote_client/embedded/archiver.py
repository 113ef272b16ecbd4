"""Copies a mock broker's segments to a directory, as the RemoteLogManager of a real broker does for its leaders.

It fetches batches unchanged, collects them until a segment is full, and writes them as LocalTieredStorage does. The files are
written before the two metadata events, so that readers of the metadata find the files.

References: KIP-405; Kafka's RemoteLogManager.copyLogSegmentsToRemote, LocalTieredStorage.
"""

from __future__ import annotations

import threading
from pathlib import Path

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.embedded.log import EmbeddedLogs
from kafka_remote_client.embedded.segment_files import SegmentFiles, segment_files
from kafka_remote_client.errors import LocationError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentState, TopicIdPartition, random_uuid
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.records.input_stream import RemoteLogInputStream
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layout import ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.shim.config import Address
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["Archiver"]

_FETCH_VERSION = 12
_METADATA_VERSION = 12
_FETCH_BYTES = 64 << 20
_CONNECT_SECONDS = 5.0
_STEP_SECONDS = 60.0


@attrs.define
class _ActiveSegment:
    """Batches that were copied from the broker and are not yet a segment of the tier."""

    next_offset: int = 0
    lineage: list[EpochEntry] = attrs.field(factory=list)
    log: bytearray = attrs.field(factory=bytearray, repr=False)


class Archiver:
    """Copies all topics of the broker at ``address`` into ``directory``. Thread safe; one step runs at a time.

    ``store`` receives the metadata of each segment, ``logs`` its batches.

    ``segment_bytes``: a segment is rolled if the next batch would make it larger. ``keep_open`` of :meth:`step`: the last,
    unfinished segment of each partition stays on the broker, as with a real broker.
    """

    def __init__(
        self,
        address: Address,
        directory: Path,
        layout: ObjectLayout,
        store: RemoteLogMetadataStore,
        logs: EmbeddedLogs,
        clock: Clock,
        *,
        segment_bytes: int,
        index_interval: int = 4096,
    ) -> None:
        host, port = address
        self._connection = BrokerConnection(
            host, port, client_id="kafka-remote-archiver", clock=clock, connect_timeout=_CONNECT_SECONDS
        )
        self._directory = directory
        self._layout = layout
        self._store = store
        self._logs = logs
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._index_interval = index_interval
        self._active: dict[TopicIdPartition, _ActiveSegment] = {}
        self._lock = threading.Lock()

    def step(self, *, keep_open: bool = True) -> int:
        """Copies new batches of the broker. Returns the number of segments written.

        Raises LocationError, also if the broker has dropped records that were not copied, ProtocolError, and OSError.
        """
        with self._lock:
            deadline = Deadline(self._clock, _STEP_SECONDS)
            for tip in self._partitions(deadline):
                self._active.setdefault(tip, _ActiveSegment())
            written = 0
            while (rolled := self._copy_batches(deadline)) is not None:
                written += rolled
            if not keep_open:
                written += sum(self._roll(tip, active) for tip, active in self._active.items())
            return written

    def close(self) -> None:
        """Closes the connection to the broker."""
        self._connection.close()

    def _partitions(self, deadline: Deadline) -> list[TopicIdPartition]:
        request = metadata.encode_request(metadata.MetadataRequest(None), _METADATA_VERSION)
        body = self._connection.send_receive(ApiKey.METADATA, _METADATA_VERSION, request, deadline)
        return [
            TopicIdPartition(topic.topic_id, topic.name, partition.partition_index)
            for topic in metadata.decode_response(body, _METADATA_VERSION).topics
            if topic.name not in {None, METADATA_TOPIC} and topic.topic_id != ZERO_UUID and not topic.is_internal
            for partition in topic.partitions
        ]

    def _copy_batches(self, deadline: Deadline) -> int | None:
        """Sends one Fetch for all partitions. Returns the number of rolled segments, ``None`` if there were no new batches."""
        topics: dict[str, list[fetch.FetchPartition]] = {}
        by_name: dict[tuple[str, int], TopicIdPartition] = {}
        for tip, active in self._active.items():
            by_name[tip.topic, tip.partition] = tip
            topics.setdefault(tip.topic, []).append(fetch.FetchPartition(tip.partition, active.next_offset, _FETCH_BYTES))
        asked = tuple(fetch.FetchTopic(tuple(partitions), topic) for topic, partitions in topics.items())
        request = fetch.encode_request(fetch.FetchRequest(asked, max_bytes=_FETCH_BYTES), _FETCH_VERSION)
        body = self._connection.send_receive(ApiKey.FETCH, _FETCH_VERSION, request, deadline)
        rolled, progress = 0, False
        for topic in fetch.decode_response(body, _FETCH_VERSION).responses:
            for data in topic.partitions:
                if data.error_code:
                    raise LocationError(f"the broker returned error {data.error_code} for {topic.topic}-{data.partition_index}")
                if data.records:
                    progress = True
                    rolled += self._append(by_name[topic.topic, data.partition_index], memoryview(data.records))
        return rolled if progress else None

    def _append(self, tip: TopicIdPartition, records: memoryview) -> int:
        active, rolled = self._active[tip], 0
        for batch in RemoteLogInputStream(records):
            if active.log and len(active.log) + batch.size > self._segment_bytes:
                rolled += self._roll(tip, active)
            active.log += records[batch.position : batch.end]
            active.next_offset = batch.last_offset + 1
            if not active.lineage or batch.leader_epoch > active.lineage[-1].epoch:
                active.lineage.append(EpochEntry(batch.leader_epoch, batch.base_offset))
        return rolled

    def _roll(self, tip: TopicIdPartition, active: _ActiveSegment) -> int:
        if not active.log:
            return 0
        made = segment_files(
            RemoteLogSegmentId(tip, random_uuid()),
            bytes(active.log),
            active.lineage,
            broker_id=0,
            event_timestamp_ms=self._clock.time_ms(),
            index_interval=self._index_interval,
        )
        self._write(made)
        active.log.clear()
        return 1

    def _write(self, made: SegmentFiles) -> None:
        for kind, content in made.objects.items():
            path = self._directory / self._layout.object_key(made.metadata, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        segment = made.metadata
        self._store.apply(segment)
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        self._store.apply(
            RemoteLogSegmentMetadataUpdate(
                segment.remote_log_segment_id, segment.broker_id, segment.event_timestamp_ms, finished
            )
        )
        path = self._directory / self._layout.object_key(segment, ObjectKind.LOG)
        self._logs.append(segment.remote_log_segment_id.topic_id_partition, path, made.objects[ObjectKind.LOG])
