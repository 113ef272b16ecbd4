"""Asks a location source on behalf of a reader, and judges the answer."""

from __future__ import annotations

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.plan import refusal
from kafka_remote_client.fetch.remote_reader import LocateTask
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.model import UNKNOWN_OFFSET, NotRemote, PartitionOffsets, SegmentLocation

__all__ = ["Located", "locate"]


@attrs.frozen
class Located:
    """The answer, the numeric offset it is for, and what was learnt about the partition's tiers."""

    answer: SegmentLocation | NotRemote | DirectFetchError
    offset: int
    offsets: PartitionOffsets


def locate(
    source: LocationSource, task: LocateTask, window: int, formats: tuple[str, ...], deadline: Deadline, clock: Clock
) -> Located:
    """Never raises where ``source`` raises as it documents: a failure is an answer too.

    Where the reader stops at the local log, the tiers' bounds are asked first, unless the last ones known already put the
    offset below the local log's start (which never moves back).
    """
    reader, offset, offsets = task.reader, task.offset, task.reader.offsets
    try:
        if offset < 0 or (reader.stop_at_local and offset >= offsets.earliest_local):
            asked = source.offsets(reader.topic, reader.partition, deadline)
            offsets = attrs.evolve(asked, last_stable=offsets.last_stable)  # which only a grant tells
            offset = offset if offset >= 0 else offsets.log_start
        answer = _ask(source, task, offset, offsets, window, deadline)
        if isinstance(answer, SegmentLocation):
            reason = refusal(answer, offset, reader.isolation_level, formats, clock.monotonic())
            if reason is not None:
                answer = NotRemote(reason, offsets)
    except DirectFetchError as error:
        return Located(error, offset, offsets)
    return Located(answer, offset, offsets)


def _ask(
    source: LocationSource, task: LocateTask, offset: int, offsets: PartitionOffsets, window: int, deadline: Deadline
) -> SegmentLocation | NotRemote:
    reader = task.reader
    if offset == UNKNOWN_OFFSET:
        return NotRemote("log-start-unknown", offsets)
    if reader.stop_at_local and UNKNOWN_OFFSET != offsets.earliest_local <= offset:
        return NotRemote("local", offsets)
    return source.locate(
        reader.topic,
        reader.partition,
        offset,
        leader_epoch=task.leader_epoch,
        isolation_level=reader.isolation_level,
        max_bytes=window,
        deadline=deadline,
    )
