"""The messages of Kafka that only a broker has to read, as layouts (``protocol/message_layout.py``) of dictionaries.

``flexible`` is the first version with compact lengths and tagged fields (KIP-482). Tagged fields are skipped and never written.
Fetch, ListOffsets, Metadata and ApiVersions are in ``protocol/``.

References: https://kafka.apache.org/protocol#protocol_messages, Kafka's message definitions (``*Request.json``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from kafka_remote_client.protocol.message_layout import Structure, parse_layout
from kafka_remote_client.wire import Buffer, Reader, Writer

__all__ = ["MESSAGES", "Message", "Value"]

Value: TypeAlias = Mapping[str, Any]


@attrs.frozen
class Message:
    """One API: its key, the versions that the cluster speaks, and both layouts."""

    name: str
    key: int
    versions: range
    flexible: int
    request: Structure = attrs.field(converter=parse_layout, repr=False)
    response: Structure = attrs.field(converter=parse_layout, repr=False)

    def is_flexible(self, version: int) -> bool:
        """Whether that version has compact lengths and tagged fields."""
        return version >= self.flexible

    def decode_request(self, data: Buffer, version: int) -> dict[str, Any]:
        """The fields of a request. Raises ProtocolError for bytes that do not follow the layout."""
        reader = Reader(data, flexible=self.is_flexible(version), what=f"the {self.name} request")
        value: dict[str, Any] = self.request.reading(version)(reader)
        reader.expect_end()
        return value

    def encode_response(self, value: Value, version: int) -> bytes:
        """The body of a response. Raises ProtocolError for a value that its type cannot hold, or a field with another name."""
        writer = Writer(flexible=self.is_flexible(version))
        self.response.writing(version)(writer, value)
        return writer.getvalue()


_TXN_PARTITIONS = "topics [name string | partitions [partition int32 | error_code int16]]"

MESSAGES: Mapping[int, Message] = {
    message.key: message
    for message in (
        Message(
            "Produce", 0, range(9), 9,
            "3+ transactional_id string? | acks int16 | timeout_ms int32 | topics [name string"
            " | partitions [partition int32 | records bytes?]]",
            "topics [name string | partitions [partition int32 | error_code int16 | base_offset int64"
            " | 2+ log_append_time_ms int64 | 5+ log_start_offset int64"
            " | 8+ record_errors [batch_index int32 | message string?] | 8+ error_message string?]]"
            " | 1+ throttle_time_ms int32",
        ),
        Message(
            "OffsetCommit", 8, range(2, 8), 8,
            "group_id string | generation_id int32 | member_id string | 7+ group_instance_id string?"
            " | 2-4 retention_time_ms int64 | topics [name string | partitions [partition int32 | offset int64"
            " | 6+ leader_epoch int32 | metadata string?]]",
            f"3+ throttle_time_ms int32 | {_TXN_PARTITIONS}",
        ),
        Message(
            "OffsetFetch", 9, range(1, 6), 6,
            "group_id string | topics? [name string | partitions [int32]]",
            "3+ throttle_time_ms int32 | topics [name string | partitions [partition int32 | offset int64"
            " | 5+ leader_epoch int32 | metadata string? | error_code int16]] | 2+ error_code int16",
        ),
        Message(
            "FindCoordinator", 10, range(3), 3,
            "key string | 1+ key_type int8",
            "1+ throttle_time_ms int32 | error_code int16 | 1+ error_message string? | node_id int32 | host string"
            " | port int32",
        ),
        Message(
            "JoinGroup", 11, range(6), 6,
            "group_id string | session_timeout_ms int32 | 1+ rebalance_timeout_ms int32 | member_id string"
            " | 5+ group_instance_id string? | protocol_type string | protocols [name string | metadata bytes]",
            "2+ throttle_time_ms int32 | error_code int16 | generation_id int32 | protocol_name string | leader string"
            " | member_id string | members [member_id string | 5+ group_instance_id string? | metadata bytes]",
        ),
        Message(
            "Heartbeat", 12, range(4), 4,
            "group_id string | generation_id int32 | member_id string | 3+ group_instance_id string?",
            "1+ throttle_time_ms int32 | error_code int16",
        ),
        Message(
            "LeaveGroup", 13, range(4), 4,
            "group_id string | 0-2 member_id string | 3+ members [member_id string | group_instance_id string?]",
            "1+ throttle_time_ms int32 | error_code int16"
            " | 3+ members [member_id string | group_instance_id string? | error_code int16]",
        ),
        Message(
            "SyncGroup", 14, range(4), 4,
            "group_id string | generation_id int32 | member_id string | 3+ group_instance_id string?"
            " | assignments [member_id string | assignment bytes]",
            "1+ throttle_time_ms int32 | error_code int16 | assignment bytes",
        ),
        Message(
            "CreateTopics", 19, range(5), 5,
            "topics [name string | num_partitions int32 | replication_factor int16"
            " | assignments [partition int32 | brokers [int32]] | configs [name string | value string?]]"
            " | timeout_ms int32 | 1+ validate_only bool",
            "2+ throttle_time_ms int32 | topics [name string | error_code int16 | 1+ error_message string?]",
        ),
        Message(
            "DeleteTopics", 20, range(1, 4), 4,
            "names [string] | timeout_ms int32",
            "1+ throttle_time_ms int32 | topics [name string | error_code int16]",
        ),
        Message(
            "DeleteRecords", 21, range(2), 2,
            "topics [name string | partitions [partition int32 | offset int64]] | timeout_ms int32",
            "throttle_time_ms int32 | topics [name string | partitions [partition int32 | low_watermark int64"
            " | error_code int16]]",
        ),
        Message(
            "InitProducerId", 22, range(2), 2,
            "transactional_id string? | transaction_timeout_ms int32",
            "throttle_time_ms int32 | error_code int16 | producer_id int64 | producer_epoch int16",
        ),
        Message(
            "OffsetForLeaderEpoch", 23, range(2, 4), 4,
            "3+ replica_id int32 | topics [name string | partitions [partition int32 | current_leader_epoch int32"
            " | leader_epoch int32]]",
            "2+ throttle_time_ms int32 | topics [name string | partitions [error_code int16 | partition int32"
            " | leader_epoch int32 | end_offset int64]]",
        ),
        Message(
            "AddPartitionsToTxn", 24, range(3), 3,
            "transactional_id string | producer_id int64 | producer_epoch int16 | topics [name string | partitions [int32]]",
            f"throttle_time_ms int32 | {_TXN_PARTITIONS}",
        ),
        Message(
            "AddOffsetsToTxn", 25, range(3), 3,
            "transactional_id string | producer_id int64 | producer_epoch int16 | group_id string",
            "throttle_time_ms int32 | error_code int16",
        ),
        Message(
            "EndTxn", 26, range(3), 3,
            "transactional_id string | producer_id int64 | producer_epoch int16 | committed bool",
            "throttle_time_ms int32 | error_code int16",
        ),
        Message(
            "TxnOffsetCommit", 28, range(4), 3,
            "transactional_id string | group_id string | producer_id int64 | producer_epoch int16"
            " | 3+ generation_id int32 | 3+ member_id string | 3+ group_instance_id string?"
            " | topics [name string | partitions [partition int32 | offset int64 | 2+ leader_epoch int32 | metadata string?]]",
            f"throttle_time_ms int32 | {_TXN_PARTITIONS}",
        ),
        Message(
            "DescribeConfigs", 32, range(1, 4), 4,
            "resources [type int8 | name string | names? [string]] | include_synonyms bool | 3+ include_documentation bool",
            "throttle_time_ms int32 | results [error_code int16 | error_message string? | type int8 | name string"
            " | configs [name string | value string? | read_only bool | source int8 | sensitive bool"
            " | synonyms [name string | value string? | source int8] | 3+ type int8 | 3+ documentation string?]]",
        ),
        Message(
            "CreatePartitions", 37, range(2), 2,
            "topics [name string | count int32 | assignments? [brokers [int32]]] | timeout_ms int32 | validate_only bool",
            "throttle_time_ms int32 | results [name string | error_code int16 | error_message string?]",
        ),
        Message(
            "IncrementalAlterConfigs", 44, range(1), 1,
            "resources [type int8 | name string | configs [name string | operation int8 | value string?]] | validate_only bool",
            "throttle_time_ms int32 | responses [error_code int16 | error_message string? | type int8 | name string]",
        ),
        Message(
            "DescribeCluster", 60, range(1), 0,
            "include_authorized_operations bool",
            "throttle_time_ms int32 | error_code int16 | error_message string? | cluster_id string | controller_id int32"
            " | brokers [id int32 | host string | port int32 | rack string?] | authorized_operations int32",
        ),
    )
}  # fmt: skip
"""By API key."""
