"""Vectors: the file is what ``StorageTool format`` of Kafka 4.3.1 wrote; the records are what its MetadataRecordSerde wrote."""

import struct
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.records import RemoteLogInputStream, read_batches
from kafka_remote_client.restore.bootstrap_checkpoint import (
    RestoredPartition,
    RestoredTopic,
    has_topics,
    metadata_records,
    with_records,
)
from tests.support.batches import Rec, batch, control_batch
from tests.support.new_node import FORMATTED

RECORDS = [
    "010200076f726465727300112233445566778899aabbccddeeff00",
    "0103010000000300112233445566778899aabbccddeeff020000000702000000070101000000070000000500000000020102030405060708"
    "111213141516171800",
    "01040002076f72646572730d726574656e74696f6e2e6d73032d3100",
    "010f0000000007ffffffffffffffff00000000000f4a1a00",
]
DIRECTORIES = {7: UUID("01020304050607081112131415161718")}
PARTITION = RestoredPartition(3, 5, (7,))
TOPIC = RestoredTopic("orders", UUID("00112233445566778899aabbccddeeff"), (PARTITION,), {"retention.ms": "-1"})


def values_of(data: bytes) -> list[bytes | None]:
    return [value for block in [read_batches(data)] for *_, value, _ in block.rows()]


def test_writes_records_as_kafka_does() -> None:
    assert [record.hex() for record in metadata_records([TOPIC], DIRECTORIES, 1_002_010)] == RECORDS


def test_names_all_replicas_and_their_folders() -> None:
    directories = {2: UUID(int=2), 9: UUID(int=9), 4: UUID(int=4)}
    topic = attrs.evolve(TOPIC, partitions=(RestoredPartition(3, 5, (9, 4)),))
    _, partition, _, producer_ids = metadata_records([topic], directories, 1_002_010)
    nodes, folders = struct.pack(">bii", 3, 9, 4), b"\3" + UUID(int=9).bytes + UUID(int=4).bytes
    lead = struct.pack(">bbiii", 1, 1, 9, 5, 0)
    assert partition.endswith(topic.topic_id.bytes + nodes + nodes + lead + folders + b"\0")
    assert producer_ids[3:7] == struct.pack(">i", 2)


def test_adds_records_before_the_footer() -> None:
    records = metadata_records([TOPIC], DIRECTORIES, 1_002_010)
    written = with_records(FORMATTED, records)
    batches = list(RemoteLogInputStream(written).batches)
    assert [one.is_control for one in batches] == [True, False, False, True]
    assert [(one.base_offset, one.last_offset) for one in batches] == [(0, 0), (1, 6), (7, 10), (11, 11)]
    assert {one.leader_epoch for one in batches[1:]} == {batches[1].leader_epoch}
    assert batches[2].base_timestamp == batches[2].max_timestamp == batches[1].base_timestamp
    added = written[batches[2].position : batches[2].end]
    assert values_of(added) == records
    assert written.startswith(FORMATTED[: batches[1].end])
    assert written[batches[3].position + 8 :] == FORMATTED[-len(written[batches[3].position + 8 :]) :]


def test_splits_many_records_into_batches() -> None:
    records = [b"\1\2\0%d" % number for number in range(2001)]
    batches = list(RemoteLogInputStream(with_records(FORMATTED, records)).batches)
    assert [one.record_count for one in batches[2:-1]] == [1000, 1000, 1]
    assert batches[-1].base_offset == 7 + 2001


def test_knows_whether_it_has_topics() -> None:
    assert not has_topics(FORMATTED)
    assert not has_topics(with_records(FORMATTED, metadata_records([], DIRECTORIES, 5)))
    assert has_topics(with_records(FORMATTED, metadata_records([TOPIC], DIRECTORIES, 5)))


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        (FORMATTED[:-1], "it ends within a batch"),
        (FORMATTED[:200] + b"\xff" + FORMATTED[201:], "is damaged"),
        (b"", "not a KRaft snapshot"),
        (batch(0), "not a KRaft snapshot"),
        (control_batch(0, -1, 4) + control_batch(1, -1, 4), "not a KRaft snapshot"),
        (control_batch(0, -1, 4) + batch(1), "not a KRaft snapshot"),
    ],
)
def test_refuses_a_file_of_another_form(checkpoint: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        with_records(checkpoint, [])


@pytest.mark.parametrize(
    ("middle", "said"),
    [
        (batch(1, [Rec(value=None)]), "a record of another form"),
        (batch(1, [Rec(value=b"\1\2")]), "a record of another form"),
        (batch(1, [Rec(value=b"\2\2\0abc")]), "a record of another form"),
        (batch(1, b"\x7f", count=1), "is damaged"),
    ],
)
def test_refuses_records_of_another_form(middle: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        has_topics(control_batch(0, -1, 4) + middle + control_batch(2, -1, 4))
