from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.model import EpochEntry, RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.time_index import NO_TIMESTAMP, TimeIndex
from kafka_remote_client.verify import segment as checker
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.layout_inspectors import PlainInspector
from kafka_remote_client.verify.log_walk import LogEnd
from kafka_remote_client.verify.segment import SegmentReport, check_segment, finding_of
from kafka_remote_client.verify.stored_segment import LOG, OpenSegment, StoredSegment
from tests.support.tier import Tier, batch, checkpoint, metadata, offset_entries, time_entries

TOLD = metadata(100, 199, epochs=[(1, 100), (4, 150)])
LISTED = ListedSegment(TOLD.remote_log_segment_id, 100, {})
STORED = StoredSegment(LISTED, {"log": "the.log", "index": "the.index"}, {"log": 1000, "index": 24})
LINEAGE = LeaderEpochLineage([EpochEntry(0, 0), EpochEntry(1, 90), EpochEntry(4, 150), EpochEntry(6, 250), EpochEntry(8, 300)])


def described(end: int) -> RemoteLogSegmentMetadata:
    return attrs.evolve(TOLD, end_offset=end)


def epochs(metadata: RemoteLogSegmentMetadata | None) -> list[tuple[int, int]]:
    assert metadata is not None
    return [(entry.epoch, entry.start_offset) for entry in metadata.segment_leader_epochs]


def opened() -> OpenSegment:
    found = OpenSegment()
    found.roles.update({ObjectKind.OFFSET_INDEX: "index", ObjectKind.TIME_INDEX: "times", ObjectKind.LEADER_EPOCH: "epochs"})
    return found


def problems(found: OpenSegment) -> list[tuple[str, FindingKind]]:
    return [(role, problem.kind) for role, problem in found.problems]


def test_a_segment_of_unknown_end_ends_where_the_next_one_starts() -> None:
    report = SegmentReport(STORED, described=described(120), open_lineage=LINEAGE)
    reaching = report.ending_before(301)
    assert reaching is not None
    assert (reaching.start_offset, reaching.end_offset) == (100, 300)
    assert epochs(reaching) == [(1, 100), (4, 150), (6, 250), (8, 300)]
    assert epochs(report.ending_before(300)) == [(1, 100), (4, 150), (6, 250)]
    assert attrs.evolve(report, described=described(160)).ending_before(110) == attrs.evolve(
        described(160), segment_leader_epochs=(EpochEntry(1, 100), EpochEntry(4, 150))
    )


def test_a_known_end_or_a_missing_next_segment_changes_nothing() -> None:
    known = described(120)
    assert SegmentReport(STORED, described=known, open_lineage=LINEAGE).ending_before(None) is known
    assert SegmentReport(STORED, described=known).ending_before(301) is known
    assert SegmentReport(STORED, open_lineage=LINEAGE).ending_before(301) is None


@pytest.mark.parametrize(
    ("role", "size", "expected"), [("log", None, 1000), ("log", 7, 7), ("txn", None, 0), (None, None, 1024), ("index", 0, 0)]
)
def test_a_finding_affects_the_bytes_of_its_range_object_or_segment(role: str | None, size: int | None, expected: int) -> None:
    found = finding_of(STORED, role, Problem(FindingKind.LOG_CUT, "cut", 40, 150, size))
    assert found.bytes == expected
    assert found.object_key == {"log": "the.log", "index": "the.index"}.get(role or "")
    assert (found.kind, found.message, found.position, found.offset) == (FindingKind.LOG_CUT, "cut", 40, 150)
    assert (found.topic_id_partition, found.start_offset) == (TOLD.topic_id_partition, 100)
    assert found.segment_id == TOLD.remote_log_segment_id


@pytest.mark.parametrize(
    ("last", "highest", "gaps", "count"),
    [
        (199, 5000, False, 0),
        (198, 5000, False, 1),
        (198, 5000, True, 0),
        (199, 4999, False, 1),
        (199, 5001, True, 1),
        (198, 4999, False, 2),
        (199, NO_TIMESTAMP, False, 0),
    ],
)
def test_the_end_of_the_log_is_compared_with_the_metadata(last: int, highest: int, gaps: bool, count: int) -> None:
    found = opened()
    end = LogEnd(whole=True, next_offset=last + 1, batches=3)
    checker._compare_end(found, attrs.evolve(TOLD, max_timestamp_ms=5000), end, highest, allow_offset_gaps=gaps)
    assert problems(found) == [(LOG, FindingKind.METADATA_MISMATCH)] * count
    unknown = opened()
    checker._compare_end(unknown, attrs.evolve(TOLD, max_timestamp_ms=-1), end, highest, allow_offset_gaps=True)
    assert problems(unknown) == []


