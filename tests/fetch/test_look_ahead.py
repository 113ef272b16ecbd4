"""What a reader asks for and when, step by step: the test holds the engine's lock, so its threads do nothing meanwhile."""

from __future__ import annotations

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import LocationError, LocationExpiredError
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.remote_reader import LocateTask, RangeTask, RemoteReader
from kafka_remote_client.model import NotRemote
from tests.support.golden_tier import GoldenTierSource
from tests.support.reader_rig import TOPIC, UNCOMMITTED, rig


def asked_ahead(reader: RemoteReader, source: GoldenTierSource) -> tuple[list[RangeTask], LocateTask | None]:
    """Gives the reader a location and starts its ranges until it asks for the next location, or wants nothing more."""
    first = reader.next_task(0.0)
    assert isinstance(first, LocateTask)
    assert not first.ahead
    reader.started(first)
    found = source.locate(
        TOPIC,
        0,
        first.offset,
        leader_epoch=-1,
        isolation_level=UNCOMMITTED,
        max_bytes=80_000,
        deadline=Deadline(SystemClock(), 60.0),
    )
    reader.located(first, found, first.offset)
    ranges = []
    while isinstance(task := reader.next_task(0.0), RangeTask):
        reader.started(task)
        ranges.append(task)
    if task is not None:
        assert task.ahead
        reader.started(task)
    return ranges, task


@pytest.mark.parametrize("answer", [LocationError("gone"), NotRemote("local")], ids=["failed", "refused"])
def test_a_relocation_forgets_what_was_answered_ahead(answer: LocationError | NotRemote) -> None:
    source = GoldenTierSource()
    with rig(source) as made, made.engine.lock:
        made.engine.room.read_ahead.landed(0.1)
        reader = made.engine.reader(TOPIC, 0, 0, isolation_level=UNCOMMITTED)
        ranges, ahead = asked_ahead(reader, source)
        assert ahead is not None
        reader.located(ahead, answer, ahead.offset)
        reader.landed(ranges[0], None, LocationExpiredError("expired"))
        begun = reader.begin_decode()
        assert begun is not None
        reader.end_decode(*begun, [], None)
        assert reader.state is ReaderState.LOCATING
        assert asked_ahead(reader, source)[1] is not None
        reader.stop()


def test_nothing_is_asked_for_behind_the_bound_of_a_read() -> None:
    source = GoldenTierSource()
    with rig(source) as made, made.engine.lock:
        made.engine.room.read_ahead.landed(0.1)
        unbounded = made.engine.reader(TOPIC, 0, 0, isolation_level=UNCOMMITTED)
        _, ahead = asked_ahead(unbounded, source)
        unbounded.stop()
        assert ahead is not None
        reader = made.engine.reader(TOPIC, 0, 0, isolation_level=UNCOMMITTED, end_offset=ahead.offset)
        assert asked_ahead(reader, source)[1] is None
        reader.stop()


def test_a_postponed_location_is_asked_for_once_its_time_comes() -> None:
    with rig() as made, made.engine.lock:
        reader = made.engine.reader(TOPIC, 0, 0, isolation_level=UNCOMMITTED)
        first = reader.next_task(0.0)
        assert isinstance(first, LocateTask)
        reader.started(first)
        reader.postponed(5.0)
        assert reader.next_task(4.9) is None
        assert isinstance(reader.next_task(5.0), LocateTask)
        reader.stop()
