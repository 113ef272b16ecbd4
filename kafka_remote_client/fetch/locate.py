"""Requests locations for partitions from a location source, and checks the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.grant_checks import refusal
from kafka_remote_client.fetch.partition_read import Locate
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    UNKNOWN_OFFSET,
    LocationAnswer,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
    TopicIdPartition,
)

__all__ = ["AsksCompacted", "Located", "locate"]

AsksCompacted = Callable[[TopicIdPartition, Deadline], bool]
"""Returns whether the topic of a partition is compacted. False if that is not known. Never raises."""

_Bounds = Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]


@attrs.frozen
class Located:
    """The answer, its numeric offset, and the new bounds of the partition's tiers."""

    answer: LocationAnswer
    offset: int
    offsets: PartitionOffsets


def locate(
    source: LocationSource,
    commands: Sequence[Locate],
    formats: tuple[str, ...],
    deadline: Deadline,
    clock: Clock,
    compacted: AsksCompacted,
) -> list[Located]:
    """Returns the answers, in order. Never raises if ``source`` behaves as documented: a failure is an answer too.

    If a read stops at the local log, it requests the tiers' bounds first, unless the last known ones already put the offset
    below the local log's start (which never moves back). ``compacted`` is called for reads that have met an offset gap.
    """
    try:
        bounds = _bounds(source, commands, deadline)
        asked = [_question(command, bounds) for command in commands]
        questions = [question for question, _ in asked if isinstance(question, LocationQuestion)]
        answers = source.locate(questions, deadline) if questions else {}
    except DirectFetchError as error:
        return [Located(error, command.offset, command.read.offsets) for command in commands]
    found = []
    for command, (question, offsets) in zip(commands, asked, strict=True):
        if isinstance(question, LocationQuestion):
            answer = answers[question]
            offset = question.offset
            if isinstance(answer, SegmentLocation):
                reason = refusal(answer, offset, command.read.isolation_level, formats, clock.monotonic())
                if reason is not None:
                    answer = NotRemote(reason, offsets)
                elif command.read.met_gap:
                    answer = attrs.evolve(answer, compacted=compacted(answer.metadata.topic_id_partition, deadline))
            found.append(Located(answer, offset, offsets))
        else:
            found.append(Located(question, _start(command, offsets), offsets))
    return found


def _bounds(source: LocationSource, commands: Iterable[Locate], deadline: Deadline) -> _Bounds:
    """Requests the bounds of the partitions that need them first."""
    wanted = {_key(command): None for command in commands if _needs_bounds(command)}
    return source.offsets_of(list(wanted), deadline) if wanted else {}


def _needs_bounds(command: Locate) -> bool:
    read = command.read
    return command.offset < 0 or (read.stop_at_local and command.offset >= read.offsets.earliest_local)


def _question(command: Locate, bounds: _Bounds) -> tuple[LocationQuestion | NotRemote | DirectFetchError, PartitionOffsets]:
    """Returns the question, or the answer if no request is necessary; and the tiers' bounds."""
    read, offsets = command.read, command.read.offsets
    if _needs_bounds(command):
        answer = bounds[_key(command)]
        if isinstance(answer, DirectFetchError):
            return answer, offsets
        offsets = attrs.evolve(answer, last_stable=offsets.last_stable)  # which only a grant has
    offset = _start(command, offsets)
    if offset == UNKNOWN_OFFSET:
        return NotRemote("log-start-unknown", offsets), offsets
    # An offset past the log's end is of a longer log: the leader's answer says what became of it.
    past_end = UNKNOWN_OFFSET != offsets.high_watermark < offset
    if read.stop_at_local and UNKNOWN_OFFSET != offsets.earliest_local <= offset and not past_end:
        return NotRemote("local", offsets), offsets
    question = LocationQuestion(
        topic=read.topic,
        partition=read.partition,
        offset=offset,
        isolation_level=read.isolation_level,
        leader_epoch=command.leader_epoch,
        max_bytes=command.window,
        range_bytes=command.range_bytes,
        read_end_offset=read.end_offset,
    )
    return question, offsets


def _start(command: Locate, offsets: PartitionOffsets) -> int:
    """Returns the numeric offset, if it is known."""
    return command.offset if command.offset >= 0 else offsets.log_start


def _key(command: Locate) -> tuple[str, int]:
    return command.read.topic, command.read.partition
