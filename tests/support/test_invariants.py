"""Each invariant accepts a valid history and detects each kind of violation. Histories are written by hand."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, KafkaError

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fallback import Fallback
from tests.support.history import (
    Assigned,
    Closed,
    Committed,
    Counted,
    Failure,
    FellBack,
    Fired,
    History,
    Measured,
    Moved,
    Opened,
    Outage,
    Outcome,
    Paused,
    Place,
    Polled,
    Positioned,
    Produced,
    Record,
    Resumed,
    Revoked,
    Served,
    Sought,
    Source,
    Stored,
)
from tests.support.invariants.checker import INVARIANTS, check, violations
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.resources import waits
from tests.support.invariants.spans import walk
from tests.support.invariants.violation import Violation
from tests.support.recorder import recorded

TP = ("orders", 0)
EOF = KafkaError._PARTITION_EOF
HOLE = 7  # a control record: no consumer delivers it
END = 12


def record(offset: int, **changes: Any) -> Record:
    made = Record(*TP, offset, (1, 1000 + offset), 3, b"k%d" % offset, b"v%d" % offset, None)
    return made._replace(**changes)


ORACLE = Oracle({TP: [record(offset) for offset in range(END) if offset != HOLE]}, {TP: END})


class Written(History):
    """A history written by hand, on a clock that the test moves."""

    def __init__(self, start: int = 0, **opened: Any) -> None:
        self.time = 100.0
        super().__init__(now=lambda: self.time)
        self.add(Opened, "c", **{"group": "g", "reset": "earliest", "announces_ends": True, **opened})
        self.assign(start)

    def assign(self, start: int = 0, consumer: str = "c", **more: Any) -> Written:
        self.add(Assigned, consumer, places=(Place(*TP, start),), **more)
        return self

    def poll(
        self, *offsets: int, consumer: str = "c", end: int | None = None, error: int | None = None, took: float = 0.0
    ) -> Written:
        return self.give(*map(record, offsets), consumer=consumer, end=end, error=error, took=took)

    def give(
        self, *records: Record, consumer: str = "c", end: int | None = None, error: int | None = None, took: float = 0.0
    ) -> Written:
        failures = [] if end is None else [Failure(EOF, TP, end)]
        failures += [] if error is None else [Failure(error, TP)]
        began, self.time = self.time, self.time + took
        self.add(Polled, consumer, began=began, records=records, errors=tuple(failures))
        return self

    def all(self, *, skip: int | None = None) -> Written:
        """Everything, one by one, to the end."""
        for offset in range(END):
            if offset not in (HOLE, skip):
                self.poll(offset)
        return self.poll(end=END)

    def note(self, kind: Any, consumer: str = "c", **fields: Any) -> Written:
        self.add(kind, consumer, **fields)
        return self


def commit(offset: int, epoch: int = 3) -> dict[str, Any]:
    return {"places": (Place(*TP, offset, epoch),)}


def produced(outcomes: dict[int, Outcome]) -> Written:
    history = Written()
    for offset, outcome in outcomes.items():
        truth = record(offset)
        history.note(
            Produced, "", topic=TP[0], partition=0, offset=offset, key=truth.key, value=truth.value, headers=(), outcome=outcome
        )
    return history


def cut_back(end: int, **opened: Any) -> Written:
    """Records of a leader were read, its log is truncated to ``end``, and other records replace its own."""
    old = [record(offset, value=b"of the old leader") for offset in range(end, 6)]
    return Written(**opened).poll(*range(end)).give(*old).note(Moved, "", key=TP, end=end)


LOCAL = 10


def served(history: Written, store: range, broker: range) -> Written:
    """What each server sent by its own log; the broker's local log begins at LOCAL."""
    history.note(Served, "", source=Source.BROKER, key=TP, offsets=(broker,), local_start=LOCAL)
    return history.note(Served, "", source=Source.STORE, key=TP, offsets=(store,))


def counted(history: Written, from_store: int, from_broker: int, *fallbacks: str, logged: bool = True) -> Written:
    """The consumer's counters at the end, and a log line for each fallback."""
    for cause in fallbacks if logged else ():
        history.note(FellBack, key=TP, offset=0, cause=cause)
    by_cause = {cause: fallbacks.count(cause) for cause in fallbacks}
    return history.note(Counted, from_store=from_store, from_broker=from_broker, fallbacks=by_cause)


