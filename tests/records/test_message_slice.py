"""A slice that hands out one message at a time, and its poll(), in both implementations."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from tests.support.decoders import IMPLEMENTATIONS

pytestmark = pytest.mark.parametrize("implementation", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS)


def messages(count: int) -> list[Message]:
    return [Message(topic="t", partition=0, offset=number) for number in range(count)]


def poller(implementation: Any) -> Any:
    """An object with ``poll`` as its method that records each request for more."""

    class Poller:
        poll = implementation.slice_poll("handed_out", "ask")

        def __init__(self) -> None:
            self.handed_out = implementation.MessageSlice()
            self.asked: list[float] = []

        def ask(self, timeout: float) -> str:
            self.asked.append(timeout)
            return "from elsewhere"

    return Poller()


def test_messages_are_handed_out_in_order_until_none_is_left(implementation: Any) -> None:
    handed_out = implementation.MessageSlice()
    assert (handed_out.take(), handed_out.taken, handed_out.messages, handed_out.due) == (None, 0, [], False)
    given = messages(3)
    handed_out.begin(given)
    taken = [handed_out.take() for _ in range(4)]
    assert [id(message) for message in taken] == [id(message) for message in [*given, None]]
    assert handed_out.taken == 3
    assert handed_out.messages == given


@pytest.mark.parametrize("count", [0, 1, 3])
def test_stopping_returns_the_waiting_messages_and_keeps_the_others(implementation: Any, count: int) -> None:
    handed_out = implementation.MessageSlice()
    given = messages(3)
    handed_out.begin(list(given))
    for _ in range(count):
        handed_out.take()
    assert [id(message) for message in handed_out.stop()] == [id(message) for message in given[count:]]
    assert handed_out.take() is None
    assert handed_out.taken == count
    assert [id(message) for message in handed_out.messages] == [id(message) for message in given[:count]]
    assert handed_out.stop() == []


def test_poll_returns_the_slice_then_requests_more_with_its_time_out(implementation: Any) -> None:
    one = poller(implementation)
    given = messages(2)  # without values, so their truth value is false
    one.handed_out.begin(given)
    assert one.poll() is given[0]
    assert one.poll(timeout=1.0) is given[1]
    assert (one.poll(2.5), one.poll(timeout=0), one.poll()) == ("from elsewhere",) * 3
    assert one.asked == [2.5, 0, -1]


def test_poll_refuses_an_invalid_time_out_and_keeps_the_slice(implementation: Any) -> None:
    one = poller(implementation)
    given = messages(1)
    one.handed_out.begin(given)
    for no_time in ("5", b"5", None, []):
        with pytest.raises(TypeError, match="must be real number, not "):
            one.poll(no_time)
    assert one.poll(True) is given[0]


def test_poll_calls_the_owner_first_when_it_is_due(implementation: Any) -> None:
    one = poller(implementation)
    given = messages(2)
    one.handed_out.begin(given)
    assert one.poll() is given[0]
    one.handed_out.due = True
    assert one.poll(1) == "from elsewhere"
    one.handed_out.due = False
    assert one.poll() is given[1]
