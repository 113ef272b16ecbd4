"""Runs each scenario in several ways: with confluent_kafka's class, with ours on the tier, and with ours beside the tier.

All ways of a scenario run at the same time, each in its own thread and group, on the same topics. The events of our class
must equal those of confluent_kafka's class with the same call, ``poll`` or ``consume``, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from difflib import unified_diff
from typing import Any, TypeAlias
from uuid import uuid4

import attrs
import confluent_kafka

from kafka_remote_client import Consumer
from tests.parity.recording import Event, Recording, Take, by_consume, by_poll, plain_value
from tests.support.reading import PATIENT

__all__ = ["WAYS", "Run", "Scenario", "Stage", "play"]

_LINES = 60


@attrs.frozen
class Stage:
    """A cluster with a partly tiered log.

    ``shim`` and ``broker`` are bootstrap addresses. ``beside`` has settings with which direct fetch is on but reads nothing.
    ``topics`` are the names and places that scenarios use.
    """

    shim: str
    broker: str
    origin: str
    topics: Mapping[str, Any]
    beside: Mapping[str, Any] = {}

    def settings(self, bootstrap: str, **more: Any) -> dict[str, Any]:
        """Returns settings for any consumer; ``_`` in a setting's name stands for ``.``."""
        return {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def direct(self) -> dict[str, Any]:
        """Returns the settings that direct fetch needs."""
        return {
            "fetch.remote.enabled": True,
            "remote.storage.fetcher.class": "presigned",
            "remote.storage.fetcher.allowed.hosts": self.origin,
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
            **PATIENT,
        }


@attrs.frozen
class Way:
    """``like``: the way whose events these must equal."""

    like: str
    take: Take
    make: Callable[..., confluent_kafka.Consumer]
    settings: Callable[[Stage], dict[str, Any]]


def _plain(stage: Stage) -> dict[str, Any]:
    return stage.settings(stage.broker)


def _on_the_tier(stage: Stage) -> dict[str, Any]:
    return stage.settings(stage.shim) | stage.direct()


def _beside_the_tier(stage: Stage) -> dict[str, Any]:
    return stage.settings(stage.broker) | stage.direct() | dict(stage.beside)


def _turned_off(stage: Stage) -> dict[str, Any]:
    return stage.settings(stage.broker) | stage.direct() | {"fetch.remote.enabled": False}


WAYS = {
    "plain, poll": Way("plain, poll", by_poll, confluent_kafka.Consumer, _plain),
    "plain, consume": Way("plain, consume", by_consume, confluent_kafka.Consumer, _plain),
    "on the tier, poll": Way("plain, poll", by_poll, Consumer, _on_the_tier),
    "on the tier, consume": Way("plain, consume", by_consume, Consumer, _on_the_tier),
    "beside the tier, poll": Way("plain, poll", by_poll, Consumer, _beside_the_tier),
    "beside the tier, consume": Way("plain, consume", by_consume, Consumer, _beside_the_tier),
    "turned off, poll": Way("plain, poll", by_poll, Consumer, _turned_off),
}


class Run:
    """One way of one scenario: makes its consumers and keeps their events in one list."""

    def __init__(self, stage: Stage, way: Way) -> None:
        self.topics = stage.topics
        self.group = f"parity-{uuid4()}"
        self.events: list[Event] = []
        self.from_store = 0
        self._stage = stage
        self._way = way
        self._opened: list[Recording] = []

    def open(self, *callbacks: str, **settings: Any) -> Recording:
        """Returns a consumer of this run's group; ``_`` in a setting's name stands for ``.``. ``callbacks`` become events."""
        more = dict.fromkeys(callbacks) | {name.replace("_", "."): value for name, value in settings.items()}
        made = {"group.id": self.group, **self._way.settings(self._stage), **more}
        recording = Recording(self._way.make, made, self.events, self._way.take)
        self._opened.append(recording)
        return recording

    def refuses_to_open(self, *wrong: Any, **settings: Any) -> None:
        """Records the error of a consumer that cannot be made. ``wrong``: arguments in place of a configuration."""
        more = {name.replace("_", "."): value for name, value in settings.items()}
        try:
            made = self._way.make(*wrong) if wrong else self._way.make({**self._way.settings(self._stage), **more})
        except Exception as error:
            self.events.append(("refused", plain_value(error)))
        else:
            made.close()
            raise AssertionError(f"{settings} were taken")

    def note(self, *what: Any) -> None:
        """Adds an event of the scenario itself."""
        self.events.append(("noted", *what))

    def committed(self, *partitions: confluent_kafka.TopicPartition) -> None:
        """Records what the group has committed, as a consumer outside the comparison sees it."""
        asking = confluent_kafka.Consumer(self._stage.settings(self._stage.broker) | {"group.id": self.group})
        try:
            answered = asking.committed(list(partitions), timeout=30)
        finally:
            asking.close()
        self.note("committed", [(tp.topic, tp.partition, tp.offset, tp.leader_epoch, tp.metadata) for tp in answered])

    def finish(self) -> None:
        """Closes all open consumers and counts the records of the store."""
        for recording in self._opened:
            recording.close()
            if isinstance(recording.inner, Consumer):
                count = recording.inner.metrics()["remote-fetch-records-total"]
                assert isinstance(count, int)
                self.from_store += count


Scenario: TypeAlias = Callable[[Run], None]


def play(
    stage: Stage, scenario: Scenario, *, reads_the_tier: bool | None, in_order: bool = True, ways: Iterable[str] = WAYS
) -> None:
    """Runs a scenario in all ways and compares them. ``reads_the_tier``: records must have come from the store, and only then;
    ``None`` if the scenario is not about that.

    ``in_order``: whether the order of events between partitions is defined, as with one partition. With several partitions the
    plain consumer gives both orders: ``test_plain_consumer.py``.
    """

    def one(way: Way) -> Run:
        run = Run(stage, way)
        try:
            scenario(run)
        finally:
            run.finish()
        return run

    with ThreadPoolExecutor(len(WAYS), thread_name_prefix="parity") as threads:
        under_way = {name: threads.submit(one, WAYS[name]) for name in ways}
        wait(under_way.values())
    for name, future in under_way.items():
        if (error := future.exception()) is not None:
            raise AssertionError(f"{name}: {error!r}") from error
    runs = {name: future.result() for name, future in under_way.items()}
    for name, run in runs.items():
        like = WAYS[name].like
        expected, told = _ordered(runs[like].events, in_order), _ordered(run.events, in_order)
        if told != expected:
            lines = unified_diff([*map(repr, expected)], [*map(repr, told)], like, name, lineterm="", n=3)
            raise AssertionError("\n".join([*lines][:_LINES]))
        assert reads_the_tier is None or (run.from_store > 0) == (reads_the_tier and name.startswith("on the tier")), (
            name,
            run.from_store,
        )


def _ordered(events: list[Event], in_order: bool) -> list[Event]:
    """Returns the events; if the order between partitions is undefined, sorts each stretch of deliveries by partition."""
    if in_order:
        return events
    ordered: list[Event] = []
    stretch: list[Event] = []
    for event in [*events, ("over",)]:
        if event[0] in ("record", "end"):
            stretch.append(event)
        else:
            ordered += sorted(stretch, key=lambda delivered: delivered[1:3])
            stretch = []
            ordered.append(event)
    return ordered
