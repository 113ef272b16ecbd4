"""A metadata partition says the same before and after compaction, in each schema and phase of KIP-1266."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.remote_log.followed_partition import FollowedPartition, FollowState
from kafka_remote_client.remote_log.metadata_keys import EndOffsetKey, SegmentKey
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.metadata_keys import write_key
from tests.support.tier import TIP, metadata, update

COPYING, COPIED, DELETING, DELETED = RemoteLogSegmentState
RECORDS = 10
serde = RemoteLogMetadataSerde()


class Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


def key_of(schema, event):
    if schema == "segment":
        return SegmentKey(TIP.topic_id, TIP.partition, event.remote_log_segment_id.id, event.state)
    update = not isinstance(event, RemoteLogSegmentMetadata)
    return EndOffsetKey(TIP.topic_id, TIP.topic, TIP.partition, event.end_offset, event.broker_leader_epoch, update)


def written(schema, histories):
    """The records that brokers write for segments, each with the states that it enters one after the other."""
    records = []

    def put(key, value):
        records.append(Record(len(records), None if schema is None else write_key(key), value))

    for number, (place, states) in enumerate(histories, 1):
        started = metadata(RECORDS * place, RECORDS * (place + 1) - 1, number=number, broker_leader_epoch=0)
        if states[0] is not COPYING:
            started = attrs.evolve(started, state=states[0])  # FINISHED without STARTED, as a whole record
        events = [started]
        for state in states[1:]:
            events.append(attrs.evolve(update(started, state), broker_leader_epoch=0, end_offset=started.end_offset))
        for event in events:
            put(key_of(schema, event), serde.serialize(event))
        if states[-1] is DELETED and schema == "segment":
            for state in RemoteLogSegmentState:
                put(key_of(schema, events[0])._replace(state=state), None)
        elif states[-1] is DELETED and schema is not None:
            for is_update in (True, False):
                put(key_of(schema, events[0])._replace(update=is_update), None)
    return records


def compacted(records, end, *, keep_tombstones):
    """What Kafka's cleaner leaves of the records below ``end``, and all others."""
    last = {record.key: record.offset for record in records[:end]}
    kept = [r for r in records[:end] if last[r.key] == r.offset and (keep_tombstones or r.value is not None)]
    return [*(r for r in kept if r.key is not None), *records[end:]]


def replayed(records, end):
    store, partition = RemoteLogMetadataStore(), FollowedPartition(records[0].offset if records else end, end)
    for offset, key, value in records:
        partition.record(offset, keyed=key is not None)
        event = serde.read(key, value)
        store.remove(event) if value is None else store.apply(event, keyed=key is not None)
    partition.end_of_partition(end)
    assert partition.state is FollowState.READY
    return store


def readable(store):
    cache = store.cache(TIP)
    return {} if cache is None else {n: cache.remote_log_segment_metadata(0, n) for n in range(8 * RECORDS)} | {"none": None}


def found(store):
    return {n: segment.remote_log_segment_id.id for n, segment in readable(store).items() if segment is not None}


LIVES = [
    (COPYING,),
    (COPYING, COPIED),
    (COPYING, DELETING, DELETED),
    (COPYING, COPIED, DELETING),
    (COPYING, COPIED, DELETING, DELETED),
]


@pytest.mark.parametrize("schema", ["segment", "end offset"])
@given(st.data())
def test_compaction_changes_nothing_that_can_be_read(schema, data):
    lives = data.draw(st.lists(st.sampled_from(LIVES), min_size=1, max_size=8))
    # A copy that failed is deleted and tried again: the same offsets, another id.
    histories = [entry for n, life in enumerate(lives) for entry in ([(n, LIVES[2])] if n % 3 == 0 else []) + [(n, life)]]
    records = written(schema, histories)
    end = data.draw(st.integers(0, len(records)))
    left = compacted(records, end, keep_tombstones=data.draw(st.booleans()))
    expected = {n for n, life in enumerate(lives) if life == LIVES[1]}
    full = found(replayed(records, len(records)))
    assert {n // RECORDS for n in full} == expected
    assert found(replayed(left, len(records))) == full


def test_phase_0_has_no_keys_and_no_holes():
    records = written(None, [(0, LIVES[1]), (1, LIVES[1])])
    assert {n // RECORDS for n in found(replayed(records, len(records)))} == {0, 1}
    with pytest.raises(RemoteLogMetadataError, match="expected offset 1, got 2"):
        replayed([records[0], *records[2:]], len(records))


@pytest.mark.parametrize("schema", ["segment", "end offset"])
def test_phase_1_mixes_records_with_and_without_keys(schema):
    old = written(None, [(0, LIVES[1])])
    new = written(schema, [(0, LIVES[1]), (1, LIVES[1]), (2, LIVES[1])])[2:]
    mixed = [*old, *new[:2], new[2]._replace(key=None), new[3]]  # brokers are upgraded one after the other
    assert {n // RECORDS for n in found(replayed(mixed, 6))} == {0, 1, 2}
    assert {n // RECORDS for n in found(replayed(mixed[2:], 6))} == {1, 2}  # records without keys expire first


@pytest.mark.parametrize("schema", ["segment", "end offset"])
def test_phase_2_finished_without_started(schema):
    records = written(schema, [(0, LIVES[1]), (1, LIVES[1])])
    store = replayed(records[1:], len(records))
    # The update does not say where the segment begins: its offsets stay with the broker, and nothing else is affected.
    assert {n // RECORDS for n in found(store)} == {1}
    assert store.dropped_events == 1
    whole = written(schema, [(0, (COPIED,)), (1, LIVES[1])])
    assert {n // RECORDS for n in found(replayed(whole, len(whole)))} == {0, 1}


def test_both_schemas_and_none_in_one_partition():
    parts = [written(schema, [(n, LIVES[1]) for n in range(3)]) for schema in (None, "segment", "end offset")]
    records = [*parts[0][:2], *parts[1][2:4], *parts[2][4:]]
    assert found(replayed(records, 6)) == {n: UUID(int=n // RECORDS + 1) for n in range(3 * RECORDS)}
