"""The segments that a stream knows, so that a limit in bytes needs one request and not one per micro-batch.

::

    asked     [--------------------)
    segments  |--s1--|--s2--|.......    known, to the end that the log had
    batches   [---)[---)[---)[-----)    no question
                                   [--  requested again, unless everything fits the limit anyway

"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, sized, total_bytes

__all__ = ["KnownSegments"]


class KnownSegments:
    """``learn`` adds to ranges the segments that the location source knows."""

    def __init__(self, learn: Callable[[Sequence[OffsetRange]], Sequence[OffsetRange]]) -> None:
        self._learn = learn
        self._known: dict[TopicPartition, OffsetRange] = {}

    def ranges(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], enough: int) -> list[OffsetRange]:
        """Returns the ranges between two positions of a stream, with segments; ``start`` names their partitions.

        It requests unknown segments, unless the estimate of all ranges is at most ``enough`` bytes.
        """
        wanted = [
            OffsetRange(partition, start[partition], until)
            for partition, until in sorted(end.items())
            if start.get(partition, until) < until
        ]
        unknown = [found for found in wanted if not self._knows(found)]
        seen_all = all(found.topic_partition in self._known for found in unknown)
        if unknown and not (seen_all and total_bytes(sized(self._with_segments(wanted))) <= enough):
            for found in self._learn(unknown):
                self._remember(found)
        return self._with_segments(wanted)

    def _knows(self, wanted: OffsetRange) -> bool:
        known = self._known.get(wanted.topic_partition)
        return known is not None and known.start <= wanted.start < known.end

    def _remember(self, found: OffsetRange) -> None:
        """Without a segment in this batch, the last known ones still give the size of records."""
        known = self._known.get(found.topic_partition)
        if not found.segments and known is not None:
            found = attrs.evolve(found, segments=known.segments)
        self._known[found.topic_partition] = found

    def _with_segments(self, wanted: Sequence[OffsetRange]) -> list[OffsetRange]:
        known = {found.topic_partition: self._known.get(found.topic_partition, found).segments for found in wanted}
        return [attrs.evolve(found, segments=known[found.topic_partition]) for found in wanted]