SOUND: dict[str, Callable[[], Written]] = {
    "to-the-end": lambda: Written().all(),
    "more-came-behind-an-end": lambda: (
        Written().poll(0, 1, 2, 3, 4, end=5).poll(5).note(Counted, from_store=5, from_broker=2, fallbacks={})
    ),
    "in-one-call": lambda: Written().poll(*(n for n in range(END) if n != HOLE), end=END),
    "from-the-middle": lambda: Written(start=5).poll(5, 6, 8),
    "from-the-beginning": lambda: Written(start=OFFSET_BEGINNING).poll(0, 1),
    "from-where-nobody-knows": lambda: Written(start=OFFSET_END).poll(9, 10),
    "from-a-hole": lambda: Written(start=HOLE).poll(8, 9),
    "seek-back": lambda: Written().poll(0, 1, 2).note(Sought, place=Place(*TP, 1)).poll(1, 2, 3),
    "seek-on": lambda: Written().poll(0, 1).note(Sought, place=Place(*TP, 8)).poll(8),
    "paused": lambda: Written().poll(0).note(Paused, keys=(TP,)).poll().note(Resumed, keys=(TP,)).poll(1),
    "again-after-a-rebalance": lambda: (
        Written()
        .poll(0, 1, 2)
        .note(Committed, **commit(2))
        .note(Revoked, keys=(TP,))
        .assign(2, committed=frozenset([TP]))
        .poll(2, 3)
    ),
    "of-two-owners": lambda: (
        Written()
        .poll(0, 1)
        .note(Committed, **commit(2))
        .note(Revoked, keys=(TP,))
        .note(Opened, "d", group="g")
        .assign(2, "d", committed=frozenset([TP]))
        .poll(2, consumer="d")
        .note(Committed, "d", **commit(3))
    ),
    "commit": lambda: Written().poll(0, 1).note(Positioned, **commit(2)).note(Committed, **commit(2)),
    "commit-of-what-was-stored": lambda: Written().poll(0).note(Stored, **commit(9)).note(Committed, **commit(9)),
    "commit-after-a-start-at-the-end": lambda: (
        Written().poll(0).note(Revoked, keys=(TP,)).assign(OFFSET_END).note(Committed, **commit(6))
    ),
    "commit-of-markers-that-a-read-at-the-end-passed": lambda: (
        Written(start=OFFSET_END).note(Sought, place=Place(*TP, 0)).poll(0).note(Committed, **commit(END))
    ),
    "records-read-before-the-log-start-moved": lambda: (
        Written(announces_ends=False)
        .poll(0)
        .note(Moved, "", key=TP, log_start=END)
        .poll(1)
        .poll(took=61.0)
        .poll(took=61.0)
        .note(Closed)
    ),
    "commit-of-before": lambda: (
        Written(start=0).note(Committed, seen=True, **commit(9)).poll(0).note(Committed, seen=True, **commit(9))
    ),
    "commit-while-handing-out": lambda: Written().note(Committed, **commit(1)).poll(0),
    "commit-past-a-marker": lambda: (
        Written().poll(*range(HOLE)).note(Positioned, **commit(HOLE + 1)).note(Committed, **commit(HOLE + 1))
    ),
    "position-at-the-start": lambda: Written(start=4).note(Positioned, **commit(4)),
    "log-start-moves-after-an-unknown-start": lambda: (
        Written(start=OFFSET_STORED, reset="earliest").poll(0, 1).note(Moved, "", key=TP, log_start=5).poll(5)
    ),
    "end-behind-records-that-were-deleted": lambda: Written().poll(0).note(Moved, "", key=TP, log_start=END).poll(end=END),
    "log-start-moves-to-where-a-seek-left-off": lambda: (
        Written().poll(0, 1, 2).note(Sought, place=Place(*TP, 0)).note(Moved, "", key=TP, log_start=3).poll(3)
    ),
    "log-start-moves": lambda: Written(reset="earliest").poll(0, 1).note(Moved, "", key=TP, log_start=5).poll(5),
    "commit-past-what-was-removed": lambda: (
        Written().poll(0, 1).note(Moved, "", key=TP, log_start=HOLE).note(Committed, **commit(HOLE + 1))
    ),
    "nothing-left-to-wait-for": lambda: (
        Written(announces_ends=False).poll(0).note(Moved, "", key=TP, log_start=END).poll(took=61.0)
    ),
    "nothing-left-to-wait-for-at-the-start": lambda: (
        Written(start=50, announces_ends=False).note(Moved, "", key=TP, log_start=END).assign().poll(took=61.0)
    ),
    "cut-back": lambda: Written().give(record(0), record(1, value=b"of the old leader")).note(Moved, "", key=TP, end=1),
    "cut-below-the-position": lambda: cut_back(3).poll(*(n for n in range(3, END) if n != HOLE), end=END),
    "cut-below-the-position-as-an-error": lambda: cut_back(3, reset="error").poll(9, 10),
    "cut-above-the-position": lambda: (
        Written().poll(0, 1).note(Moved, "", key=TP, end=2).poll(*(n for n in range(2, END) if n != HOLE), end=END)
    ),
    "broker-out": lambda: Written().poll(0).note(Outage, "").poll(took=500.0).note(Outage, "", over=True).poll(1),
    "assigned-while-the-broker-is-out": lambda: (
        Written(start=50).note(Outage, "").assign().poll(took=500.0).note(Outage, "", over=True).poll(0)
    ),
    "paused-through-a-seek": lambda: (
        Written().poll(0).note(Paused, keys=(TP,)).note(Sought, place=Place(*TP, 4)).poll(took=500.0)
    ),
    "fallback": lambda: (
        Written()
        .note(FellBack, key=TP, offset=0, cause="timeout")
        .all()
        .note(Counted, from_store=4, from_broker=7, fallbacks={"timeout": 1})
        .note(Closed)
    ),
    "gathered-and-taken-back": lambda: (
        Written().poll(0).note(Paused, keys=(TP,)).note(Counted, from_store=9, from_broker=0, fallbacks={})
    ),
    "committed-transactions": lambda: produced({0: Outcome.PLAIN, 1: Outcome.COMMITTED, HOLE: Outcome.ABORTED}).all(),
    "resources": lambda: (
        Written()
        .note(Measured, "", moment="before", threads=("main",), sockets=("a to b", "a to c"))
        .note(Measured, "", moment="during", bytes_held=10, bound=10)
        .note(Measured, "", moment="after", threads=("main",), sockets=("a to b", "a to c"), bytes_held=0)
    ),
    "faults": lambda: Written().note(Fired, "", fault="F01", times=2).all(),
    "served": lambda: served(counted(Written(falls_back_once=True).all(), 4, 7, "timeout"), range(4), range(4, END)),
    "served-and-handed-over": lambda: served(counted(Written().all(), 9, 2), range(LOCAL), range(LOCAL, END)),
    "served-twice": lambda: served(counted(Written().all(), 5, 6, "timeout", "timeout"), range(END), range(END)),
    "cause-of-the-fault": lambda: counted(
        Written().note(Fired, "", fault="F06", causes=frozenset({"not-found"})).all(), 4, 7, "not-found", "breaker-open"
    ),
}

