"""Reads give the records of the log, from either tier, and Kafka's special answers.

Fetches of a real broker, the golden ``fetch-txn.jsonl``, judge the lists of aborted transactions.
"""

from __future__ import annotations

from functools import cache
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import AbortedTransaction, IsolationLevel, RemoteLogSegmentMetadata, uuid_to_text
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.tiered_cluster.batches import Batch, Codec, Marker, Record, parse_batches, records_of
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.partition import Crash, Elect, RunCopy
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_cluster.tiered_read import FetchAnswer, read
from tests.support.golden import golden_local, read_jsonl
from tests.support.tier import LAYOUT
from tests.tiered_cluster.golden_logs import replayed, segment_paths
from tests.tiered_cluster.logs import BATCH_BYTES, data, filled, marker, new_log
from tests.tiered_cluster.test_metadata_records import golden_events
from tests.tiered_cluster.world import World

UNCOMMITTED, COMMITTED = IsolationLevel
OUT_OF_RANGE = FetchAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE)


# A real broker's answers.


@cache
def golden_partition() -> tuple[PartitionLog, RemoteSegments]:
    """The log ``txn-0`` as the broker had it, and its metadata."""
    log = replayed("txn-0").replicated()
    log = attrs.evolve(log, segments=log.segments[len(segment_paths("txn-0")) :])
    remote = RemoteSegments()
    for _, _, event in golden_events():
        if event.remote_log_segment_id.topic_id_partition.topic == "txn":
            remote = remote.applied(event)
    return log, remote


def golden_object(segment: RemoteLogSegmentMetadata, kind: FileKind) -> bytes:
    name = f"{segment.start_offset:020d}-{uuid_to_text(segment.remote_log_segment_id.id)}{kind.value}"
    return (segment_paths("txn-0")[0].parent / name).read_bytes()


def test_answers_as_a_real_broker_did() -> None:
    log, remote = golden_partition()
    answers = list(read_jsonl(golden_local() / "fetch-txn.jsonl"))
    assert len(answers) > 100
    for asked in answers:
        assert (log.high_watermark, log.last_stable_offset) == (asked["high_watermark"], asked["last_stable_offset"])
        answer = read(log, remote, golden_object, asked["fetch_offset"], asked["max_bytes"], IsolationLevel(asked["isolation"]))
        assert (answer.error, len(answer.records)) == (asked["error"], asked["records_bytes"]), asked
        expected = asked["aborted"]
        found = None if answer.aborted is None else [[one.producer_id, one.first_offset] for one in answer.aborted]
        assert found == (None if expected is None else sorted(expected, key=lambda one: one[::-1])), asked
        if answer.records:
            assert int.from_bytes(answer.records[:8], "big") == asked["first_batch_base_offset"]


# The model's own tier.


def transactional_log(codec: Codec = Codec.NONE) -> PartitionLog:
    """Aborts whose markers lie in later segments, and in the segment that stays open; one transaction is open."""
    plain, *of = (data(producer=producer, codec=codec) for producer in (-1, 7, 8, 9))
    batches = [of[0], of[1], plain, marker(Marker.ABORT, 7), plain, of[0], marker(Marker.COMMIT, 8)]
    batches += [plain, plain, marker(Marker.ABORT, 7), plain, of[2], plain]
    return new_log(segment_bytes=2 * plain.size).appended(batches, 0).replicated()


def answer_of(
    world: World, offset: int, max_bytes: int = 1, isolation: IsolationLevel = UNCOMMITTED, **more: bool
) -> FetchAnswer:
    return read(world.log, world.partition.remote, world.object, offset, max_bytes, isolation, **more)


def whole_batches(records: bytes) -> list[Batch]:
    """The batches of an answer without the part of one at its end."""
    end = 0
    while len(records) - end >= 12 and (size := 12 + int.from_bytes(records[end + 8 : end + 12], "big")) <= len(records) - end:
        end += size
    return list(parse_batches(records[:end]))


def consumed(world: World, max_bytes: int, isolation: IsolationLevel) -> list[Record]:
    """What a consumer delivers that reads all and drops what the lists of aborted transactions name."""
    offset, out, aborting = world.log.log_start, [], set()
    while batches := whole_batches(answer_of(world, offset, max_bytes, isolation).records):
        pending = list(answer_of(world, offset, max_bytes, isolation).aborted or ())
        for batch in batches:
            while pending and pending[0].first_offset <= batch.last_offset:
                aborting.add(pending.pop(0).producer_id)
            if batch.control:
                aborting.discard(batch.producer_id)
            elif not (batch.transactional and batch.producer_id in aborting):
                out += [record for record in records_of(batch) if record.offset >= offset]
        offset = batches[-1].last_offset + 1
    return out


@pytest.mark.parametrize("max_bytes", [1, BATCH_BYTES + 1, 3 * BATCH_BYTES])
def test_all_records_are_read_across_the_tiers(max_bytes: int) -> None:
    log = transactional_log()
    world = World(attrs.evolve(log, config=attrs.evolve(log.config, local_retention_ms=0)))
    world.copy()
    world.change(world.log.locally_expired(10**6))
    assert 0 < world.log.local_log_start < log.last_stable_offset
    everything = [
        record for segment in log.segments for batch in segment.batches if not batch.control for record in records_of(batch)
    ]
    assert consumed(world, max_bytes, UNCOMMITTED) == everything
    aborted = {*range(10), *range(41, 51)}
    committed = [one for one in everything if one.offset not in aborted and one.offset < log.last_stable_offset]
    assert consumed(world, max_bytes, COMMITTED) == committed


