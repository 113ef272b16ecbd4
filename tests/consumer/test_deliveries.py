"""How much is gathered, and the counts. test_direct_consumer tests the delivery itself on the embedded cluster."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from kafka_remote_client.clock import Deadline
from kafka_remote_client.consumer.deliveries import Deliveries
from kafka_remote_client.consumer.gathered import Gathered
from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.route_state import Route
from tests.support.locations import ManualClock


@pytest.mark.parametrize(("size", "before", "ahead"), [(10, 400, 500), (10, 60, 120), (1 << 20, 400, 3), (8 << 20, 400, 1)])
def test_poll_gathers_fewer_large_messages_ahead(size: int, before: int, ahead: int) -> None:
    handed_out = SimpleNamespace(hand_out=lambda messages, of_one_partition: messages[0])
    tiers = SimpleNamespace(unplaced=set())
    pieces: Any = [bytes(size)]
    state: Any = SimpleNamespace(gathered=Gathered(pieces), _tiers=tiers, _ahead=before, queue=handed_out, _flows=[])
    state._of_one_partition = True
    assert Deliveries._begin_slice(state) == bytes(size)
    assert state._ahead == ahead


def test_the_ends_of_partitions_are_no_records_of_the_broker() -> None:
    behaviour = SimpleNamespace(announces_ends=True)
    state: Any = SimpleNamespace(_behaviour=behaviour, broker_records=0, gathered=Gathered())
    record, end = SimpleNamespace(error=lambda: None), SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF))
    arrived: Any = [end, record]
    Deliveries._count(state, arrived)
    assert state.broker_records == 1
    assert state.gathered.error_waits
    records: Any = [record, record]
    Deliveries._count(state, records)
    state._behaviour.announces_ends = False
    Deliveries._count(state, records)
    assert state.broker_records == 5


class Gathering:
    """What :meth:`Deliveries._gather_both` uses. ``polls``: the counts that the inner consumer was polled for."""

    def __init__(self, *, by_broker: bool = False, undecided: bool = False) -> None:
        self.clock = ManualClock()
        self.polls: list[int] = []
        self.gathered = Gathered()
        self._clock, self._flows = self.clock, SimpleNamespace(routes=SimpleNamespace(by_broker=by_broker, undecided=undecided))
        self._broker_turn, self._serve_at, self._lost_by = False, 0.0, 0.0

    def _gather_broker(self, room: int, _seconds: float) -> int:
        if room > 0:
            self.polls.append(room)
        return 0

    def _gather_tier(self, wanted: int, take: Any) -> None:
        Deliveries._gather_tier(self, wanted, take)

    def gather(self, wanted: int, available: int) -> None:
        """A call for ``wanted`` records of which the tier has ``available``."""
        items: Any = [b""] * available
        self.gathered = Gathered()

        def take(room: int) -> list[Piece] | None:
            taken = items[:room]
            del items[:room]
            return taken or None

        Deliveries._gather_both(self, wanted, take)


def test_the_inner_consumer_is_polled_where_enough_waits_already() -> None:
    state = Gathering(by_broker=True)
    waiting: Any = [b""] * 5
    state.gathered = Gathered(waiting)
    Deliveries._gather_both(state, 5, lambda _: None)
    assert state.polls == [1]


def test_the_inner_consumer_is_polled_ten_times_a_second_beside_the_tier() -> None:
    state = Gathering()
    for _ in range(30):
        state.gather(5, 5)
        assert len(state.gathered) == 5
        state.clock.now += 0.011
    assert len(state.polls) == 3, "at 0, 0.11 and 0.22 s"


def test_each_call_that_the_tier_cannot_fill_polls_the_inner_consumer() -> None:
    state = Gathering()
    for _ in range(3):
        state.gather(5, 4)
        assert len(state.gathered) == 4
    assert len(state.polls) == 3


@pytest.mark.parametrize("beside", [{"by_broker": True}, {"undecided": True}])
def test_the_inner_consumer_is_polled_in_each_call_if_it_may_deliver(beside: dict[str, bool]) -> None:
    state = Gathering(**beside)
    for _ in range(3):
        state.gather(5, 5)
    assert len(state.polls) == 3


def test_a_call_that_waiting_records_fill_polls_the_inner_consumer() -> None:
    polls: list[tuple[int, float]] = []
    routes = SimpleNamespace(any_not_by_broker=False)
    state: Any = SimpleNamespace(_flows=SimpleNamespace(routes=routes), _begin=lambda _: Deadline(ManualClock(), 7.0))
    waiting: Any = [b""] * 5
    state.gathered = Gathered(waiting)
    state._look, state._gather_broker = lambda _: None, lambda *call: polls.append(call)
    Deliveries._gather(state, 3, 7.0, lambda _: None)
    assert polls == [(1, 0)]


@pytest.mark.parametrize(("timeout", "allowed"), [(7.0, 7.0), (-1.0, math.inf)])
def test_routes_are_decided_within_the_time_of_the_call(timeout: float, allowed: float) -> None:
    asked: list[float] = []
    deadline = None if timeout < 0 else Deadline(ManualClock(), timeout)
    routes = SimpleNamespace(any_not_by_broker=False)
    state: Any = SimpleNamespace(_flows=SimpleNamespace(routes=routes), _begin=lambda _: deadline)
    state.gathered = Gathered([Message(value=b"")])
    state._look, state._gather_broker = asked.append, lambda *_: None
    Deliveries._gather(state, 1, timeout, lambda _: None)
    assert asked == [allowed]


def test_a_closing_consumer_asks_for_no_starts_of_partitions() -> None:
    """close() of another thread waits for the call; a question to the coordinator or the shim could take seconds."""
    asked: list[float] = []
    flows = SimpleNamespace(routes=SimpleNamespace(undecided=True))
    state: Any = SimpleNamespace(_flows=flows, _switched=False, closing=False, gathered=Gathered())
    state._routing = SimpleNamespace(decide=asked.append, recheck=lambda _: False)
    Deliveries._look(state, 3.0)
    state.closing = True
    Deliveries._look(state, 4.0)
    assert asked == [3.0]


@pytest.mark.parametrize(
    ("args", "kwargs", "seconds"),
    [((), {}, 0.25), ((), {"asynchronous": False}, 1.0), ((None, None, False), {}, 1.0), ((None, None, True), {}, 0.25)],
)
def test_synchronous_commit_waits_longer_for_committed_offsets(
    args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float
) -> None:
    asked: list[float] = []
    awaiting = SimpleNamespace(route=Route.AWAITS_COMMITTED)
    state: Any = SimpleNamespace(_flows=SimpleNamespace(routes=SimpleNamespace(undecided=[awaiting])), closing=False)
    state.serves_callbacks, state.gathered = False, Gathered()
    state._commits = SimpleNamespace(ask_at_once=asked.append, commit=lambda *_: "committed")
    state._routing = SimpleNamespace(decide=asked.append)
    state.queue, state.markers = SimpleNamespace(store=lambda: None), SimpleNamespace(before_commit=lambda _: None)
    assert Deliveries.commit(state, args, kwargs) == "committed"
    assert asked == [seconds, seconds]


def flow_at(position: int) -> Any:
    return SimpleNamespace(handed=position, position=position, stores=lambda place: ("stored", place))


def test_each_partition_of_a_batch_stores_its_position() -> None:
    flows = {("t", 0): flow_at(5), ("t", 1): flow_at(-1001), ("t", 2): flow_at(9)}
    state: Any = SimpleNamespace(_stores=True, _flows=SimpleNamespace(get=lambda *key: flows.get(key)))
    state._note_handed_out = lambda _: None
    batch: Any = [Message(topic="t", partition=number, offset=0) for number in (0, 1, 2, 7)]
    assert Deliveries._reached_in(state, batch) == [("stored", 5), ("stored", 9)]
    state._stores = False
    assert Deliveries._reached_in(state, batch) == []


def test_messages_of_known_partitions_are_judged_by_their_route() -> None:
    flow = flow_at(5)
    flows = SimpleNamespace(get=lambda *key: flow if key == ("t", 1) else None)
    state: Any = SimpleNamespace(_flows=flows, _routing=SimpleNamespace(deliverable=lambda *_: None))
    known, other = (Message(topic="t", partition=number, offset=0) for number in (1, 2))
    assert Deliveries._deliverable(state, known) is None
    assert Deliveries._deliverable(state, other) is other


def test_progress_of_revoked_partitions_is_not_reported() -> None:
    told: list[int] = []
    flows: Any = SimpleNamespace(routes=SimpleNamespace(undecided=False), left={("t", 0), ("t", 1)})
    flows.get = lambda *key: key if key in flows.left else None

    def callback(progress: Any) -> None:
        told.append(progress.partition)
        flows.left.discard(("t", 1))

    due = [SimpleNamespace(topic="t", partition=number) for number in (0, 1)]
    state: Any = SimpleNamespace(_flows=flows, _switched=False, _clock=ManualClock(), gathered=Gathered())
    state._routing = SimpleNamespace(recheck=lambda _: True)
    state.markers = SimpleNamespace(look=lambda _: None)
    state._remote = SimpleNamespace(progress_cb=callback)
    state._progress = SimpleNamespace(due=lambda *_: due)
    state._rejoin = lambda: None
    state._seek_what_went_back = lambda: None
    Deliveries._look(state, 0.0)
    assert told == [0]
