from collections.abc import Sequence

from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.records import RemoteLogInputStream
from kafka_remote_client.remote_log.transaction_index import TransactionIndex
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.transactions import TransactionsCheck
from tests.support.batches import Rec, abort_marker, batch, commit_marker, control_batch
from tests.support.tier import txn_entries

START = 100


def data(base: int, producer: int) -> bytes:
    return batch(base, [Rec()], attributes=0x10, producer=producer)


def check(
    log: Sequence[bytes | None],
    aborted: Sequence[tuple[int, int, int, int]] | None = (),
    open_transactions: Sequence[tuple[int, int]] | None = None,
    *,
    compacted: bool = False,
) -> list[tuple[FindingKind, str]]:
    """Checks batches with offsets 100, 101, ...; None = a lost batch. ``aborted`` None: the index is unreadable."""
    index = None if aborted is None else TransactionIndex.parse(txn_entries(*aborted), START, START + 999)
    snapshot = None if open_transactions is None else tuple(AbortedTransaction(*one) for one in open_transactions)
    made = TransactionsCheck(index, snapshot, START, compacted=compacted)
    for number, raw in enumerate(log):
        if raw is None:
            made.lost(number, number + 1, START + number, START + number)
        else:
            (header,) = RemoteLogInputStream(raw)
            assert header.base_offset == START + number
            made.batch(header, memoryview(raw))
    assert made.ends_before_index == any(entry[2] >= START + len(log) for entry in aborted or ())
    return [(problem.kind, problem.message) for problem in made.problems()]


ABORTED = [data(100, 7), batch(101, [Rec()]), abort_marker(102, 7)]
COMMITTED = [data(100, 7), commit_marker(101, 7)]


def kinds(*args: object) -> list[FindingKind]:
    return [kind for kind, _ in check(*args)]


INDEX, SNAPSHOT = FindingKind.TRANSACTION_INDEX_MISMATCH, FindingKind.PRODUCER_SNAPSHOT_MISMATCH


def test_an_abort_in_the_index_is_valid() -> None:
    assert check(ABORTED, [(7, 100, 102, 103)], []) == []
    assert check(COMMITTED, [], []) == []


def test_a_transaction_may_have_lost_its_first_records_to_compaction() -> None:
    later = [batch(100, [Rec()]), data(101, 7), abort_marker(102, 7), data(103, 8)]
    files = [(7, 100, 102, 103)], [(8, 100), (9, 101)]
    assert [kind for kind, _ in check(later, *files)] == [INDEX, SNAPSHOT]
    assert check(later, *files, compacted=True) == []
    gone = [batch(100, [Rec()]), batch(101, [Rec()]), abort_marker(102, 7)]
    assert check(gone, [(7, 100, 102, 103)], [], compacted=True) == []
    assert [kind for kind, _ in check(gone, [(7, 100, 102, 103)], [])] == [INDEX]


def test_a_transaction_begins_no_earlier_than_told_despite_compaction() -> None:
    earlier = [data(100, 7), data(101, 8), abort_marker(102, 7)]
    assert [kind for kind, _ in check(earlier, [(7, 101, 102, 103)], [(8, 102)], compacted=True)] == [INDEX, SNAPSHOT]
    assert [kind for kind, _ in check(earlier, [], [], compacted=True)] == [INDEX, SNAPSHOT]


def test_an_abort_missing_from_the_index_is_reported() -> None:
    ((kind, message),) = check(ABORTED)
    assert kind is INDEX
    assert message == "the transaction of producer 7 from offset 100 on, aborted at 102, is not in the index"


def test_a_marker_without_records_needs_no_entry() -> None:
    assert check([abort_marker(100, 7)]) == []


def test_index_entries_without_their_marker_are_reported() -> None:
    assert "there is no marker" in check(ABORTED, [(7, 100, 101, 102), (7, 100, 102, 103)])[0][1]
    assert "that is a COMMIT marker" in check(COMMITTED, [(7, 100, 101, 102)])[0][1]
    assert "that marker is of producer 7" in check(ABORTED, [(8, 100, 102, 103)])[0][1]
    assert "it begins at 100" in check(ABORTED, [(7, 101, 102, 103)])[0][1]
    assert "no such transaction begins there" in check([abort_marker(100, 7)], [(7, 100, 100, 101)])[0][1]
    assert "the log ends before it" in check(ABORTED, [(7, 100, 102, 103), (7, 103, 110, 111)])[0][1]
    assert "its last stable offset 104 is after it" in check(ABORTED, [(7, 100, 102, 104)])[0][1]


def test_a_transaction_may_begin_in_an_earlier_segment_once() -> None:
    assert check(ABORTED, [(7, 40, 102, 103)]) == []
    twice = [data(100, 7), abort_marker(101, 7), data(102, 7), abort_marker(103, 7)]
    assert check(twice, [(7, 40, 101, 102), (7, 102, 103, 104)]) == []
    assert kinds(twice, [(7, 40, 101, 102), (7, 50, 103, 104)]) == [INDEX]


def test_transactions_open_at_the_end_are_in_the_snapshot() -> None:
    still = [data(100, 7), data(101, 8), abort_marker(102, 8)]
    aborted = [(8, 101, 102, 103)]
    assert check(still, aborted, [(7, 100)]) == []
    assert check(still, aborted, [(7, 40), (9, 50)]) == []
    assert kinds(still, aborted, []) == [SNAPSHOT]
    assert kinds(still, aborted, [(7, 101)]) == [SNAPSHOT]
    assert "which is not open in the log" in check(still, aborted, [(7, 100), (8, 101)])[0][1]
    assert "which is not open in the log" in check(still, aborted, [(7, 100), (8, 40)])[0][1]


def test_an_unreadable_index_or_snapshot_is_not_checked() -> None:
    assert check(ABORTED, None) == []
    assert check(ABORTED, [(7, 100, 102, 103)], None) == []


def test_lost_batches_are_not_checked() -> None:
    assert check([None, None, abort_marker(102, 7)], [(7, 100, 102, 103)], [(7, 100)]) == []
    assert check([*ABORTED[:2], None], [(7, 100, 102, 103)], []) == []
    assert kinds([*ABORTED, None], [(7, 100, 101, 102), (7, 100, 102, 103)]) == [INDEX]


def test_an_entry_after_lost_batches_is_checked() -> None:
    log = [data(100, 7), None, data(102, 8), abort_marker(103, 8)]
    assert check(log, [(7, 100, 101, 102), (8, 102, 103, 104)]) == []
    assert kinds(log, [(7, 100, 101, 102)]) == [INDEX]


def test_control_batches_that_end_no_transaction_are_skipped() -> None:
    leader_change = control_batch(100, 7, 2)
    broken = control_batch(101, 7, 0, key=b"\0")
    assert check([leader_change, broken]) == []
