"""The remaining work: splits without the offsets of finished ones. Pure.

::

    planned    [------a------)[------b------)[------c------)
    finished   [------a------)    [--)
    remaining                 [---)  [------)[------c------)

The comparison uses offsets, not names. So offsets that were finished under another plan (the log grew, segments were merged,
another ``remote.splitBytes``) are not read again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split

__all__ = ["parse_split_id", "without"]

_ID = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})-(\d{1,19})-(\d{1,19})", re.ASCII)
_Span = tuple[int, int]


def parse_split_id(text: str) -> Split:
    """Returns the split with that id. Its size is unknown and 0. Raises ConfigurationError."""
    found = _ID.fullmatch(text)
    if found is None or int(found[3]) > int(found[4]):
        raise ConfigurationError(f"not the id of a split: {text[:300]!r}")
    return Split(TopicPartition(found[1], int(found[2])), int(found[3]), int(found[4]), 0)


def without(splits: Iterable[Split], finished: Iterable[Split]) -> list[Split]:
    """Returns the remaining parts of each split, in order. Sizes of parts are in proportion to their offsets."""
    spans: defaultdict[TopicPartition, list[_Span]] = defaultdict(list)
    for split in finished:
        if split.start < split.end:
            spans[split.topic_partition].append((split.start, split.end))
    done = {partition: _joined(found) for partition, found in spans.items()}
    return [part for split in splits for part in _left(split, done.get(split.topic_partition, ()))]


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """Returns the same offsets in order, in spans that neither overlap nor touch."""
    found: list[_Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _left(split: Split, done: Sequence[_Span]) -> Iterator[Split]:
    at = split.start
    first = bisect_right(done, split.start, key=itemgetter(1))
    for place in range(first, len(done)):
        start, end = done[place]
        if start >= split.end:
            break
        if at < start:
            yield split.part(at, start)
        at = max(at, end)
    if at < split.end:
        yield split.part(at, split.end)
