"""The answers that a leader must give before a location in the tier is granted."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kafka_remote_client.location.leader_check import LeaderCheck, only_partition, readable_end
from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, answered
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, FetchResponse, FetchTopicResponse, PartitionData
from tests.support.shim_fakes import SEGMENT, data, resolved

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
DIVERGING = data(tags={DIVERGING_EPOCH_TAG: bytes(13)})
LINEAGE = Probe(ProbeKind.LINEAGE, 300, 4)
LISTED = (AbortedTransaction(1, 130), AbortedTransaction(2, 200))


@pytest.mark.parametrize(("level", "end"), [(COMMITTED, 400), (UNCOMMITTED, 1000)])
def test_readers_end_where_their_isolation_level_ends(level: IsolationLevel, end: int) -> None:
    assert readable_end(data(last_stable_offset=400), 120, level) == end


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (data(preferred_read_replica=2), "preferred-replica"),
        (data(log_start_offset=121), "not-tiered"),
        (data(last_stable_offset=120), "not-tiered"),
    ],
)
def test_offsets_that_this_broker_cannot_read_are_not_granted(answer: PartitionData, why: str) -> None:
    with pytest.raises(NotGrantedError, match=why):
        readable_end(answer, 120, COMMITTED)


def test_an_answer_for_one_partition_has_its_data() -> None:
    topic = FetchTopicResponse((data(),), "t")
    assert only_partition(FetchResponse((topic,))) == data()
    for odd in ((), (topic, topic), (attrs.evolve(topic, partitions=()),), (attrs.evolve(topic, partitions=(data(), data())),)):
        assert only_partition(FetchResponse(odd)) is None


class Leader:
    """Answers each kind of probe, without errors by default."""

    def __init__(self, **answers: PartitionData | None) -> None:
        self.answers: dict[str, PartitionData | None] = {"LINEAGE": data(), "ABORTED": data(aborted_transactions=LISTED)}
        self.answers |= answers
        self.asked: list[Probe] = []

    def __call__(self, probe: Probe) -> PartitionData | None:
        self.asked.append(probe)
        return self.answers[probe.kind.name]


def confirm(
    leader: Leader, word: LeaderCheck | None = None, level: IsolationLevel = COMMITTED, epoch: int = 9, **changes: Any
) -> tuple[AbortedTransaction, ...] | None:
    return answered((word or LeaderCheck()).confirm(resolved(**changes), level, epoch), leader)


def test_a_complete_list_needs_the_lineage_probe_only() -> None:
    leader = Leader()
    aborted = (AbortedTransaction(1, 100),)
    assert confirm(leader, aborted=aborted) == aborted
    assert confirm(leader, level=UNCOMMITTED, aborted=aborted) is None
    assert leader.asked == [LINEAGE, LINEAGE]


@pytest.mark.parametrize("answer", [None, DIVERGING, data(error_code=6)])
def test_a_window_off_the_leaders_lineage_is_not_granted(answer: PartitionData | None) -> None:
    for level in IsolationLevel:
        with pytest.raises(NotGrantedError, match="lineage"):
            confirm(Leader(LINEAGE=answer), level=level)


def test_the_lineage_is_requested_once_per_window_and_leader_epoch() -> None:
    leader, word = Leader(), LeaderCheck()
    for epoch, asked in ((9, 1), (9, 1), (10, 2), (-1, 3), (-1, 4)):
        confirm(leader, word, epoch=epoch)
        assert len(leader.asked) == asked


def test_transactions_with_a_local_marker_are_added_below_the_windows_end() -> None:
    leader = Leader()
    known = (AbortedTransaction(5, 125), AbortedTransaction(3, 140))
    assert confirm(leader, aborted=known, aborted_complete=False) == (
        AbortedTransaction(5, 125),
        AbortedTransaction(1, 130),
        AbortedTransaction(3, 140),
    )
    assert [probe.kind for probe in leader.asked] == [ProbeKind.LINEAGE, ProbeKind.ABORTED]
    assert leader.asked[1].offset == 300


def test_an_unknown_list_grants_nothing() -> None:
    with pytest.raises(NotGrantedError, match="aborted-unknown"):
        confirm(Leader(ABORTED=data(aborted_transactions=None)), aborted_complete=False)
    assert confirm(Leader(), level=UNCOMMITTED, aborted_complete=False) is None


def test_a_longer_window_of_the_same_segment_is_confirmed_again() -> None:
    leader, word = Leader(), LeaderCheck()
    confirm(leader, word, searched_end=160)
    leader.answers["LINEAGE"] = DIVERGING
    with pytest.raises(NotGrantedError, match="lineage"):
        confirm(leader, word, searched_end=180)
    assert [probe.offset for probe in leader.asked] == [160, 180]


def test_transactions_of_segments_off_the_leaders_lineage_are_not_used() -> None:
    """The window ends at 160, and segments up to 300 were searched for the markers of its transactions."""
    for complete in (True, False):
        leader = Leader(LINEAGE=DIVERGING)
        with pytest.raises(NotGrantedError, match="lineage"):
            confirm(leader, aborted=(AbortedTransaction(1, 130),), aborted_complete=complete)
        assert leader.asked == [LINEAGE]


def test_a_transaction_that_begins_at_the_windows_end_is_not_listed() -> None:
    listed = (AbortedTransaction(1, 159), AbortedTransaction(2, 160))
    assert confirm(Leader(ABORTED=data(aborted_transactions=listed)), aborted_complete=False) == listed[:1]


def test_transactions_of_another_partition_are_requested_again() -> None:
    leader, check = Leader(), LeaderCheck()
    assert confirm(leader, check, aborted_complete=False) == LISTED[:1]
    assert confirm(leader, check, aborted_complete=False) == LISTED[:1]
    leader.answers["ABORTED"] = data(aborted_transactions=(AbortedTransaction(7, 140),))
    other = attrs.evolve(SEGMENT.topic_id_partition, partition=SEGMENT.topic_id_partition.partition + 1)
    moved = attrs.evolve(SEGMENT, remote_log_segment_id=attrs.evolve(SEGMENT.remote_log_segment_id, topic_id_partition=other))
    assert confirm(leader, check, metadata=moved, aborted_complete=False) == (AbortedTransaction(7, 140),)
    assert [probe.kind for probe in leader.asked].count(ProbeKind.ABORTED) == 2
