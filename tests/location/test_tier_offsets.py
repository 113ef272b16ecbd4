"""One ListOffsets request for each end of the tiers, with all partitions of a leader."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import BrokerResponseError
from kafka_remote_client.location.cluster_metadata import PartitionLeader
from kafka_remote_client.location.tier_offsets import leader_offsets, partition_offsets
from kafka_remote_client.model import IsolationLevel, PartitionOffsets
from kafka_remote_client.protocol import list_offsets
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetSpec,
)
from kafka_remote_client.protocol.peer import PeerSession

LEADER = PartitionLeader(UUID(int=1), 4, ("localhost", 1))
VERSION = 9


class Session:
    """A leader that refuses partition 1 of each topic. Records the partitions of each request."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.levels: list[int] = []

    def best_version(self, *_: Any) -> int:
        return VERSION

    def call(self, _api: Any, version: int, body: bytes, _deadline: Deadline) -> bytes:
        request = list_offsets.decode_request(body, version)
        topics = request.topics
        self.levels.append(request.isolation_level)
        self.asked.append([partition.partition_index for topic in topics for partition in topic.partitions])
        answers = [
            ListOffsetsTopicResponse(
                topic.name,
                tuple(
                    ListOffsetsPartitionResponse(
                        partition.partition_index,
                        ErrorCode.TOPIC_AUTHORIZATION_FAILED if partition.partition_index == 1 else ErrorCode.NONE,
                        offset=100 * len(self.asked) + partition.partition_index,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ]
        return list_offsets.encode_response(ListOffsetsResponse(tuple(answers)), version)


def test_a_partition_with_an_error_is_left_out_of_later_requests() -> None:
    session = Session()
    led = {("t", number): LEADER for number in range(3)}
    found = partition_offsets(cast("PeerSession", session), led, Deadline(SystemClock(), 60.0))
    assert isinstance(found["t", 1], BrokerResponseError)
    assert (found["t", 0], found["t", 2]) == (PartitionOffsets(100, 200, 300, 400), PartitionOffsets(102, 202, 302, 402))
    assert session.asked == [[0, 1, 2], [0, 2], [0, 2], [0, 2]]


def test_the_end_is_that_of_the_isolation_level() -> None:
    session, deadline = Session(), Deadline(SystemClock(), 60.0)
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        leader_offsets(cast("PeerSession", session), OffsetSpec.LATEST, {("t", 0): LEADER}, deadline, level)
    assert session.levels == [1, 0]
