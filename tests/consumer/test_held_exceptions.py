"""An exception of a callback is raised by the call that served it. No record is lost, and close() still ends."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.held_exceptions import ClosedInCallback, HeldExceptions
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import direct_settings, filled_cluster, from_broker
from tests.support.waiting import wait_until

TOPIC = "orders"
COUNT = 3_000
OFTEN = 3
"""Each third call of a callback raises."""
PACE = 0.0002
"""Seconds that the application takes for a record, so that several exceptions come between records."""


cluster = filled_cluster(TOPIC, COUNT, segment_bytes=1 << 20)
"""Everything is local, so that confluent_kafka's own call has all records in hand."""


def fail(*_: object, **__: object) -> None:
    raise LookupError("mine")


def test_what_is_raised_is_held_and_comes_out_once() -> None:
    held = HeldExceptions()
    held.come_out()
    held.wrapped(fail)("anything")
    with pytest.raises(LookupError, match="mine"):
        held.come_out()
    held.come_out()


def test_of_several_the_last_one_comes_out_as_with_confluent_kafka() -> None:
    held = HeldExceptions()
    for error in (ValueError("first"), KeyboardInterrupt(), KeyError("last")):

        def raises(error: BaseException = error) -> None:
            raise error

        held.wrapped(raises)()
    with pytest.raises(KeyError, match="last"):
        held.come_out()


def test_only_callbacks_and_the_logger_are_wrapped() -> None:
    calls: list[tuple[Any, ...]] = []
    logger = logging.Logger("of the application")  # noqa: LOG001 - it belongs to this test and not to the process
    handler = logging.Handler()
    handler.emit = lambda record: calls.append((record.levelno, record.getMessage()))  # type: ignore[method-assign] # a fake
    logger.addHandler(handler)
    given = {
        **{name: lambda *what, name=name: calls.append((name, *what)) for name in ("error_cb", "stats_cb", "throttle_cb")},
        "on_commit": None,
        "oauth_cb": fail,
        "logger": logger,
        "group.id": "g",
    }
    wrapped = HeldExceptions().wrap(given)
    assert {name: wrapped[name] for name in ("on_commit", "oauth_cb", "group.id")} == {
        "on_commit": None,
        "oauth_cb": fail,
        "group.id": "g",
    }
    for name in ("error_cb", "stats_cb", "throttle_cb"):
        wrapped[name](1)
    wrapped["logger"].log(logging.WARNING, "%s [%s] %s", "FAC", "client", "text")
    assert calls == [("error_cb", 1), ("stats_cb", 1), ("throttle_cb", 1), (logging.WARNING, "FAC [client] text")]
    assert HeldExceptions().wrap({"logger": None, "stats_cb": "none"}) == {"logger": None, "stats_cb": "none"}


def test_callbacks_after_an_exception_wait_for_the_next_call_in_order() -> None:
    held = HeldExceptions()
    calls: list[object] = []

    def stats_cb(statistics: str) -> None:
        calls.append(statistics)
        if statistics in {"1", "3"}:
            raise LookupError(statistics)

    settings = held.wrap({"stats_cb": stats_cb, "error_cb": calls.append})
    for statistics in "123":
        settings["stats_cb"](statistics)
    settings["error_cb"]("error")
    assert calls == ["1"]
    assert held.call_waiting()
    for _ in range(2):
        with pytest.raises(LookupError):
            held.come_out()
        assert held.call_waiting() == (calls == ["1", "2", "3"])
    assert calls == ["1", "2", "3", "error"]
    held.come_out()


def test_callbacks_after_close_wait_for_it_and_its_request_comes_first() -> None:
    held = HeldExceptions()
    calls: list[object] = []
    settings = held.wrap({"stats_cb": calls.append})
    held.closes = True
    held.wrapped(fail)()
    settings["stats_cb"]("later")
    assert held.call_waiting()
    with pytest.raises(ClosedInCallback):
        held.come_out()
    assert calls == []
    held.closes = False
    with pytest.raises(LookupError, match="mine"):
        held.finish()
    assert calls == ["later"]


def test_rebalance_callback_never_waits() -> None:
    held = HeldExceptions()
    calls: list[object] = []
    held.wrapped(fail)()
    held.wrapped(calls.append)("revoked")
    assert calls == ["revoked"]


