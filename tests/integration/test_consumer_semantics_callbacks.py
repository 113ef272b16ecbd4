"""Rebalance callbacks of a consumer with direct fetch: the call that raises their exceptions.

confluent's consumer runs each script too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client.shim.server import Shim
from tests.support.group_topic import write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import shim_before
from tests.support.side_by_side import Side, code_of, same_on_both_sides
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    name = f"callbacks-{uuid4().hex[:8]}"
    write_group_topic(running_broker, name, 1)
    return name


@pytest.fixture
def shim(kafka_broker: KafkaBroker, topic: str) -> Iterator[Shim]:
    with shim_before(kafka_broker) as running:
        yield running


@pytest.mark.parametrize("call", ["poll", "consume"])
def test_an_exception_of_a_rebalance_callback_is_raised_by_the_same_call(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, call: str
) -> None:
    def script(side: Side) -> object:
        surfaced: list[object] = []
        came: list[Message] = []
        consumer = side.consumer(session_timeout_ms=30_000, heartbeat_interval_ms=300)

        def raising(name: str) -> Callable[..., None]:
            def called(_: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
                raise LookupError(f"of {name} with {len(partitions)}")

            return called

        def attempt(name: str, method: Callable[[], object]) -> object:
            try:
                return method()
            except LookupError as error:
                surfaced.append((name, code_of(error)))
                return None

        def deliver() -> None:
            if call == "poll":
                message = attempt("poll", lambda: consumer.poll(0.1))
                came.extend([] if message is None else [message])  # type: ignore[list-item] # it is a Message
            else:
                came.extend(attempt("consume", lambda: consumer.consume(10, 0.1)) or [])

        consumer.subscribe([topic], on_assign=raising("on_assign"), on_revoke=raising("on_revoke"))
        wait_until(lambda: deliver() or len(came) >= 20, "records", pause=0)
        seen = [message.offset() for message in came]
        attempt("unsubscribe", consumer.unsubscribe)
        wait_until(lambda: deliver() or not consumer.assignment(), "the revocation", pause=0)
        consumer.subscribe([topic], on_revoke=raising("on_revoke at the end"))
        wait_until(lambda: deliver() or consumer.assignment(), "the second assignment", pause=0)
        attempt("close", consumer.close)
        return [seen == list(range(len(seen))), surfaced]

    in_order, surfaced = same_on_both_sides(kafka_broker, shim, script)
    assert in_order
    assert surfaced[0] == (call, ("LookupError", "of on_assign with 1"))


@pytest.mark.parametrize("name", ["on_assign", "on_revoke", "on_commit"])
def test_close_in_a_callback_ends(kafka_broker: KafkaBroker, shim: Shim, topic: str, name: str) -> None:
    """confluent's consumer runs no part of this: its close() in a callback may never return."""
    seen: list[str] = []

    def closing(*_: object) -> None:
        seen.append(name)
        consumer.close()

    side = Side(kafka_broker, shim)
    consumer = side.consumer(**({"on_commit": closing} if name == "on_commit" else {}))
    consumer.subscribe([topic], **({} if name == "on_commit" else {name: closing}))
    wait_until(lambda: consumer.poll(0.1) or seen, "a record or the callback", pause=0)
    if name == "on_revoke":
        consumer.unsubscribe()
    elif name == "on_commit":
        consumer.commit(asynchronous=True)
    while not seen:
        consumer.poll(0.1)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.assignment()
    side.close()
    assert seen == [name]
