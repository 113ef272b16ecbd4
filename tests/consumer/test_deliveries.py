"""How much is gathered, and the counts. test_direct_consumer tests the delivery itself on the embedded cluster."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_remote_client.clock import Deadline
from kafka_remote_client.consumer.deliveries import Deliveries
from tests.support.locations import ManualClock


@pytest.mark.parametrize(("size", "ahead"), [(10, 500), (1 << 20, 3), (8 << 20, 1)])
def test_poll_gathers_fewer_large_messages_ahead(size: int, ahead: int) -> None:
    handed_out = SimpleNamespace(hand_out=lambda messages, of_one_partition: messages[0])
    tiers = SimpleNamespace(unplaced=set())
    state: Any = SimpleNamespace(gathered=[bytes(size)], _tiers=tiers, _ahead=400, queue=handed_out, _flows=[])
    state._of_one_partition = True
    state._as_messages = lambda: None
    assert Deliveries._begin_slice(state) == bytes(size)
    assert state._ahead == ahead


def test_the_ends_of_partitions_are_no_records_of_the_broker() -> None:
    state: Any = SimpleNamespace(_behaviour=SimpleNamespace(announces_ends=True), broker_records=0, _error_waits=False)
    record, end = SimpleNamespace(error=lambda: None), SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF))
    arrived: Any = [end, record]
    Deliveries._count(state, arrived)
    assert state.broker_records == 1
    assert state._error_waits


def test_the_inner_consumer_is_polled_where_enough_waits_already() -> None:
    counts: list[int] = []
    state: Any = SimpleNamespace(_broker_turn=False, gathered=[b""] * 5, _count_gathered=5, _in_runs=0)
    state._gather_broker = lambda count, seconds: counts.append(count) or 0
    Deliveries._gather_both(state, 5, lambda room: None)
    assert counts == [6]


@pytest.mark.parametrize(("timeout", "allowed"), [(7.0, 7.0), (-1.0, math.inf)])
def test_routes_are_decided_within_the_time_of_the_call(timeout: float, allowed: float) -> None:
    asked: list[float] = []
    deadline = None if timeout < 0 else Deadline(ManualClock(), timeout)
    routes = SimpleNamespace(any_not_by_broker=False)
    state: Any = SimpleNamespace(_flows=SimpleNamespace(routes=routes), _begin=lambda _: deadline)
    state._count_gathered, state._in_runs = 1, 0
    state._look, state._gather_broker = asked.append, lambda *_: None
    Deliveries._gather(state, 1, timeout, lambda _: None)
    assert asked == [allowed]