def test_no_callback_waits_any_more_after_close() -> None:
    held = HeldExceptions()
    calls: list[object] = []

    def error_cb(error: object) -> None:
        calls.append(error)
        raise LookupError(error)

    settings = held.wrap({"error_cb": error_cb})
    for error in "123":
        settings["error_cb"](error)
    with pytest.raises(LookupError, match="3"):
        held.finish()
    assert calls == ["1", "2", "3"]
    held.finish()


@pytest.mark.embedded
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_an_exception_ends_a_call_whose_callbacks_never_end(cluster: EmbeddedCluster, call: str) -> None:
    """librdkafka has the next statistics before the callback returns, so the inner call alone would not end."""
    calls: list[int] = []
    raises_at, slow_until = 20, 400
    raised = threading.Event()

    def stats_cb(_: str) -> None:
        calls.append(len(calls))
        if not raised.is_set() and len(calls) < slow_until:
            threading.Event().wait(0.005)
        if len(calls) == raises_at:
            raise LookupError("mine")

    consumer = Consumer(direct_settings(cluster, statistics_interval_ms=1) | {"stats_cb": stats_cb})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    while not raised.is_set():
        try:
            _ = consumer.poll(0.1) if call == "poll" else consumer.consume(1, 0.1)
        except LookupError:
            raised.set()
    assert len(calls) == raises_at
    consumer.close()
    assert len(calls) > raises_at


@pytest.mark.embedded
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_no_record_is_lost_by_what_callbacks_raise_and_close_ends(cluster: EmbeddedCluster, call: str) -> None:
    calls = [0]

    def stats_cb(_: str) -> None:
        calls[0] += 1
        if calls[0] % OFTEN == 0:
            raise LookupError("mine")

    # At shorter intervals a busy machine has statistics to tell in each call, and no call ends with a record.
    settings = direct_settings(cluster, enable_partition_eof=False, statistics_interval_ms=20) | {"stats_cb": stats_cb}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    came: list[int | None] = []
    raised = [0]
    application = threading.Event()

    def deliver() -> bool:
        try:
            messages = [consumer.poll(0.1)] if call == "poll" else consumer.consume(100, 0.1)
            came.extend(message.offset() for message in messages if message is not None)
            application.wait(PACE * len(messages))
        except LookupError:
            raised[0] += 1
        return len(came) >= COUNT and raised[0] > 0

    wait_until(deliver, "all records, and an exception", pause=0)
    assert came == list(range(COUNT))
    assert from_broker(consumer) == COUNT
    close(consumer)


def close(consumer: Consumer) -> None:
    """close() serves statistics too, so it may raise; the consumer is closed then."""
    with contextlib.suppress(LookupError):
        consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


@pytest.mark.embedded
@pytest.mark.parametrize("where", ["on_assign", "on_revoke"])
def test_what_a_rebalance_callback_raises_comes_out_and_no_record_is_lost(cluster: EmbeddedCluster, where: str) -> None:
    consumer = Consumer(direct_settings(cluster, enable_partition_eof=False))
    callbacks: dict[str, Callable[..., None]] = {where: fail}
    consumer.subscribe([TOPIC], **callbacks)
    came: list[int | None] = []
    raised = [0]

    def deliver() -> bool:
        try:
            came.extend(message.offset() for message in consumer.consume(100, 0.1))
        except LookupError:
            raised[0] += 1
        return len(came) >= COUNT

    wait_until(deliver, "all records", pause=0)
    assert came == list(range(COUNT))
    assert raised[0] == (where == "on_assign")
    if where == "on_revoke":
        with pytest.raises(LookupError, match="mine"):
            consumer.close()
    close(consumer)


@pytest.mark.embedded
def test_an_error_callback_that_raises_ends_the_call_at_once() -> None:
    """confluent_kafka's consumer would raise it at the end of the call, after ten minutes."""
    errors: list[KafkaError] = []

    def error_cb(error: KafkaError) -> None:
        errors.append(error)
        if len(errors) == 1:
            raise LookupError("mine")

    nowhere = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, "error_cb": error_cb}
    direct = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory"}
    with Consumer({**nowhere, **direct}) as consumer:
        consumer.subscribe([TOPIC])
        with pytest.raises(LookupError, match="mine"):
            consumer.consume(1, 600)
    assert errors
