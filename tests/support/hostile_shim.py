"""A peer that announces direct fetch and changes the answers of a correct shim before it forwards them."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.model import PartitionOffsets, SegmentLocation
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import SegmentGrant, _grant_fields
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.list_offsets import OffsetSpec
from tests.support.fake_broker import FakeBroker
from tests.support.questions import question

__all__ = ["GrantChange", "HostileShim"]

_PATIENCE_SECONDS = 60

GrantChange = Callable[[SegmentGrant, fetch.PartitionData], tuple[SegmentGrant | None, fetch.PartitionData]]


def _unchanged(grant: SegmentGrant, data: fetch.PartitionData) -> tuple[SegmentGrant | None, fetch.PartitionData]:
    return grant, data


class HostileShim(FakeBroker):
    """A shim for partition 0 of topic "t" of the cluster of ``truth``. ``changed_answers`` counts the false answers.

    Tests set ``change_grant``, which changes a grant and the answer around it, and ``change_body``, which changes its bytes.
    """

    def __init__(self, truth: BrokerLocationSource, offsets: PartitionOffsets) -> None:
        super().__init__()
        self._truth = truth
        self.offsets = {
            OffsetSpec.EARLIEST: offsets.log_start,
            OffsetSpec.EARLIEST_LOCAL: offsets.earliest_local,
            OffsetSpec.LATEST_TIERED: offsets.latest_tiered,
            OffsetSpec.LATEST: offsets.high_watermark,
        }
        self.change_grant: GrantChange = _unchanged
        self.change_body: Callable[[bytes], bytes] = bytes
        self.changed_answers = 0

    def located(self, offset: int) -> SegmentLocation:
        """The truth about an offset."""
        deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
        found = locate_one(self._truth, question("t", 0, offset, max_bytes=1 << 20), deadline)
        assert isinstance(found, SegmentLocation), found
        return found

    def _fetch(self, header: RequestHeader, body: bytes) -> bytes:
        version = header.api_version
        request = fetch.decode_request(body, version)
        self.fetches.append((version, request))
        topic = request.topics[0]
        location = self.located(topic.partitions[0].fetch_offset)
        metadata = location.metadata
        grant = SegmentGrant(
            metadata.remote_log_segment_id.id,
            location.format,
            location.ranges,
            metadata.segment_size_in_bytes,
            metadata.start_offset,
            metadata.end_offset,
            metadata.segment_leader_epochs,
            location.next_offset,
            60_000,
        )
        data = fetch.PartitionData(
            topic.partitions[0].partition,
            0,
            location.high_watermark,
            location.last_stable_offset,
            location.log_start_offset,
            aborted_transactions=location.aborted_transactions,
        )

        def encoded(grant: SegmentGrant | None, data: fetch.PartitionData) -> bytes:
            tags = _grant_fields(grant) if grant is not None else {}
            answer = fetch.FetchTopicResponse((attrs.evolve(data, tags=tags),), topic.topic, topic.topic_id)
            return fetch.encode_response(fetch.FetchResponse((answer,)), version)

        answered = self.change_body(encoded(*self.change_grant(grant, data)))
        self.changed_answers += answered != encoded(grant, data)
        return answered
