"""Requests that confluent-kafka does not make, through kio: to one broker, with special timestamps, with given batches.

Tests use this instead of ``kafka_remote_client.protocol``, so that the check is independent of the product.

References: KIP-405 and KIP-1005 (timestamps -4 and -5).
"""

from __future__ import annotations

import io
import socket
import struct
from datetime import timedelta
from typing import Any, Final

from kio.schema.list_offsets.v9 import request as rq
from kio.schema.list_offsets.v9 import response as rs
from kio.schema.metadata.v12 import request as metadata_rq
from kio.schema.metadata.v12 import response as metadata_rs
from kio.schema.produce.v9 import request as produce_rq
from kio.schema.produce.v9 import response as produce_rs
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64

__all__ = ["EARLIEST", "EARLIEST_LOCAL", "LATEST", "LATEST_TIERED", "brokers", "leader", "list_offsets", "produce_batch"]

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


def list_offsets(host: str, port: int, topic: str, partition: int, timestamp: int, *, read_committed: bool = False) -> int:
    """The offset for ``timestamp``; -1 when there is none. Raises RuntimeError for an error code."""
    asked = rq.ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp))
    body = rq.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(int(read_committed)),
        topics=(rq.ListOffsetsTopic(name=TopicName(topic), partitions=(asked,)),),
    )
    response = _answered(host, port, body, rs.ListOffsetsResponse)
    (answer,) = response.topics[0].partitions
    if int(answer.error_code.value):
        raise RuntimeError(f"ListOffsets({timestamp}) of {topic}-{partition}: {answer.error_code!r}")
    return int(answer.offset)


def leader(host: str, port: int, topic: str, partition: int) -> int:
    """Returns the leader that this broker knows; -1 if it knows no topic, no partition or no leader."""
    asked = metadata_rq.MetadataRequestTopic(name=TopicName(topic), topic_id=None)
    (known,) = _metadata(host, port, asked).topics
    return next((int(one.leader_id) for one in known.partitions if one.partition_index == partition), -1)


def brokers(host: str, port: int) -> set[int]:
    """Returns the ids of the brokers that this broker knows."""
    return {int(one.node_id) for one in _metadata(host, port).brokers}


def _metadata(host: str, port: int, *topics: metadata_rq.MetadataRequestTopic) -> metadata_rs.MetadataResponse:
    body = metadata_rq.MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    answer: metadata_rs.MetadataResponse = _answered(host, port, body, metadata_rs.MetadataResponse)
    return answer


def produce_batch(host: str, port: int, topic: str, partition: int, batch: bytes) -> int:
    """The offset that the broker gives to a batch, with acks=all. Raises RuntimeError for an error code."""
    data = produce_rq.PartitionProduceData(index=i32(partition), records=Records(batch))
    body = produce_rq.ProduceRequest(
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=60)),
        topic_data=(produce_rq.TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )
    response = _answered(host, port, body, produce_rs.ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    if int(answer.error_code.value):
        raise RuntimeError(f"Produce to {topic}-{partition}: {answer.error_code!r}")
    return int(answer.base_offset)


def _answered(host: str, port: int, body: Any, response: Any) -> Any:
    header = RequestHeader(
        request_api_key=body.__api_key__,
        request_api_version=body.__version__,
        correlation_id=i32(1),
        client_id="tests",
    )
    out = io.BytesIO()
    entity_writer(RequestHeader)(out, header)
    entity_writer(type(body))(out, body)
    # Response header v1: correlation id and an empty section of tags.
    return entity_reader(response)(_exchange(host, port, out.getvalue()), 5)[0]


def _exchange(host: str, port: int, request: bytes) -> bytes:
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        stream = connection.makefile("rb")
        with stream:
            size = stream.read(4)
            answer = stream.read(*struct.unpack(">i", size)) if len(size) == 4 else b""
    if not answer:
        raise ConnectionError(f"{host}:{port} closed the connection without an answer")
    return answer
