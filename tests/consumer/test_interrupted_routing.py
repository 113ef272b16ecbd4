"""A signal's handler that raises in the middle of a hand-over: the partition is delivered all the same."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.read_end import ReadEnd
from tests.consumer.routing_rig import BOUNDS, FakeReader, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_read_whose_start_was_interrupted_is_started_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rig.engine, "reader", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rig.adopted(20)
    (flow,) = rig.flows
    assert flow.reader is None
    rig.clock.now += 1
    rig.routing.recheck()
    assert (flow.route, flow.reader is None) == (Route.REMOTE, False)
    assert [request.start_offset for request in rig.engine.read_requests] == [20]
    rig.clock.now += 1
    rig.routing.recheck()
    assert len(rig.engine.read_requests) == 1


def test_a_taken_end_whose_hand_over_was_interrupted_is_read_again(rig: Rig) -> None:
    flow = rig.adopted(20)
    assert isinstance(flow.reader, FakeReader)
    ended = flow.reader
    ended.state = ReaderState.ENDED
    rig.clock.now += 1
    rig.routing.recheck()
    assert ended.stopped
    assert [request.start_offset for request in rig.engine.read_requests] == [20, 20]


def test_a_hand_over_to_the_broker_that_was_interrupted_is_repeated(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: TopicPartition) -> None:
        raise KeyboardInterrupt

    rig.engine.items = [ReadEnd("local", 100, 7, offsets=BOUNDS)]
    flow = rig.adopted(20)
    with monkeypatch.context() as patched:
        patched.setattr(rig, "_seek", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rig.routing.take(1)
    rig.calls.clear()
    rig.clock.now += 0.2
    rig.routing.recheck()
    assert rig.calls == [("seek", 100), ("resume", 100), ("seek", 100)]
    assert (flow.route, flow.moved) == (Route.BROKER, False)
    rig.clock.now += 0.2
    rig.routing.recheck()
    assert len(rig.calls) == 3


def test_a_partition_is_not_read_again_during_its_revocation(rig: Rig) -> None:
    flow = rig.adopted(20)
    flow.revoked = True
    flow.detach()
    rig.clock.now += 1
    rig.routing.recheck()
    assert (flow.reader, len(rig.engine.read_requests)) == (None, 1)
