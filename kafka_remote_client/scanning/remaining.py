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
from collections import defaultdict
from collections.abc import Iterable, Iterator

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split

__all__ = ["parse_split_id", "without"]

_ID = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})-(\d{1,19})-(\d{1,19})", re.ASCII)


def parse_split_id(text: str) -> Split:
    """Returns the split with that id. Its size is unknown and 0. Raises ConfigurationError."""
    found = _ID.fullmatch(text)
    if found is None or int(found[3]) > int(found[4]):
        raise ConfigurationError(f"not the id of a split: {text[:300]!r}")
    return Split(TopicPartition(found[1], int(found[2])), int(found[3]), int(found[4]), 0)


def without(splits: Iterable[Split], finished: Iterable[Split]) -> list[Split]:
    """Returns the remaining parts of each split, in order. Sizes of parts are in proportion to their offsets."""
    done: defaultdict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for split in finished:
        done[split.topic_partition].append((split.start, split.end))
    for spans in done.values():
        spans.sort()
    return [part for split in splits for part in _left(split, done.get(split.topic_partition, []))]


def _left(split: Split, done: list[tuple[int, int]]) -> Iterator[Split]:
    at = split.start
    for start, end in done:
        if start >= split.end:
            break
        if at < start:
            yield split.part(at, start)
        at = max(at, end)
    if at < split.end:
        yield split.part(at, split.end)
