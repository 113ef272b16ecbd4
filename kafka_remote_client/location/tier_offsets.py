"""Asks one leader for the bounds of both tiers of its partitions: one ListOffsets per bound, for all partitions at once.

References: KIP-405, KIP-1005, KIP-1023.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, ProtocolError
from kafka_remote_client.location.cluster_metadata import Key, PartitionLeader
from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel, PartitionOffsets
from kafka_remote_client.protocol import list_offsets
from kafka_remote_client.protocol.api_keys import LIST_OFFSETS
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic, OffsetSpec
from kafka_remote_client.protocol.peer import PeerSession

__all__ = ["leader_offsets", "partition_offsets"]


def partition_offsets(
    session: PeerSession, led: Mapping[Key, PartitionLeader], deadline: Deadline
) -> dict[Key, PartitionOffsets | DirectFetchError]:
    """The answer for each partition that the peer leads. An end that its version of ListOffsets cannot name is -1.

    Raises LocationError when the connection fails, ProtocolError when an answer leaves a partition out.
    """
    answers: dict[Key, PartitionOffsets | DirectFetchError] = {}
    ends: dict[OffsetSpec, Mapping[Key, int]] = {}
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL, OffsetSpec.LATEST_TIERED, OffsetSpec.LATEST):
        wanted = {key: leader for key, leader in led.items() if key not in answers}
        found = leader_offsets(session, spec, wanted, deadline) if wanted else {}
        answers |= {key: answer for key, answer in found.items() if isinstance(answer, DirectFetchError)}
        ends[spec] = {key: answer for key, answer in found.items() if not isinstance(answer, DirectFetchError)}
    for key in led.keys() - answers.keys():
        answers[key] = PartitionOffsets(
            log_start=ends[OffsetSpec.EARLIEST][key],
            earliest_local=ends[OffsetSpec.EARLIEST_LOCAL][key],
            latest_tiered=ends[OffsetSpec.LATEST_TIERED][key],
            high_watermark=ends[OffsetSpec.LATEST][key],
        )
    return answers


def leader_offsets(
    session: PeerSession,
    spec: OffsetSpec | int,
    led: Mapping[Key, PartitionLeader],
    deadline: Deadline,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Key, int | DirectFetchError]:
    """Returns one bound of each partition that the peer leads. Raises as :func:`partition_offsets`.

    ``spec`` of 0 or more is a time in ms: the offset of the first record with that timestamp or a later one, -1 = none.
    """
    version = session.best_version(LIST_OFFSETS)
    if version is None or (isinstance(spec, OffsetSpec) and version < list_offsets.FIRST_VERSION[spec]):
        return dict.fromkeys(led, UNKNOWN_OFFSET)
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for (topic, partition), leader in led.items():
        topics[topic].append(ListOffsetsPartition(partition, spec, leader.leader_epoch))
    asked = tuple(ListOffsetsTopic(topic, tuple(wanted)) for topic, wanted in topics.items())
    request = ListOffsetsRequest(asked, isolation_level)
    body = session.call(LIST_OFFSETS, version, list_offsets.encode_request(request, version), deadline)
    found: dict[Key, int | DirectFetchError] = {}
    for entry in list_offsets.decode_response(body, version).topics:
        for answer in entry.partitions:
            found[entry.name, answer.partition_index] = _offset(entry.name, answer)
    left_out = led.keys() - found.keys()
    if left_out:
        raise ProtocolError(f"ListOffsets of {len(led)} partitions: the answer is for other partitions")
    return {key: found[key] for key in led}


def _offset(topic: str, answer: list_offsets.ListOffsetsPartitionResponse) -> int | DirectFetchError:
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return UNKNOWN_OFFSET
    if answer.error_code != ErrorCode.NONE:
        return broker_error(answer.error_code, f"ListOffsets of {topic}-{answer.partition_index}")
    return answer.offset
