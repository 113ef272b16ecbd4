"""The generated parts of life-of-a-segment.md: what the model of a tiered partition does when it is run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.tiered_cluster.batches import Record, new_batch
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig
from kafka_remote_client.tiered_cluster.partition import (
    Command,
    CopyObjects,
    Done,
    Event,
    Failed,
    MetadataStored,
    Partition,
    RemoveObjects,
    RunCopy,
    RunExpiration,
    StoreMetadata,
    step,
)
from kafka_remote_client.tiered_cluster.remote_segments import ALLOWED
from kafka_remote_client.tiered_kafka.plain_files import PlainFiles
from kafka_remote_client.tiered_kafka.tier_store import TierStore
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings
from kafka_remote_client.tiered_kafka.topics import CrashPoint, Topic, Topics

__all__ = ["filled"]

_ID = UUID(int=1)
_BATCH = new_batch([Record(0, 1, None, b"v" * 100)])
_CONFIG = TopicConfig(retention_ms=0)


def filled(text: str) -> str:
    """The page with its generated parts. Raises ValueError when a mark is gone."""
    for name, lines in (("states", _states()), ("sequences", _sequences()), ("crashes", _crashes())):
        before, begin, rest = text.partition(f"<!-- segment: {name} -->\n")
        _, end, after = rest.partition("<!-- to here -->\n")
        if not begin or not end:
            raise ValueError(f"the marks of {name} are gone")
        text = "".join([before, begin, "\n", "\n".join(lines), "\n\n", end, after])
    return text


def _states() -> list[str]:
    arrows = [f"    {state.name} --> {following.name}" for state in ALLOWED for following in sorted(ALLOWED[state] - {state})]
    first, last = min(RemoteLogSegmentState).name, max(RemoteLogSegmentState).name
    return ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, f"    {last} --> [*]", "```"]


def _sealed() -> Partition:
    """The leader of a log whose only segment with a record is sealed."""
    log = PartitionLog(_CONFIG).elected(0).appended([_BATCH], 0).replicated().rolled()
    return Partition(TopicIdPartition(UUID(int=2), "orders", 0), 1, log)


def _sequences() -> list[str]:
    copied, copy = _run(_sealed(), RunCopy(2, (_ID,)), _succeeds)
    _, expiration = _run(copied, RunExpiration(2), _succeeds)
    _, failed = _run(_sealed(), RunCopy(2, (_ID,)), lambda command: _fails(command, retriable=False))
    _, retried = _run(_sealed(), RunCopy(2, (_ID,)), lambda command: _fails(command, retriable=True))
    _, large = _run(_sealed(), RunCopy(2, (_ID,)), lambda command: Done(command.task, 2, b"x" * 129))
    rows = {
        "copy": copy,
        "copy, with an error that will not pass": failed,
        "copy, with an error that may pass": [*retried, "the next run copies the segment again, under another id"],
        "copy, with more custom metadata than allowed": [*large, "nothing more is copied until the next election"],
        "expiration": ["log start", *expiration],
    }
    return ["| task | steps |", "|---|---|", *(f"| {name} | {' → '.join(steps)} |" for name, steps in rows.items())]


def _run(partition: Partition, event: Event, answer: Callable[[Command], Event]) -> tuple[Partition, list[str]]:
    steps = []
    partition, commands = step(partition, event)
    while commands:
        (command,) = commands
        if isinstance(command, StoreMetadata):
            partition, _ = step(partition, MetadataStored(command.event))
        told = answer(command) if isinstance(command, CopyObjects) else _succeeds(command)
        steps.append("the copy fails" if isinstance(told, Failed) else _described(command))
        partition, commands = step(partition, told)
    return partition, steps


def _succeeds(command: Command) -> Event:
    return Done(command.task, 2)


def _fails(command: Command, *, retriable: bool) -> Event:
    return Failed(command.task, 2, retriable)


def _described(command: Command) -> str:
    if isinstance(command, StoreMetadata):
        return f"`{command.event.state.name}`"
    return "objects removed" if isinstance(command, RemoveObjects) else "objects copied"


def _crashes() -> list[str]:
    rows = ["| crash point | the tier then | after the next leader's run |", "|---|---|---|"]
    for point in CrashPoint:
        with tempfile.TemporaryDirectory() as directory:
            topics = Topics(
                TierStore(Path(directory), PlainFiles()),
                SystemClock(),
                TopicSettings(_CONFIG),
                brokers=(1, 2),
                partitions=1,
                metadata_partitions=1,
                changed=lambda: None,
            )
            orders = topics.create("orders")
            topics.append(orders, 0, [_BATCH])
            if "delete" in point.value:
                topics.tier([orders], roll=True)
            else:
                topics.roll(orders, 0)
            topics.crash(orders, 0, point)
            then = _tier(topics, orders)
            topics.tier([orders], roll=False)
            topics.expire([orders], 0)
            rows.append(f"| `{point.value}` | {then} | {_tier(topics, orders)} |")
    return rows


def _tier(topics: Topics, topic: Topic) -> str:
    """The states of all segments, with the number of their objects."""
    objects = topics.store.objects()
    told = []
    for segment in topic.partitions[0].remote.segments.values():
        count = sum(key in objects for key in PlainFiles().keys(segment))
        told.append(f"`{segment.state.name}`, {count} object{'' if count == 1 else 's'}")
    return "; ".join(told) or f"no segment, {len(objects)} objects"
