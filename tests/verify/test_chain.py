from collections.abc import Iterable

from kafka_remote_client.model import EpochEntry, uuid_to_text
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.verify.chain import chain_problems, gaps, lineage_of
from kafka_remote_client.verify.finding import FindingKind
from tests.support.tier import TIP, finish, metadata


def lineage(*entries: tuple[int, int]) -> LeaderEpochLineage:
    return LeaderEpochLineage([EpochEntry(epoch, start) for epoch, start in entries])


def cache_of(*segments: object) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache(TIP)
    for segment in segments:
        finish(cache, segment)
    return cache


def found(cache: RemoteLogMetadataCache, line: LeaderEpochLineage, suspect: Iterable[object] = ()) -> list[tuple]:
    return [
        (segment.remote_log_segment_id.id.int, problem.kind) for segment, problem in chain_problems(cache, line, list(suspect))
    ]


def test_a_log_without_gaps_has_no_problem() -> None:
    cache = cache_of(metadata(0, 9, number=1), metadata(10, 19, number=2))
    assert found(cache, lineage((0, 0))) == []
    assert list(gaps(cache, lineage((0, 0)), ())) == []


def test_the_copy_finished_first_is_a_duplicate_of_the_other() -> None:
    cache = cache_of(metadata(0, 9, number=1), metadata(0, 9, number=2))
    ((segment, problem),) = chain_problems(cache, lineage((0, 0)))
    assert segment.remote_log_segment_id.id.int == 1
    assert problem.kind is FindingKind.DUPLICATE
    live = next(s for s in cache.list_all_remote_log_segments() if s.remote_log_segment_id.id.int == 2)
    assert uuid_to_text(live.remote_log_segment_id.id) in problem.message


def test_segment_of_an_epoch_without_its_offsets_is_outside_the_lineage() -> None:
    cache = cache_of(
        metadata(0, 9, number=1),
        metadata(10, 19, number=2, epochs=[(1, 10)]),
        metadata(10, 19, number=3, epochs=[(2, 10)]),
    )
    ((segment, problem),) = chain_problems(cache, lineage((0, 0), (2, 10)))
    assert (segment.remote_log_segment_id.id.int, problem.kind) == (2, FindingKind.OUTSIDE_LINEAGE)
    assert "their epochs are 2" in problem.message


def test_a_segment_below_the_first_known_epoch_is_outside_the_lineage() -> None:
    cache = cache_of(metadata(0, 9, number=1), metadata(10, 19, number=2, epochs=[(3, 10)]))
    ((segment, problem),) = chain_problems(cache, lineage((3, 10)))
    assert (segment.remote_log_segment_id.id.int, problem.kind) == (1, FindingKind.OUTSIDE_LINEAGE)
    assert "not known any more" in problem.message


def test_a_segment_partly_covered_by_another_is_live_in_part() -> None:
    cache = cache_of(metadata(0, 14, number=1), metadata(10, 29, number=2))
    assert found(cache, lineage((0, 0))) == [(2, FindingKind.OVERLAP)]
    (suspect,) = [s.remote_log_segment_id for s in cache.list_all_remote_log_segments() if s.start_offset == 0]
    assert found(cache, lineage((0, 0)), [suspect]) == []


def test_a_segment_that_joins_the_log_in_its_middle_is_live() -> None:
    cache = cache_of(
        metadata(0, 9, number=1),
        metadata(5, 19, number=2, epochs=[(1, 5), (2, 10)]),
    )
    assert found(cache, lineage((0, 0), (2, 10))) == []


def test_a_segment_may_share_only_its_last_offset_with_the_log() -> None:
    cache = cache_of(metadata(0, 9, number=1), metadata(5, 10, number=2, epochs=[(1, 5), (2, 10)]))
    assert found(cache, lineage((0, 0), (2, 10))) == []
    behind = cache_of(metadata(0, 9, number=1), metadata(5, 10, number=2, epochs=[(1, 5), (2, 10)]))
    ((_, problem),) = chain_problems(behind, lineage((0, 0), (2, 11)))
    assert problem.kind is FindingKind.OUTSIDE_LINEAGE


def test_a_gap_is_reported_unless_a_finding_explains_it() -> None:
    cache = cache_of(metadata(0, 9, number=1), metadata(20, 29, number=2))
    line = lineage((0, 0))
    ((before, problem),) = gaps(cache, line, ())
    assert before.metadata.start_offset == 0
    assert (problem.kind, problem.offset) == (FindingKind.OFFSET_GAP, 10)
    assert "10 to 19" in problem.message
    assert list(gaps(cache, line, {15})) == []
    assert len(list(gaps(cache, line, {5, 20}))) == 1
    assert list(gaps(cache, line, (), {before.metadata.remote_log_segment_id})) == []


def test_unfinished_and_damaged_copies_are_not_checked() -> None:
    cache = cache_of(metadata(0, 9, number=1), metadata(0, 9, number=2))
    cache.add_copy_in_progress_segment(metadata(0, 9, number=3))
    dead = next(s for s in cache.list_all_remote_log_segments() if s.remote_log_segment_id.id.int == 1)
    assert found(cache, lineage((0, 0)), [dead.remote_log_segment_id]) == []


def test_the_lineage_is_the_newest_checkpoint_and_later_segments() -> None:
    first, second = metadata(0, 9, number=1), metadata(10, 19, number=2)
    third = metadata(20, 29, number=3, epochs=[(0, 20), (5, 25)])
    stale = metadata(30, 39, number=4, epochs=[(4, 30)])
    known = [(first, lineage((0, 0))), (second, lineage((0, 0), (3, 15)))]
    assert lineage_of(known, [first, second, third, stale]) == lineage((0, 0), (3, 15), (4, 30))
    assert lineage_of(known, [first, second, third]) == lineage((0, 0), (3, 15), (5, 25))
    assert lineage_of([], [first]) is None


def test_later_segments_add_only_epochs_that_are_new_to_the_lineage() -> None:
    known = metadata(10, 19, epochs=[(2, 10)])
    later = [metadata(20, 29, number=3, epochs=[(2, 20)]), metadata(30, 39, number=4, epochs=[(2, 30), (3, 35)])]
    told = lineage_of([(known, lineage((0, 0), (2, 10)))], [known, *later])
    assert told is not None
    assert [(entry.epoch, entry.start_offset) for entry in told.entries] == [(0, 0), (2, 10), (3, 35)]
