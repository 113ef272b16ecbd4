"""An export job as a value: what it reads, how it writes, and its splits; fixed by the first run, checked by the next. Pure.

::

    first run    scan + options  ->  ExportJob  ->  job.json
    next run     scan + options  ==  job.json?  ->  the splits of job.json: what was tiered since is another job's

References: docs/tables.md, "Export".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition, uuid_to_text
from kafka_remote_client.scanning.scan import OffsetBound, Scan
from kafka_remote_client.scanning.scan_plan import ScanPlan
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.scanning.tier_address import TierAddress

__all__ = ["ExportJob", "ExportedPartition", "job_of", "options_of"]

_VERSION = 1


@attrs.frozen
class ExportedPartition:
    """The offsets ``[start, end)`` of a partition that a job exports. ``topic_id``: in Kafka's text form."""

    topic_partition: TopicPartition
    topic_id: str
    start: int
    end: int


@attrs.frozen
class ExportJob:
    """``options``: what the user asked for, each as text. ``splits`` are by partition and offset."""

    name: str
    options: Mapping[str, str]
    partitions: tuple[ExportedPartition, ...]
    splits: tuple[Split, ...] = attrs.field(default=(), repr=lambda splits: f"<{len(splits)}>")

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where the export of each partition ends: the first offset that is not in it."""
        return {one.topic_partition: one.end for one in self.partitions}

    def to_json(self, *, splits: bool = True) -> dict[str, Any]:
        """As :meth:`of_json` takes it; without ``splits`` for callers that need only the offsets."""
        found = {partition: list(group) for partition, group in groupby(self.splits, key=lambda split: split.topic_partition)}
        return {
            "version": _VERSION,
            "job": self.name,
            "options": dict(self.options),
            "partitions": [
                {
                    "topic": one.topic_partition.topic,
                    "partition": one.topic_partition.partition,
                    "topic_id": one.topic_id,
                    "start": one.start,
                    "end": one.end,
                }
                | (
                    {"splits": [[s.start, s.end, s.size_in_bytes] for s in found.get(one.topic_partition, ())]}
                    if splits
                    else {}
                )
                for one in self.partitions
            ],
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> ExportJob:
        """Raises ConfigurationError for a version that this one cannot read, KeyError or TypeError for anything else."""
        if value["version"] != _VERSION:
            raise ConfigurationError(
                f"export job {value['job']} was started by another version of this client (format {value['version']}, "
                f"this one reads {_VERSION}); finish it there or give another job name"
            )
        partitions, splits = [], []
        for one in value["partitions"]:
            partition = TopicPartition(one["topic"], one["partition"])
            partitions.append(ExportedPartition(partition, one["topic_id"], one["start"], one["end"]))
            splits += [Split(partition, start, end, size) for start, end, size in one.get("splits", ())]
        return cls(value["job"], value["options"], tuple(partitions), tuple(splits))

    def check_options(self, options: Mapping[str, str]) -> None:
        """Raises ConfigurationError where the job was started with others."""
        changed = sorted(name for name in {*self.options, *options} if self.options.get(name) != options.get(name))
        if changed:
            was = ", ".join(f"{name} was {self.options.get(name, 'not set')}" for name in changed)
            raise ConfigurationError(
                f"export job {self.name} was started with other options ({was}); "
                "run it with the same options or give another job name"
            )

    def check_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Raises ConfigurationError where a topic was created again since the job was started. ``topic_ids``: those of now."""
        for one in self.partitions:
            topic, now = one.topic_partition.topic, topic_ids.get(one.topic_partition.topic)
            if now != one.topic_id:
                raise ConfigurationError(
                    f"topic {topic} was created again since export job {self.name} started "
                    f"(topic id {one.topic_id}, now {now}); give another job name and another target"
                )

    def check_beside(self, other: ExportJob, *, finished: bool = True) -> None:
        """Raises ConfigurationError where ``other``, a job with the same target, has offsets of this one too.

        If it is not ``finished``, a start after its offsets would leave a gap in the table.
        """
        by_partition = {one.topic_partition: one for one in other.partitions}
        for one in self.partitions:
            known = by_partition.get(one.topic_partition)
            if known is None:
                continue
            if known.topic_id != one.topic_id:
                raise ConfigurationError(
                    f"topic {one.topic_partition.topic} was created again since export job {other.name} "
                    f"(topic id {known.topic_id}, now {one.topic_id}); choose another target"
                )
            if one.start < known.end and known.start < one.end:
                has = f"has offsets {known.start} to {known.end - 1} of {one.topic_partition} in this target"
                if not finished:
                    raise ConfigurationError(
                        f"export job {other.name} is not finished and {has}; run it again or choose another target"
                    )
                raise ConfigurationError(
                    f"export job {other.name} {has} already; start at {known.end} (start_offset, --start) or choose another "
                    "target"
                )


def job_of(name: str, plan: ScanPlan, options: Mapping[str, str], topic_ids: Mapping[str, str]) -> ExportJob:
    """The job that exports a plan."""
    starts: dict[TopicPartition, int] = {}
    for split in plan.splits:
        starts.setdefault(split.topic_partition, split.start)
    partitions = (
        ExportedPartition(partition, topic_ids[partition.topic], min(starts.get(partition, end), end), end)
        for partition, end in plan.ends.items()
    )
    return ExportJob(name, options, tuple(partitions), plan.splits)


def options_of(scan: Scan, address: TierAddress, writing: Mapping[str, object]) -> dict[str, str]:
    """All that makes another table, each as text: what is read, from where, and ``writing``. No secret is among them."""
    reading = {
        "store": address.store_url,
        "layout": address.layout,
        "key_prefix": address.key_prefix or None,
        "topic_id": None if address.topic_id is None else uuid_to_text(address.topic_id),
        "topics": ", ".join(scan.topics) or None,
        "topic_pattern": scan.topic_pattern,
        "partitions": scan.partitions,
        "start_offset": _bound(scan.start_offset),
        "end_offset": _bound(scan.end_offset),
        "since": scan.since,
        "until": scan.until,
        "columns": ", ".join(scan.columns),
        "where": scan.predicate,
        "isolation_level": scan.isolation_level.name.lower(),
        "out_of_order": scan.out_of_order,
        "live": scan.live or None,
    }
    return {name: _text(value) for name, value in {**reading, **writing}.items() if value is not None}


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bound(bound: OffsetBound | None) -> object:
    if not isinstance(bound, Mapping):
        return bound
    pairs: Iterable[tuple[TopicPartition, int]] = sorted(bound.items())
    return ", ".join(f"{partition}: {offset}" for partition, offset in pairs)