@pytest.mark.parametrize("changes", [{"start_offset": 99}, {"end_offset": 198}, {"max_timestamp_ms": 1}])
def test_manifest_and_metadata_topic_must_agree(changes: dict[str, int]) -> None:
    found = opened()
    checker._compare(TOLD, attrs.evolve(TOLD, segment_size_in_bytes=7, broker_id=9), found)
    assert problems(found) == []
    checker._compare(TOLD, attrs.evolve(TOLD, **changes), found)
    assert problems(found) == [("manifest", FindingKind.METADATA_MISMATCH)]


def test_without_the_log_indexes_are_compared_with_the_metadata() -> None:
    told = attrs.evolve(TOLD, max_timestamp_ms=5000, segment_size_in_bytes=1000)
    sound = checker._Indexes(
        offsets=OffsetIndex(offset_entries((50, 500)), 100), times=TimeIndex(time_entries((5000, 60)), 100), lineage=LINEAGE
    )
    found = opened()
    checker._compare_without_log(found, sound, told)
    checker._compare_without_log(found, checker._Indexes(), told)
    checker._compare_without_log(found, checker._Indexes(times=TimeIndex(b"", 100)), told)
    assert problems(found) == []
    wrong = checker._Indexes(
        offsets=OffsetIndex(offset_entries((50, 1000)), 100),
        times=TimeIndex(time_entries((5001, 60)), 100),
        lineage=LeaderEpochLineage([EpochEntry(1, 90), EpochEntry(4, 151)]),
    )
    checker._compare_without_log(found, wrong, None)
    assert problems(found) == []
    checker._compare_without_log(found, wrong, told)
    assert problems(found) == [
        ("index", FindingKind.OFFSET_INDEX_MISMATCH),
        ("times", FindingKind.TIME_INDEX_MISMATCH),
        ("epochs", FindingKind.LEADER_EPOCHS_MISMATCH),
    ]


def test_without_metadata_the_files_describe_the_segment() -> None:
    indexes = checker._Indexes(
        OffsetIndex(offset_entries((50, 500)), 100), TimeIndex(time_entries((5000, 60)), 100), lineage=LINEAGE
    )
    assert checker._derived(STORED, checker._Indexes(), 100) is None
    assert checker._last_offset(STORED, indexes, None) == 160
    open_ended = checker._derived(STORED, indexes, 160)
    assert open_ended is not None
    assert (open_ended.start_offset, open_ended.end_offset, open_ended.segment_size_in_bytes) == (100, 160, 1000)
    assert epochs(open_ended) == [(1, 100), (4, 150)]
    assert checker._last_offset(STORED, indexes, LogEnd(whole=True, next_offset=251, batches=3)) == 250
    walked = checker._derived(STORED, indexes, 250)
    assert walked is not None
    assert (walked.end_offset, epochs(walked)) == (250, [(1, 100), (4, 150), (6, 250)])
    assert checker._last_offset(STORED, checker._Indexes(lineage=LINEAGE), None) == 100
    assert epochs(checker._derived(STORED, checker._Indexes(lineage=LINEAGE), 100)) == [(1, 100)]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("told", [False, True])
def test_a_lineage_may_begin_inside_a_segment(quick: bool, told: bool) -> None:
    tier = Tier()
    deleted_to = [(0, 13)]
    claim = tier.add([batch(0, 10), batch(10, 10)], number=1, indexed=[1], epochs=deleted_to, lineage=deleted_to)
    form = PlainInspector(LocalTieredStorageLayout())
    (stored,) = form.segments(tier.store)
    report = check_segment(form, tier.store, stored, claim if told else None, quick=quick)
    assert report.findings == ()
    assert epochs(report.described) == deleted_to
    tier.put(claim, ObjectKind.LEADER_EPOCH, checkpoint((0, 20)))
    late = check_segment(form, tier.store, stored, claim if told else None, quick=quick)
    assert FindingKind.LEADER_EPOCHS_MISMATCH in {finding.kind for finding in late.findings}
    assert late.described is None


def test_claims_of_epochs_are_in_the_order_of_their_sources() -> None:
    claims = checker._claims(TOLD, described(120), LINEAGE)
    assert [claim.by for claim in claims] == ["the metadata topic", "the manifest", "the checkpoint"]
    assert [claim.kind for claim in claims] == [FindingKind.METADATA_MISMATCH] * 2 + [FindingKind.LEADER_EPOCHS_MISMATCH]
    assert checker._claims(None, None, None) == []
