from collections.abc import Sequence

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.leader_epochs import EpochClaim, LeaderEpochsCheck

NOTHING = memoryview(b"")
WRONG, BATCH = FindingKind.LEADER_EPOCHS_MISMATCH, FindingKind.BATCH_LEADER_EPOCH


def problems(epochs: Sequence[int], *claims: tuple[FindingKind, Sequence[tuple[int, int]]], magic: int = 2) -> list[Problem]:
    """Checks batches: batch n has offset n and the n-th of ``epochs``."""
    made = [EpochClaim(kind.label, kind, LeaderEpochLineage([EpochEntry(*e) for e in told])) for kind, told in claims]
    check = LeaderEpochsCheck(made)
    for number, epoch in enumerate(epochs):
        check.batch(BatchHeader(50 * number, 50, number, number, magic, epoch, 0, 0, 0, -1, 1), NOTHING)
    check.lost(0, 0, 0, 0)
    return check.problems()


def test_batches_with_the_claimed_epochs_have_no_problem() -> None:
    assert problems([0, 0, 2, 2], (WRONG, [(0, 0), (2, 2)])) == []
    assert problems([0, 0]) == []


def test_batches_below_the_first_claimed_epoch_have_it_or_an_earlier_one() -> None:
    assert problems([0, 2, 2, 2], (WRONG, [(2, 2)])) == []
    assert [p.offset for p in problems([0, 3, 2, 2, 2], (WRONG, [(2, 2)]))] == [1]


def test_a_few_batches_with_other_epochs_are_damaged() -> None:
    (one,) = problems([0, 0, 5, 0, 0], (WRONG, [(0, 0)]))
    assert (one.kind, one.position, one.offset, one.size) == (BATCH, 100, 2, 50)
    assert [p.position for p in problems([5, 0, 0, 5, 0], (WRONG, [(0, 0)]))] == [0, 150]


def test_a_claim_that_most_batches_contradict_is_wrong() -> None:
    (one,) = problems([1, 1, 0], (WRONG, [(0, 0)]))
    assert one.kind is WRONG
    assert one.message == f"{WRONG.label}: epoch 0 for offset 0, whose batch has 1 (2 of 3 batches differ)"


def test_a_claim_that_a_run_of_batches_contradicts_is_wrong() -> None:
    assert [p.kind for p in problems([0] * 20 + [2, 2, 2], (WRONG, [(0, 0)]))] == [WRONG]


def test_a_claim_is_wrong_if_another_one_fits() -> None:
    right, wrong = (FindingKind.METADATA_MISMATCH, [(0, 0), (1, 3)]), (WRONG, [(0, 0)])
    assert [p.kind for p in problems([0, 0, 0, 1], right, wrong)] == [WRONG]


def test_a_batch_that_contradicts_two_claims_is_reported_once() -> None:
    claims = (FindingKind.METADATA_MISMATCH, [(0, 0)]), (WRONG, [(0, 0)])
    assert [p.kind for p in problems([0, 0, 7, 0, 0], *claims)] == [BATCH]


def test_old_formats_have_no_epoch() -> None:
    assert problems([-1, -1], (WRONG, [(0, 0)]), magic=1) == []
