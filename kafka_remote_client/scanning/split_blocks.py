"""A split of a tier as record blocks, in the order of their offsets: whole, or an error. Nobody else can be asked here.

References: :mod:`~kafka_remote_client.fetch.tier_reader`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import Split

__all__ = ["growing_parts", "split_blocks"]

_PATIENCE_SECONDS = 600.0
_GROWTH = 8


def split_blocks(
    tier: TierReader, split: Split, isolation_level: IsolationLevel, *, borrow: bool = False
) -> Generator[RecordBlock, None, None]:
    """The records of a split. ``borrow``: a block lives until the next one is taken.

    Raises TierUnavailableError where the split cannot be read to its end, after the blocks before that.
    """
    reader = tier.read(
        *split.topic_partition,
        split.start,
        split.end,
        isolation_level=isolation_level,
        window=split_window(tier.config),
        borrow=borrow,
    )
    with closing(reader.blocks(_PATIENCE_SECONDS)) as items:
        for item in items:
            if not isinstance(item, ReadEnd):
                yield item
            elif item.next_offset < split.end:
                raise TierUnavailableError(
                    f"cannot read {split.topic_partition} at offset {item.next_offset} from the tier: "
                    f"{item.error or item.reason}; no broker is asked instead"
                ).with_context(
                    topic=split.topic_partition.topic, partition=split.topic_partition.partition, offset=item.next_offset
                ) from item.error


def growing_parts(split: Split, first: int) -> Iterator[Split]:
    """The split in parts, of ``first`` offsets and then of ever more: for a reader that may stop soon."""
    at, length = split.start, max(1, first)
    while at < split.end:
        end = min(split.end, at + length)
        # A short rest is no request of its own.
        end = split.end if split.end - end < length else end
        yield split.part(at, end)
        at, length = end, length * _GROWTH