BROKEN: dict[str, tuple[str, Callable[[], Written]]] = {
    "lost": ("I1", lambda: Written().all(skip=4)),
    "lost-at-the-end": ("I1", lambda: Written().poll(0, 1, 2).poll(end=END)),
    "lost-acknowledged": ("I1", lambda: produced({3: Outcome.PLAIN}).poll(0, 1, 2, 4)),
    "lost-aborted-of-uncommitted": (
        "I1",
        lambda: (
            Written(isolation="read_uncommitted")
            .note(Produced, "", topic=TP[0], partition=0, offset=3, key=b"", value=b"", outcome=Outcome.ABORTED)
            .poll(0, 1, 2, 4)
        ),
    ),
    "twice": ("I2", lambda: Written().poll(0, 1).poll(1, 2)),
    "below-the-commit": ("I2", lambda: Written().assign(5, committed=frozenset([TP])).poll(4, 5)),
    "falls": ("I3", lambda: Written().poll(0, 2, 1)),
    "falls-later": ("I3", lambda: Written().poll(0, 1, 2).poll(1)),
    "skipped": ("I4", lambda: Written().poll(0, 2)),
    "skipped-at-the-start": ("I4", lambda: Written(start=3).poll(5)),
    "end-reported-too-early": ("I4", lambda: Written().poll(0, end=END).poll(*(n for n in range(1, END) if n != HOLE))),
    "skipped-after-a-seek": ("I4", lambda: Written().poll(0).note(Sought, place=Place(*TP, 4)).poll(6)),
    "other-value": ("I5", lambda: Written().give(record(0, value=b"x"))),
    "other-timestamp-type": ("I5", lambda: Written().give(record(0, timestamp=(2, 1000)))),
    "other-epoch": ("I5", lambda: Written().give(record(0, leader_epoch=4))),
    "no-headers": ("I5", lambda: Written().give(record(0, headers=(("a", b"1"),)))),
    "two-values": (
        "I5",
        lambda: Written(start=50).give(record(50)).note(Sought, place=Place(*TP, 50)).give(record(50, key=b"x")),
    ),
    "not-what-was-produced": (
        "I5",
        lambda: Written().note(Produced, "", topic=TP[0], partition=0, offset=50, key=b"k", value=b"other").give(record(50)),
    ),
    "aborted": ("I6", lambda: produced({3: Outcome.ABORTED}).poll(0, 1, 2, 3)),
    "undecided": ("I6", lambda: Written().all().poll(END)),
    "control-record": ("I6", lambda: Written(start=5).poll(5, 6, HOLE)),
    "after-revoke": ("I7", lambda: Written().poll(0).note(Revoked, keys=(TP,)).poll(1)),
    "after-close": ("I7", lambda: Written().poll(0).note(Closed).poll(1)),
    "never-assigned": ("I7", lambda: Written().poll(0, consumer="d")),
    "while-paused": ("I7", lambda: Written().poll(0).note(Paused, keys=(TP,)).poll(1)),
    "stale-after-seek": ("I7", lambda: Written().poll(0, 1, 2).note(Sought, place=Place(*TP, 0)).poll(3)),
    "before-the-seek": ("I7", lambda: Written().poll(0).note(Sought, place=Place(*TP, 5)).poll(1)),
    "position-ahead": ("I8", lambda: Written().poll(0).note(Positioned, **commit(2))),
    "commit-ahead": ("I8", lambda: Written().poll(0).note(Committed, **commit(2))),
    "commit-ahead-after-a-start-at-the-end": (
        "I8",
        lambda: Written().poll(0).note(Revoked, keys=(TP,)).assign(OFFSET_END).poll(6).note(Committed, **commit(9)),
    ),
    "commit-ahead-of-the-log-start": (
        "I8",
        lambda: Written().poll(0).note(Moved, "", key=TP, log_start=5).note(Committed, **commit(HOLE)),
    ),
    "commit-past-a-record-behind-a-marker": ("I8", lambda: Written().poll(*range(HOLE)).note(Committed, **commit(HOLE + 2))),
    "position-past-the-end": ("I8", lambda: Written(start=11).poll(11).note(Positioned, **commit(END + 1))),
    "commit-seen-ahead": ("I8", lambda: Written().poll(0).note(Committed, seen=True, **commit(2))),
    "commit-without-epoch": ("I8", lambda: Written().poll(0).note(Committed, places=(Place(*TP, 1),))),
    "position-of-other-epoch": ("I8", lambda: Written().poll(0).note(Positioned, **commit(1, 2))),
    "stalled": ("I9", lambda: Written().poll(0).poll(took=30.0).poll(1, took=31.0)),
    "stalled-for-good": ("I9", lambda: Written().poll(0).poll(took=30.0).poll(took=31.0).note(Closed)),
    "end-never-reported": ("I9", lambda: Written(start=11).poll(11).poll(took=61.0)),
    "stalled-at-the-log-start": ("I9", lambda: Written().poll(0).note(Moved, "", key=TP, log_start=5).poll(took=61.0)),
    "stalled-after-an-outage": (
        "I9",
        lambda: Written().note(Outage, "").poll(took=90.0).note(Outage, "", over=True).poll(took=61.0),
    ),
    "stalled-where-it-was-assigned-in-an-outage": (
        "I9",
        lambda: Written(start=50).note(Outage, "").assign().note(Outage, "", over=True).poll(took=61.0),
    ),
    "stalled-after-a-pause-through-a-seek": (
        "I9",
        lambda: Written().note(Paused, keys=(TP,)).note(Sought, place=Place(*TP, 4)).note(Resumed, keys=(TP,)).poll(took=61.0),
    ),
    "error-of-its-own": ("I10", lambda: Written().poll(0, error=KafkaError.OFFSET_OUT_OF_RANGE)),
    "jumped-silently": (
        "I10",
        lambda: Written(reset="error").poll(0, 1).note(Moved, "", key=TP, log_start=5).poll(5),
    ),
    "goes-on-above-a-cut": ("I4", lambda: cut_back(3).poll(6, 8)),
    "lost-after-a-cut": ("I1", lambda: cut_back(3).poll(3, 5)),
    "comes-again-after-a-cut": ("I7", lambda: cut_back(3).poll(2, 3)),
    "lost-before-a-cut": ("I1", lambda: Written().give(record(0), record(2)).note(Moved, "", key=TP, end=3)),
    "old-lineage-after-a-cut": ("I5", lambda: cut_back(3).give(record(3, value=b"of the old leader"))),
    "too-many-bytes": ("I11", lambda: Written().note(Measured, "", moment="during", bytes_held=11, bound=10)),
    "bytes-left": ("I11", lambda: Written().note(Measured, "", moment="after", bytes_held=1)),
    "thread-left": (
        "I11",
        lambda: (
            Written().note(Measured, "", moment="before", threads=("a",)).note(Measured, "", moment="after", threads=("a", "a"))
        ),
    ),
    "socket-left": (
        "I11",
        lambda: (
            Written()
            .note(Measured, "", moment="before", sockets=("a to b",))
            .note(Measured, "", moment="after", sockets=("a to b", "a to c"))
        ),
    ),
    "fallback-not-counted": (
        "I12",
        lambda: (
            Written().note(FellBack, key=TP, offset=0, cause="timeout").note(Counted, from_store=0, from_broker=0, fallbacks={})
        ),
    ),
    "fallback-counted-twice": (
        "I12",
        lambda: (
            Written()
            .note(FellBack, key=TP, offset=0, cause="timeout")
            .note(Counted, from_store=0, from_broker=0, fallbacks={"timeout": 2})
        ),
    ),
    "record-not-counted": ("I12", lambda: Written().poll(0, 1).note(Counted, from_store=1, from_broker=0, fallbacks={})),
    "record-counted-twice": ("I12", lambda: Written().all().note(Counted, from_store=11, from_broker=1, fallbacks={})),
    "stores-record-counted-as-the-brokers": (
        "I12",
        lambda: served(counted(Written().all(), 8, 3), range(LOCAL), range(LOCAL, END)),
    ),
    "brokers-record-counted-as-the-stores": (
        "I12",
        lambda: served(counted(Written().all(), 10, 1), range(LOCAL), range(LOCAL, END)),
    ),
    "fallback-neither-counted-nor-logged": ("I12", lambda: served(counted(Written().all(), 4, 7), range(4), range(4, END))),
    "fallback-counted-and-logged-twice": (
        "I12",
        lambda: served(counted(Written(falls_back_once=True).all(), 4, 7, "timeout", "timeout"), range(4), range(4, END)),
    ),
    "cause-of-no-fault": (
        "I12",
        lambda: counted(Written().note(Fired, "", fault="F06", causes=frozenset({"not-found"})).all(), 4, 7, "timeout"),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_valid_history_violates_nothing(name: str) -> None:
    check(SOUND[name](), ORACLE)


@pytest.mark.parametrize("name", BROKEN)
def test_a_violation_is_found_by_its_invariant(name: str) -> None:
    invariant, made = BROKEN[name]
    found = violations(made(), ORACLE)
    assert invariant in {breach.invariant for breach in found}
    assert all(breach.key in (TP, None) for breach in found)


def test_an_oracle_leaves_out_truncated_records() -> None:
    plain = Written().give(record(0), record(1, value=b"old"), record(HOLE, value=b"old"), end=9)
    plain.note(Moved, "", key=TP, end=1).poll(0, 1, 2, end=3)
    oracle = Oracle.of(plain)
    assert oracle.offsets(TP, 0, END) == [0, 1, 2]
    assert oracle.get(TP, 1) == record(1)
    assert oracle.ends == {TP: 3}


def test_every_invariant_has_a_violating_history() -> None:
    assert {invariant for invariant, _ in BROKEN.values()} == set(INVARIANTS)


def test_check_leaves_out_excluded_invariants() -> None:
    broken = Written().poll(0, 2)
    assert {breach.invariant for breach in violations(broken, ORACLE)} == {"I1", "I4"}
    check(broken, ORACLE, without={"I1", "I4"})
    with pytest.raises(AssertionError, match=r"2 violations:\nI1: c orders-0 at 1: 1 committed records never came"):
        check(broken, ORACLE)


def test_a_violation_has_offsets_and_events() -> None:
    (breach,) = violations(Written().poll(0).poll(2), ORACLE, without={"I1"})
    assert breach == Violation("I4", "1 records were skipped on the way to 2", "c", TP, (1,), (2, 3))
    assert str(breach) == "I4: c orders-0 at 1: 1 records were skipped on the way to 2 (events 2, 3)"
    assert str(Violation("I1", "lost", "c", TP, tuple(range(20)))).startswith(
        "I1: c orders-0 at 0, 1, 2, 3, 4, 5, 6, 7 … 19 (20)"
    )


def test_waits_have_the_awaited_offset() -> None:
    found = waits(Written().poll(0, took=1.0).poll(took=2.0).poll(1, took=3.0), ORACLE)
    assert [(wait.wanted, wait.seconds) for wait in found] == [(0, 1.0), (1, 5.0)]


def test_an_oracle_has_the_records_of_a_recorded_consumer() -> None:
    truth = Written().all().poll(error=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    made = Oracle.of(truth)
    assert (made.ends, len(made), made.errors) == ({TP: END}, 11, {TP: [KafkaError.TOPIC_AUTHORIZATION_FAILED]})
    assert made.get(TP, 3) == record(3)
    assert (made.next_offset(TP, HOLE), made.next_offset(TP, END)) == (8, None)
    assert [made.reach(TP, offset) for offset in (6, HOLE, END, END + 3)] == [6, HOLE + 1, END, END + 3]
    assert Oracle({TP: [record(0)]}, {TP: 4}).reach(TP, 1) == 4, "markers up to the end are no records"
    rows = [(*record(n)[2:7], [("a", b"1")]) for n in range(3)]
    from_rows = Oracle.of_rows(*TP, rows)
    assert from_rows.get(TP, 1) == record(1, headers=(("a", b"1"),))
    assert from_rows.ends == {TP: 3}


@pytest.mark.parametrize("taken_over", [True, False])
def test_a_logged_failure_is_a_fallback_where_the_broker_takes_over(taken_over: bool) -> None:
    class Logging:
        def poll(self, timeout: float) -> None:
            log = logging.getLogger("kafka_remote_client.consumer.routing")
            log.warning("%s", Fallback("timeout", DirectFetchError(), *TP, 3, taken_over=taken_over))

    history = History()
    recorded(lambda _config: cast("Any", Logging()), {}, history).poll(0)
    assert [event.cause for event in history.of(FellBack)] == ["timeout"] * taken_over


def test_journals_of_several_processes_become_one_history(tmp_path: Path) -> None:
    one, two = History(journal=tmp_path / "one"), History(journal=tmp_path / "two")
    one.add(Opened, "c", group="g")
    two.add(Opened, "d", group="g")
    one.add(Closed, "c")
    for part in (one, two):
        part.close()
    cut = (tmp_path / "two").read_bytes()
    (tmp_path / "two").write_bytes(cut + cut[: len(cut) // 2])  # killed in the middle of a line
    merged = History.merged(tmp_path / "one", tmp_path / "two")
    assert [(event.number, event.consumer, type(event)) for event in merged] == [
        (0, "c", Opened),
        (1, "d", Opened),
        (2, "c", Closed),
    ]
    assert merged.consumers() == ["c", "d"]
    assert len(merged) == 3


def test_a_walk_is_shared_until_the_history_changes() -> None:
    history = History()
    history.add(Assigned, "a", places=(Place("orders", 0, 5),), incremental=False)
    first = walk(history)
    assert walk(history) is first
    history.add(Closed, "a")
    assert [span.ended for span in walk(history).spans] == [history.events[1]]
    history.events[1] = Closed(number=1, at=0.0, consumer="b")
    assert [span.ended for span in walk(history).spans] == [None]