def tiered_world(batches: int = 5) -> World:
    """All sealed segments are in the tier only."""
    world = World(filled(batches, local_retention_ms=0))
    world.copy()
    world.change(world.log.locally_expired(10**6))
    return world


def test_offsets_outside_of_the_log_are_out_of_range() -> None:
    world = tiered_world()
    world.change(world.log.with_log_start(5))
    assert [answer_of(world, offset) for offset in (4, 51)] == [OUT_OF_RANGE, OUT_OF_RANGE]
    assert answer_of(world, 50) == FetchAnswer()
    assert answer_of(world, 50, isolation=COMMITTED) == FetchAnswer(aborted=())


def test_an_offset_without_a_segment_is_out_of_range() -> None:
    world = tiered_world()
    world.partition = attrs.evolve(world.partition, remote=RemoteSegments())
    assert answer_of(world, 5) == OUT_OF_RANGE


def test_an_offset_of_another_epoch_has_no_segment() -> None:
    world = tiered_world()
    world.do(Elect(2, 1))
    lineage = (attrs.evolve(world.log.lineage[0], epoch=9),)
    world.change(attrs.evolve(world.log, lineage=lineage))
    assert answer_of(world, 5) == OUT_OF_RANGE


@pytest.mark.parametrize("offset", [0, 45])
def test_a_first_batch_above_the_limit_needs_the_permission(offset: int) -> None:
    world = tiered_world()
    assert len(answer_of(world, offset).records) == BATCH_BYTES
    assert len(whole_batches(answer_of(world, offset, min_one_message=False).records)) == 0
    assert len(answer_of(world, offset, BATCH_BYTES, min_one_message=False).records) == BATCH_BYTES


def test_a_refused_first_batch_has_no_list() -> None:
    assert answer_of(tiered_world(), 0, isolation=COMMITTED, min_one_message=False) == FetchAnswer()


def test_an_answer_ends_with_its_segment() -> None:
    world = tiered_world()
    assert len(answer_of(world, 10, 10**6).records) == BATCH_BYTES
    assert answer_of(world, 10, isolation=COMMITTED).aborted == ()
    assert len(answer_of(world, 10, BATCH_BYTES - 1).records) == BATCH_BYTES
    assert len(answer_of(world, 0, BATCH_BYTES + 7).records) == BATCH_BYTES + 7


def cut(world: World, start_offset: int, batches: int) -> None:
    """The segment of the tier keeps only its first batches, as compaction could leave it."""
    for key in [key for key in world.objects if key[1] is FileKind.LOG]:
        kept = parse_batches(world.objects[key])
        if kept[0].base_offset == start_offset:
            world.objects[key] = b"".join(batch.data for batch in kept[:batches])


def test_the_next_segment_has_what_a_hole_lacks() -> None:
    world = tiered_world()
    cut(world, 0, 1)
    (batch,) = whole_batches(answer_of(world, 15).records)
    assert batch.base_offset == 20


@pytest.mark.parametrize(("isolation", "aborted"), [(UNCOMMITTED, None), (COMMITTED, ())])
def test_a_hole_at_the_end_of_the_tier_is_empty(
    isolation: IsolationLevel, aborted: tuple[AbortedTransaction, ...] | None
) -> None:
    world = tiered_world()
    cut(world, 20, 1)
    assert answer_of(world, 35, isolation=isolation) == FetchAnswer(aborted=aborted)


def test_uncommitted_reads_end_at_the_high_watermark() -> None:
    log = new_log().appended([data(), data(), data()], 0).replicated(20)
    world = World(log)
    assert [batch.base_offset for batch in whole_batches(answer_of(world, 0, 10**6).records)] == [0, 10]
    assert answer_of(world, 20) == FetchAnswer()


# The client's reader, judged by the model.


@pytest.mark.parametrize("isolation", IsolationLevel)
@pytest.mark.parametrize("codec", Codec)
def test_the_client_reads_the_models_tier(isolation: IsolationLevel, codec: Codec) -> None:
    log = transactional_log(codec)
    world = World(log)
    world.do(RunCopy(10_000, (UUID(int=1),)), 2)  # a copy that a crash leaves without COPY_SEGMENT_FINISHED
    world.do(Crash())
    world.do(Elect(2, 1))
    world.copy()
    tiered_end = world.log.highest_remote_offset + 1
    (following,) = (segment for segment in world.log.segments if segment.base_offset == tiered_end)
    undecided = following.began_with.open_transactions() if isolation is COMMITTED else ()
    end = min(undecided, default=tiered_end)
    expected = [one for one in consumed(world, 10**6, isolation) if one.offset < end]
    store = world.as_store()
    assert len(store.objects) > 5 * len(world.partition.remote.segments) > 0
    with TierReader(store, ListingLocationSource(store, LAYOUT)) as tier:
        blocks = tier.read("orders", 7, isolation_level=isolation).blocks(60.0)
        found = [
            Record(block.offset(n), block.timestamp(n), block.key(n), block.value(n))
            for block in blocks
            if isinstance(block, RecordBlock)
            for n in range(len(block))
        ]
    assert found == expected
    assert len(found) > 20
