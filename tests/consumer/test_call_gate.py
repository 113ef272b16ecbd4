"""One caller at a time, as in confluent_kafka: several threads, coroutines, and a close by another thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import AIOConsumer, Consumer
from kafka_remote_client.consumer.call_gate import CallGate
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    filled_cluster,
    from_store,
    plain_rows,
    plain_settings,
    row,
    take,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 400
HERE = [TopicPartition(TOPIC, 0)]
_A_WHILE_SECONDS = 0.2
"""In which a thread that is not held back gets somewhere."""


cluster = filled_cluster(TOPIC, COUNT)


def opened(cluster: EmbeddedCluster, kind: str, **more: object) -> confluent_kafka.Consumer:
    settings = (direct_settings if kind == "direct" else plain_settings)(cluster, enable_partition_eof=False, **more)
    return (Consumer if kind == "direct" else confluent_kafka.Consumer)(settings)


class Shared:
    """Threads that use one consumer until all records of the topic are delivered."""

    def __init__(self, consumer: confluent_kafka.Consumer) -> None:
        self._consumer = consumer
        self._all = threading.Event()
        self.got: list[Message] = []

    def _until_all(self, work: Callable[[], Iterable[Message | None]]) -> None:
        try:
            while not self._all.is_set():
                self.got += [message for message in work() if message is not None]
                if len(self.got) >= COUNT:
                    self._all.set()
        except BaseException:
            self._all.set()
            raise

    def poll(self) -> None:
        self._until_all(lambda: [self._consumer.poll(0.05)])

    def consume(self) -> None:
        self._until_all(lambda: self._consumer.consume(3, 0.05))

    def look(self) -> None:
        def work() -> list[Message]:
            assert len(self._consumer.position(HERE)) == 1
            assert len(self._consumer.assignment()) == 1
            return []

        self._until_all(work)

    def halt(self) -> None:
        def work() -> list[Message]:
            self._consumer.pause(HERE)
            self._consumer.resume(HERE)
            self._all.wait(0.05)
            return []

        self._until_all(work)


@pytest.mark.parametrize("kind", ["plain", "direct"])
def test_threads_that_share_a_consumer_get_each_record_once(cluster: EmbeddedCluster, kind: str) -> None:
    with opened(cluster, kind) as consumer, ThreadPoolExecutor(5) as pool:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        shared = Shared(consumer)
        for call in [pool.submit(work) for work in (shared.poll, shared.poll, shared.consume, shared.look, shared.halt)]:
            call.result()
    assert sorted(message.offset() or 0 for message in shared.got) == list(range(COUNT))


@pytest.mark.parametrize(("method", "arguments"), [("poll", (-1,)), ("consume", (COUNT, -1))])
def test_a_call_without_end_is_ended_by_a_close_from_another_thread(
    cluster: EmbeddedCluster, method: str, arguments: tuple[Any, ...]
) -> None:
    consumer = opened(cluster, "direct")
    consumer.assign([TopicPartition(TOPIC, 0, COUNT - 1)])
    assert len(take(consumer, 1)) == 1
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(getattr(consumer, method), *arguments)
        wait_until(waiting.running, "the call began")
        consumer.close()
        with pytest.raises(RuntimeError, match="Consumer closed"):
            waiting.result(PATIENCE_SECONDS)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


def test_a_call_with_an_end_returns_what_it_has_and_close_commits_that(cluster: EmbeddedCluster) -> None:
    settings = {"group_id": "closed-elsewhere", "enable_auto_commit": True}
    consumer = opened(cluster, "direct", **settings)
    assert isinstance(consumer, Consumer)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.consume, COUNT + 1, 10 * PATIENCE_SECONDS)
        wait_until(lambda: from_store(consumer) > 50, "records were gathered")
        consumer.close()
        messages = waiting.result(PATIENCE_SECONDS)
    assert [row(message) for message in messages] == plain_rows(cluster, TOPIC)[: len(messages)]
    assert len(messages) > 50
    with opened(cluster, "plain", **settings) as judge:
        (committed,) = judge.committed(HERE, PATIENCE_SECONDS)
    assert committed.offset == len(messages)


def test_poll_with_an_end_gives_nothing_once_another_thread_closes(cluster: EmbeddedCluster) -> None:
    consumer = opened(cluster, "direct")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.poll, 10 * PATIENCE_SECONDS)
        wait_until(waiting.running, "the call began")
        consumer.close()
        # Either it waited already, or it found the consumer closed when it began.
        with contextlib.suppress(RuntimeError):
            assert waiting.result(PATIENCE_SECONDS) is None


def test_coroutines_that_share_a_consumer_get_each_record_once(cluster: EmbeddedCluster) -> None:
    async def scenario() -> list[int]:
        got: list[int] = []
        async with AIOConsumer(direct_settings(cluster, enable_partition_eof=False), max_workers=4) as consumer:

            async def on_assign(_: AIOConsumer, partitions: list[TopicPartition]) -> None:
                # Side by side, in other threads than the call that waits for this callback.
                await consumer.assign([TopicPartition(tp.topic, tp.partition, 0) for tp in partitions])
                await asyncio.gather(consumer.position(HERE), consumer.assignment(), consumer.pause(HERE))
                await consumer.resume(HERE)

            async def poll() -> None:
                while len(got) < COUNT:
                    message = await consumer.poll(0.05)
                    if message is not None:
                        got.append(message.offset())

            async def look() -> None:
                while len(got) < COUNT:
                    await consumer.position(HERE)
                    await asyncio.sleep(0.01)

            await consumer.subscribe([TOPIC], on_assign=on_assign)
            await asyncio.wait_for(asyncio.gather(poll(), poll(), look()), 3 * PATIENCE_SECONDS)
        return got

    assert sorted(asyncio.run(scenario())) == list(range(COUNT))


def _enters_elsewhere(gate: CallGate) -> threading.Event:
    """An event that is set once another thread could enter the gate."""
    entered = threading.Event()

    def enter() -> None:
        with gate:
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    return entered


def test_gate_nests_for_its_caller_and_is_shut_for_others() -> None:
    gate = CallGate(lambda: 0)
    with gate:
        with gate:
            other = _enters_elsewhere(gate)
            assert not other.wait(_A_WHILE_SECONDS)
        assert not other.wait(_A_WHILE_SECONDS)
    assert other.wait(PATIENCE_SECONDS)


def test_gate_is_open_to_another_thread_of_the_same_caller() -> None:
    gate = CallGate(lambda: 7)
    with gate:
        assert _enters_elsewhere(gate).wait(PATIENCE_SECONDS)
