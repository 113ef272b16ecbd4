"""The rule for groups, with handwritten histories: what it excuses, and that it excuses hardly anything else."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from tests.support.group_judgement import STUCK_SECONDS, judge
from tests.support.history import Assigned, Closed, History, Opened, Outage, Place, Polled, Record, Refused, Revoked
from tests.support.invariants.oracle import Oracle

TOPIC, KEY = "orders", ("orders", 0)
RECORDS = [Record(TOPIC, 0, offset, (1, offset), 0, None, b"%d" % offset, None) for offset in range(4)]
ORACLE = Oracle({KEY: RECORDS})


class Group:
    """Two members that each read the partition once."""

    def __init__(self) -> None:
        self.history = History()
        for name in ("first", "second"):
            self.history.add(Opened, name, group="group", isolation="read_committed", reset="earliest", announces_ends=True)

    def reads(self, name: str, start: int, first: int, stop: int) -> None:
        """``name`` is given the partition at the committed offset ``start``, and gets the records from ``first`` on."""
        self.history.add(Assigned, name, places=(Place(*KEY, start),), committed=frozenset({KEY}), incremental=False)
        self.history.add(Polled, name, began=self.history.now(), records=tuple(RECORDS[first:stop]), errors=())

    def gives_up(self, name: str, *, lost: bool = False) -> None:
        self.history.add(Revoked, name, keys=(KEY,), lost=lost)

    def is_refused(self, name: str, offset: int, code: int = KafkaError.UNKNOWN_MEMBER_ID) -> None:
        self.history.add(Refused, name, places=(Place(*KEY, offset),), code=code)

    def ends(self) -> None:
        for name in ("first", "second"):
            self.history.add(Closed, name)

    def judged(self, *always_direct: str) -> None:
        self.ends()
        judge(self.history, ORACLE, always_direct)


def test_one_delivery_of_each_record_is_valid() -> None:
    group = Group()
    group.reads("first", 0, 0, 2)
    group.gives_up("first")
    group.reads("second", 2, 2, 4)
    group.judged("first", "second")


def test_a_record_that_no_member_received_is_reported() -> None:
    group = Group()
    group.reads("first", 0, 0, 3)
    with pytest.raises(AssertionError, match="orders-0 at 3 came to nobody"):
        group.judged()


def test_a_record_that_two_members_received_is_reported() -> None:
    group = Group()
    group.reads("first", 0, 0, 2)
    group.gives_up("first")
    group.reads("second", 0, 0, 4)
    with pytest.raises(AssertionError, match=r"orders-0 at 1 came in first's read .* second's read"):
        group.judged()


def test_records_of_a_lost_partition_may_be_redelivered() -> None:
    group = Group()
    group.reads("first", 0, 0, 2)
    group.gives_up("first", lost=True)
    group.reads("second", 0, 0, 4)
    group.judged("first", "second")


def test_records_after_a_refused_last_commit_may_be_redelivered() -> None:
    group = Group()
    group.reads("first", 0, 0, 2)
    group.gives_up("first")
    group.is_refused("first", 2)
    group.reads("second", 0, 0, 4)
    group.judged("first", "second")


@pytest.mark.parametrize(
    ("name", "offset", "code"),
    [
        ("second", 2, KafkaError.UNKNOWN_MEMBER_ID),
        ("first", 1, KafkaError.UNKNOWN_MEMBER_ID),
        ("first", 2, KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ],
    ids=["of-another-member", "of-an-earlier-offset", "for-another-reason"],
)
def test_a_refused_commit_is_no_excuse(name: str, offset: int, code: int) -> None:
    group = Group()
    group.reads("first", 0, 0, 2)
    group.gives_up("first")
    group.is_refused(name, offset, code)
    group.reads("second", 0, 0, 4)
    with pytest.raises(AssertionError, match="2 in all"):
        group.judged()


@pytest.mark.parametrize("moving", [True, False])
def test_a_partition_gives_its_next_record_unless_the_group_is_moving(moving: bool) -> None:
    group = Group()
    group.reads("first", 0, 0, 2)
    if moving:
        group.history.add(Outage)
    began = group.history.now()
    group.history.shift(STUCK_SECONDS + 1)
    group.history.add(Polled, "first", began=began)
    if moving:
        group.history.add(Outage, over=True)
    group.history.add(Polled, "first", began=group.history.now(), records=tuple(RECORDS[2:]))
    if moving:
        group.judged("first")
    else:
        with pytest.raises(AssertionError, match="I9: first orders-0 at 2: did not come for 12"):
            group.judged("first")


def test_only_a_broker_reading_member_may_begin_below_its_commit() -> None:
    def read() -> Group:
        group = Group()
        group.reads("first", 0, 0, 2)
        group.gives_up("first")
        group.reads("second", 2, 0, 4)
        return group

    read().judged("first")
    with pytest.raises(AssertionError, match="comes again though 2 was committed"):
        read().judged("second")


def test_only_a_broker_reading_member_may_go_back_to_its_start() -> None:
    def read() -> Group:
        group = Group()
        group.reads("first", 0, 0, 2)
        group.history.add(Polled, "first", began=group.history.now(), records=tuple(RECORDS), errors=())
        return group

    read().judged("second")
    with pytest.raises(AssertionError, match="came twice"):
        read().judged("first")
