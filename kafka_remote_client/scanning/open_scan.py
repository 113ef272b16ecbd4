"""A scan over an opened tier: its plan, and the records of its splits as record blocks and as Arrow.

::

    split  ->  record blocks  ->  the predicate's columns  ->  mask  ->  the scan's columns, of the records that match
                                  nothing matches: the other columns are not built

Splits of one partition are read one after the other, and partitions in parallel, so records of a partition keep the order of
their offsets. Neighbouring splits are one read: its reading ahead does not end with a split. With a limit partitions are read
one after the other, in parts that grow, so that few ranges are requested. They are also surveyed and planned in groups that
grow, so that the tier is not asked about partitions that are not read.

References: docs/tables.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial
from itertools import groupby
from typing import Self, TypeVar
from uuid import UUID

import attrs
import pyarrow as pa

from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.metrics import Snapshot
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.records.arrow import schema_of
from kafka_remote_client.records.tally import Tally
from kafka_remote_client.scanning.arrow_filter import mask_of
from kafka_remote_client.scanning.broker_part import BrokerAddress, brokers_of
from kafka_remote_client.scanning.interleave import interleaved
from kafka_remote_client.scanning.predicate import Predicate, columns_of
from kafka_remote_client.scanning.pruning import Extent, Verdict, verdict
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.scan_plan import ScanPlan, TieredPartition, plan_scan, segments_in
from kafka_remote_client.scanning.split_blocks import growing_parts, split_blocks, tally_of
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import Split, joined
from kafka_remote_client.scanning.tier_survey import partitions_of, survey

__all__ = ["OpenScan", "SegmentBounds"]

_MOST_THREADS = 8

_T = TypeVar("_T")


@attrs.frozen
class SegmentBounds:
    """The content of the offsets ``[start, end)``, which are a segment, or the part of one that the plan reads."""

    topic: str
    partition: int
    start: int
    end: int
    tally: Tally


class OpenScan:
    """A context manager that owns ``tier``. Splits may be read by several threads at once.

    Reading raises TierUnavailableError if a split cannot be read to its end, and BrokerReadError if the brokers cannot give
    their part. Planning raises the errors of the tier's metadata and of the store, and BrokerReadError.
    """

    def __init__(
        self,
        scan: Scan,
        tier: TierReader,
        *,
        brokers: BrokerAddress | None = None,
        threads: int | None = None,
        passed: Callable[[int], None] | None = None,
    ) -> None:
        """``threads``: number of partitions that are read at the same time; ``None``: the number of cores, at most 8.

        ``passed``: gets the number of offsets that each record block of a split covers, in the threads that read.

        Raises ConfigurationError for ``brokers`` with which it cannot connect, or if the scan needs some; closes ``tier`` then.
        """
        self.scan = scan
        self._tier = tier
        self._passed = passed or _ignored
        self._threads = threads or min(_MOST_THREADS, os.cpu_count() or 1)
        self._known: dict[TopicIdPartition, TieredPartition] = {}
        try:
            self._brokers = brokers_of(scan, brokers, tier)
        except BaseException:
            tier.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops all reads. May be called twice."""
        self._tier.close()
        if self._brokers is not None:
            self._brokers.close()

    @cached_property
    def plan(self) -> ScanPlan:
        """The plan, made at the first call. Its ends are fixed then: what is written or tiered later is not in it."""
        return self._plan_of(self._partitions)

    def topic_ids(self) -> dict[str, UUID]:
        """The ids of the topics that are read: one that was created again has another one. Raises as planning."""
        return {tip.topic: tip.topic_id for tip in partitions_of(self._tier, self.scan, self._brokers)}

    @cached_property
    def _partitions(self) -> list[TopicIdPartition]:
        return sorted(partitions_of(self._tier, self.scan, self._brokers), key=lambda tip: (tip.topic, tip.partition))

    def _survey(self, partitions: Sequence[TopicIdPartition], *, prepared: int = 0) -> None:
        """Surveys those that are not known yet: a partition has one end for the whole scan. ``prepared``: see survey()."""
        new = [tip for tip in partitions if tip not in self._known]
        if new:
            self._known |= zip(new, survey(self._tier, self.scan, new, self._brokers, prepared=prepared), strict=True)

    def _plan_of(self, partitions: Sequence[TopicIdPartition], *, prepared: int = 0) -> ScanPlan:
        self._survey(partitions, prepared=prepared)
        _, range_bytes = split_window(self._tier.config)
        return plan_scan(self.scan, [self._known[tip] for tip in partitions], range_bytes=range_bytes)

    def _plans_in_turn(self) -> Iterator[ScanPlan]:
        """Plans of the first partition, the next two, the next four, and so on."""
        done, count = 0, 1
        while done < len(self._partitions):
            yield self._plan_of(self._partitions[done : done + count], prepared=1)
            done, count = done + count, 2 * count

    @property
    def schema(self) -> pa.Schema:
        """The schema of the record batches: the scan's columns."""
        return schema_of(self.scan.columns)

    def metrics(self) -> Snapshot:
        """Counters of the reads so far, with the names of docs/metrics.md."""
        return self._tier.metrics.snapshot()

    def blocks(self, split: Split) -> Generator[RecordBlock, None, None]:
        """Yields all records of a split in the order of their offsets, without applying the predicate."""
        return split_blocks(self._tier, split, self.scan.isolation_level, brokers=self._brokers)

    def record_batches(self, split: Split) -> Generator[pa.RecordBatch, None, None]:
        """Yields the records of a split for which the predicate is true, in the scan's columns. The limit does not apply.

        Raises UnsupportedFormatError as well, for a timestamp that does not fit Arrow's microseconds.
        """
        condition = self._condition(split)
        at = split.start
        with closing(self._borrowed(split)) as blocks:
            for block in blocks:
                records = self._records(block, split, condition)
                if records is not None:
                    yield records
                end = min(max(at, block.next_offset), split.end)
                self._passed(end - at)
                at = end
        self._passed(split.end - at)

    def stream(self) -> Generator[pa.RecordBatch, None, None]:
        """Yields all records of the scan, up to its limit. It reads nothing before the first ``next``.

        At most two record batches for each thread wait at the same time. Raises as :meth:`record_batches`.
        """
        if self.scan.limit is not None:
            yield from self._up_to(self.scan.limit)
            return
        self._survey(self._partitions, prepared=self._threads)
        with closing(interleaved(self._by_partition(self.plan, self._of_partition), self._threads)) as batches:
            yield from batches

    def _up_to(self, limit: int) -> Generator[pa.RecordBatch, None, None]:
        if limit == 0:
            return
        for plan in self._plans_in_turn():
            with closing(interleaved(self._by_partition(plan, self._of_partition), 1)) as batches:
                for records in batches:
                    yield records.slice(0, limit)
                    limit -= min(limit, len(records))
                    if not limit:
                        return

    def count(self) -> int:
        """Returns the number of records of :meth:`stream`, up to the limit.

        If the predicate is true for a whole split, batch headers give the number. Only batches that the split's bounds cut, and
        those of old formats, are decompressed. For other splits the predicate's columns are decoded.
        """
        with closing(interleaved(self._by_partition(self.plan, self._counts), self._threads)) as counts:
            total = sum(counts)
        return total if self.scan.limit is None else min(total, self.scan.limit)

    def segment_bounds(self, *, oldest: bool = False) -> Iterator[SegmentBounds]:
        """Returns for each tiered segment that the plan reads its number of records, their offsets and times, by batch headers.

        Conditions of the predicate on single records do not apply. ``oldest``: also the earliest timestamp, for which records
        are decoded unless the topic has LogAppendTime.
        """
        splits = self.plan.splits
        segments = {known.topic_partition: known.segments for known in self._known.values()}
        for split in splits:
            for start, end, _ in segments_in(split.start, split.end, segments[split.topic_partition]):
                part = split.part(start, end)
                tally = self._tally(part, oldest=oldest)
                yield SegmentBounds(*split.topic_partition, start, end, tally)

    @staticmethod
    def _by_partition(
        plan: ScanPlan, read: Callable[[list[Split]], Generator[_T, None, None]]
    ) -> list[Callable[[], Generator[_T, None, None]]]:
        """A call of ``read`` for each partition of the plan, with its splits."""
        groups = groupby(plan.splits, key=lambda split: split.topic_partition)
        return [partial(read, list(splits)) for _, splits in groups]

    def _counts(self, splits: list[Split]) -> Generator[int, None, None]:
        for split in joined(splits, self._takes_all):
            condition = self._condition(split)
            if condition is None:
                yield self._tally(split).records
                continue
            names = tuple(columns_of(condition))
            with closing(self._borrowed(split)) as blocks:
                for block in blocks:
                    yield mask_of(condition, block.to_arrow(*split.topic_partition, names)).true_count

    def _borrowed(self, split: Split) -> Generator[RecordBlock, None, None]:
        return split_blocks(self._tier, split, self.scan.isolation_level, borrow=True, brokers=self._brokers)

    def _tally(self, split: Split, *, oldest: bool = False) -> Tally:
        return tally_of(self._tier, split, self.scan.isolation_level, oldest=oldest, brokers=self._brokers)

    def _condition(self, split: Split) -> Predicate | None:
        """Returns the predicate to apply to each record of the split; ``None`` if all of them match."""
        condition = self.scan.filter
        said = verdict(condition, Extent(*split.topic_partition, split.start, split.end))
        return None if said is Verdict.ALWAYS else condition

    def _takes_all(self, split: Split) -> bool:
        return self._condition(split) is None

    def _of_partition(self, splits: list[Split]) -> Generator[pa.RecordBatch, None, None]:
        for part in self._parts(splits):
            yield from self.record_batches(part)

    def _parts(self, splits: list[Split]) -> Iterator[Split]:
        limit = self.scan.limit
        if limit is None:
            return joined(splits, self._takes_all)
        return (part for split in splits for part in growing_parts(split, limit))

    def _records(self, block: RecordBlock, split: Split, condition: Predicate | None) -> pa.RecordBatch | None:
        """Returns ``None`` if no record of the block matches, without building the other columns."""
        place, columns = split.topic_partition, self.scan.columns
        if condition is None:
            return block.to_arrow(*place, columns)
        mask = mask_of(condition, block.to_arrow(*place, tuple(columns_of(condition))))
        matching = mask.true_count
        if not matching:
            return None
        records = block.to_arrow(*place, columns)
        return records if matching == len(records) else records.filter(mask)


def _ignored(offsets: int) -> None:
    """Does nothing with what was passed."""
