"""Asking a source: a failure of any kind is an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import LocationError
from kafka_remote_client.fetch.locate import locate
from kafka_remote_client.fetch.remote_reader import LocateTask, RemoteReader
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets
from tests.support.locations import ManualClock


class Source:
    """Raises the same from each question."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def offsets(self, *_: Any) -> PartitionOffsets:
        raise self._error

    def locate(self, *_: Any, **__: Any) -> Any:
        raise self._error


def task(*, stop_at_local: bool) -> LocateTask:
    reader = SimpleNamespace(
        topic="orders",
        partition=0,
        offsets=PartitionOffsets(earliest_local=5),
        stop_at_local=stop_at_local,
        isolation_level=IsolationLevel.READ_COMMITTED,
    )
    return LocateTask(cast("RemoteReader", reader), 10, -1, ahead=False)


@pytest.mark.parametrize("stop_at_local", [True, False], ids=["bounds", "location"])
def test_a_documented_error_is_the_answer(stop_at_local: bool) -> None:
    error, clock = LocationError("gone"), ManualClock()
    source = cast("LocationSource", Source(error))
    found = locate(source, task(stop_at_local=stop_at_local), 1000, ("ApacheKafkaV1",), Deadline(clock, 1.0), clock)
    assert found.answer is error
    assert found.offset == 10


@pytest.mark.parametrize(("offset", "asked"), [(4, ["locate"]), (5, ["offsets", "locate"]), (6, ["offsets", "locate"])])
def test_bounds_are_asked_anew_from_the_known_local_start_on(offset: int, asked: list[str]) -> None:
    calls: list[str] = []

    class Moved:
        """The local log begins later than the reader knows."""

        def offsets(self, *_: Any) -> PartitionOffsets:
            calls.append("offsets")
            return PartitionOffsets(earliest_local=9)

        def locate(self, *_: Any, **__: Any) -> NotRemote:
            calls.append("locate")
            return NotRemote("missing")

    clock, wanted = ManualClock(), attrs.evolve(task(stop_at_local=True), offset=offset)
    locate(cast("LocationSource", Moved()), wanted, 1000, ("ApacheKafkaV1",), Deadline(clock, 1.0), clock)
    assert calls == asked
