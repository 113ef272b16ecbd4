"""One script for confluent's consumer and for this project's: both results are lists of plain values that must be equal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias
from uuid import uuid4

import confluent_kafka
from confluent_kafka import KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, settings

__all__ = ["Script", "Side", "code_of", "same_on_both_sides", "take"]

_CALLABLES = {"on_commit", "stats_cb", "error_cb", "throttle_cb", "oauth_cb"}
Script: TypeAlias = "Callable[[Side], object]"


class Side:
    """Creates the consumers of one run of a script, all in one new group, and closes those that are left open."""

    def __init__(self, broker: KafkaBroker, shim: Shim | None) -> None:
        self.broker = broker
        self.group = f"side-{uuid4()}"
        self.from_store = 0
        self._shim = shim
        self._made: list[confluent_kafka.Consumer] = []

    @property
    def is_direct(self) -> bool:
        return self._shim is not None

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers of this side's consumers."""
        return self.broker.bootstrap_servers if self._shim is None else self._shim.bootstrap_servers

    def consumer(self, **changes: object) -> confluent_kafka.Consumer:
        """A consumer with these settings changed; ``_`` in a name stands for ``.``, None leaves one out."""
        more: Mapping[str, object] = {
            "group.id": self.group,
            "enable.partition.eof": False,
            **{name if name in _CALLABLES else name.replace("_", "."): value for name, value in changes.items()},
        }
        if self._shim is None:
            made = confluent_kafka.Consumer(_without_none(settings(self.broker.bootstrap_servers, "read_committed", **more)))
        else:
            made = Consumer(_without_none(direct(self._shim, "read_committed", **more)))
        self._made.append(made)
        return made

    def plain(self, **changes: object) -> confluent_kafka.Consumer:
        """Returns confluent's consumer on both sides, in the same group."""
        return self._with_shim(None, changes)

    def _with_shim(self, shim: Shim | None, changes: Mapping[str, object]) -> confluent_kafka.Consumer:
        mine, self._shim = self._shim, shim
        try:
            return self.consumer(**changes)
        finally:
            self._shim = mine

    def committed(self, topic: str, partitions: Iterable[int] = (0,)) -> list[tuple[int, int | None]]:
        """Returns the group's committed offset and leader epoch, by a consumer that is not a member."""
        other = self.plain()
        asked = [TopicPartition(topic, partition) for partition in partitions]
        return [(tp.offset, tp.leader_epoch) for tp in other.committed(asked, PATIENCE_SECONDS)]

    def work(self, seconds: float) -> None:
        """The application is busy for ``seconds`` and makes no call."""
        threading.Event().wait(seconds)

    def close(self) -> None:
        for made in self._made:
            made.close()
            if isinstance(made, Consumer):
                count = made.metrics()["remote-fetch-records-total"]
                assert isinstance(count, int)
                self.from_store += count


def _without_none(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value is not None}


def same_on_both_sides(broker: KafkaBroker, shim: Shim, script: Script, *, from_store: bool = True) -> Any:
    """Runs ``script`` with plain consumers and with direct ones at the same time. Returns both results.

    Raises AssertionError if they differ or, with ``from_store``, if nothing was read directly.
    """
    sides = Side(broker, None), Side(broker, shim)

    def run(side: Side) -> object:
        try:
            return script(side)
        finally:
            side.close()

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(run, side) for side in sides]
        theirs, ours = (future.result() for future in futures)
    assert ours == theirs, f"direct: {ours}\nplain: {theirs}"
    assert not from_store or sides[1].from_store > 0, "nothing was read directly"
    return ours


def take(consumer: confluent_kafka.Consumer, count: int, *, by_poll: bool = False) -> list[Message]:
    """Returns at most ``count`` records; an error counts as one."""
    taken: list[Message] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while len(taken) < count:
        assert not deadline.expired(), f"{len(taken)} of {count} came"
        if by_poll:
            message = consumer.poll(0.2)
            taken += [] if message is None else [message]
        else:
            taken += consumer.consume(count - len(taken), 0.2)
    return taken


def code_of(error: BaseException) -> object:
    """Returns the identity of an error: the code of a KafkaException, type and text of other errors."""
    if isinstance(error, KafkaException):
        return "KafkaException", error.args[0].code()
    return type(error).__name__, str(error)
