"""What a stream has learnt about segments, so that a limit in bytes asks once and not for every micro-batch.

::

    asked     [--------------------)
    segments  |--s1--|--s2--|.......    known, to the end that the log had
    batches   [---)[---)[---)[-----)    no question
                                   [--  asked again, unless all that there is fits the limit anyway

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
        """What lies between two places of a stream, with segments; ``start`` names all partitions that have anything there.

        Asks where nothing is known, unless all of it is at most ``enough`` bytes by what was seen before.
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
        """Where no segment was seen this time, the last ones still tell how large records are."""
        known = self._known.get(found.topic_partition)
        if not found.segments and known is not None:
            found = attrs.evolve(found, segments=known.segments)
        self._known[found.topic_partition] = found

    def _with_segments(self, wanted: Sequence[OffsetRange]) -> list[OffsetRange]:
        known = {found.topic_partition: self._known.get(found.topic_partition, found).segments for found in wanted}
        return [attrs.evolve(found, segments=known[found.topic_partition]) for found in wanted]
