from __future__ import annotations

import pytest

from kafka_remote_client.remote_log.layout import ListedSegment
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.stored_segment import LOG, MAX_INDEX_BYTES, PIECE_BYTES, OpenSegment, PlainLog, StoredSegment
from tests.support.tier import MemoryStore, metadata

_MIB = 1024 * 1024
_KEYS = {role: f"{role}-key" for role in ("log", "indexes", "snapshot", "manifest")}


def stored(*there: str) -> StoredSegment:
    listed = ListedSegment(metadata(0, 9).remote_log_segment_id, 0, {})
    return StoredSegment(listed, _KEYS, dict.fromkeys(there, 10), optional=frozenset({"snapshot"}))


@pytest.mark.parametrize(
    ("there", "missing", "is_front"),
    [
        (("log", "indexes", "manifest"), (), True),
        (("log", "indexes", "snapshot"), ("manifest",), True),
        (("log",), ("indexes", "manifest"), True),
        ((), ("log", "indexes", "manifest"), True),
        (("log", "manifest"), ("indexes",), False),
        (("manifest",), ("log", "indexes"), False),
    ],
)
def test_an_interrupted_copy_lacks_its_last_objects(there: tuple[str, ...], missing: tuple[str, ...], is_front: bool) -> None:
    segment = stored(*there)
    assert (segment.missing, segment.is_front, segment.nbytes) == (missing, is_front, 10 * len(there))


def test_a_plain_log_is_read_in_pieces() -> None:
    store = MemoryStore()
    store.objects["log"] = bytes(range(10))
    log = PlainLog(store, "log", 8, piece=3)
    assert [log.read(position) for position in (0, 3, 6)] == [b"\0\1\2", b"\3\4\5", b"\6\7"]


def test_pieces_and_indexes_are_bounded() -> None:
    assert (PlainLog(MemoryStore(), "log", 8).piece, PIECE_BYTES) == (4 * _MIB, 4 * _MIB)
    assert MAX_INDEX_BYTES == 256 * _MIB


def test_a_size_that_differs_from_the_declared_one_is_a_problem() -> None:
    found = OpenSegment()
    found.check_log_size(100, 100, "manifest")
    assert found.problems == []
    found.check_log_size(100, 130, "manifest")
    ((role, problem),) = found.problems
    assert (role, problem.kind, problem.size) == (LOG, FindingKind.LOG_SIZE, 30)
    assert problem.message == "the log object has 100 bytes; the manifest says 130"


def test_an_unopened_segment_has_no_data() -> None:
    found = OpenSegment()
    assert (found.log, found.described, found.indexes, found.roles, found.closed) == (None, None, {}, {}, None)
    assert found.log_end_known
