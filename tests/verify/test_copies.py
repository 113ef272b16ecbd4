from uuid import UUID

import pytest

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentState
from kafka_remote_client.remote_log.layout import ListedSegment
from kafka_remote_client.verify.copies import CopyState, Known, judge_copy
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.stored_segment import StoredSegment
from tests.support.tier import TIP, metadata

ROLES = ("log", "index", "txn", "snapshot")
NOW, GRACE = 1_000_000, 1000
STARTED, FINISHED, DELETING, _ = RemoteLogSegmentState


def stored(*roles: str) -> StoredSegment:
    listed = ListedSegment(RemoteLogSegmentId(TIP, UUID(int=1)), 0, {})
    return StoredSegment(listed, {role: role for role in ROLES}, dict.fromkeys(roles, 10), frozenset({"txn"}))


def known(state: RemoteLogSegmentState | None, *, age: int = GRACE, deleted: bool = False) -> Known:
    told = None if state is None else metadata(0, 9, state=state, event_timestamp_ms=NOW - age)
    return Known(told, deleted, NOW, GRACE)


WHOLE, FRONT, HOLE = stored("log", "index", "snapshot"), stored("log", "index"), stored("index", "snapshot")


@pytest.mark.parametrize(
    ("segment", "told", "expected"),
    [
        (WHOLE, None, CopyState.CHECK),
        (FRONT, None, FindingKind.HALF_COPIED),
        (HOLE, None, FindingKind.MISSING_OBJECT),
        (WHOLE, known(None), FindingKind.ORPHAN_UNKNOWN),
        (FRONT, known(None), FindingKind.ORPHAN_UNKNOWN),
        (WHOLE, known(None, deleted=True), FindingKind.ORPHAN_DELETED),
        (WHOLE, known(STARTED), FindingKind.ORPHAN_UNFINISHED),
        (FRONT, known(STARTED), FindingKind.HALF_COPIED),
        (HOLE, known(STARTED), FindingKind.HALF_COPIED),
        (WHOLE, known(STARTED, age=GRACE - 1), CopyState.BUSY),
        (FRONT, known(STARTED, age=GRACE - 1), CopyState.BUSY),
        (WHOLE, known(FINISHED), CopyState.CHECK),
        (FRONT, known(FINISHED), FindingKind.MISSING_OBJECT),
        (HOLE, known(FINISHED, age=0), FindingKind.MISSING_OBJECT),
        (WHOLE, known(DELETING), FindingKind.ORPHAN_DELETED),
        (HOLE, known(DELETING), FindingKind.ORPHAN_DELETED),
        (HOLE, known(DELETING, age=0), CopyState.BUSY),
    ],
)
def test_objects_and_metadata_together_give_the_verdict(
    segment: StoredSegment, told: Known | None, expected: CopyState | FindingKind
) -> None:
    verdict = judge_copy(segment, told)
    assert (verdict.kind if isinstance(verdict, Problem) else verdict) is expected


def test_a_missing_optional_object_is_not_reported() -> None:
    assert WHOLE.missing == ()
    assert stored("log").missing == ("index", "snapshot")
    assert (stored("log").is_front, stored("index").is_front, stored().is_front) == (True, False, True)
    assert FRONT.nbytes == 20
