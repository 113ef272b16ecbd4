"""A split of a tier as record blocks, in the order of their offsets: complete, or an error. There is no fallback.

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
from kafka_remote_client.records.tally import Tally, TallyBlock
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import Split

__all__ = ["growing_parts", "split_blocks", "tally_of"]

_PATIENCE_SECONDS = 600.0
_GROWTH = 8


def split_blocks(
    tier: TierReader, split: Split, isolation_level: IsolationLevel, *, borrow: bool = False, tally: bool | None = None
) -> Generator[RecordBlock, None, None]:
    """Yields the records of a split. ``borrow``: a block is valid until the next one. ``tally``: as in ``TierReader.read``.

    Raises TierUnavailableError if the split begins before the tier, because segments were deleted after it was planned, and
    if it cannot be read to its end, after the blocks before the failure.
    """
    first = tier.bounds(*split.topic_partition).log_start
    if first > split.start:
        raise _unreadable(split, split.start, f"the tier begins at offset {first}")
    reader = tier.read(
        *split.topic_partition,
        split.start,
        split.end,
        isolation_level=isolation_level,
        window=split_window(tier.config),
        borrow=borrow,
        tally=tally,
    )
    with closing(reader.blocks(_PATIENCE_SECONDS)) as items:
        for item in items:
            if not isinstance(item, ReadEnd):
                yield item
            elif item.next_offset < split.end:
                raise _unreadable(split, item.next_offset, str(item.error or item.reason)) from item.error


def _unreadable(split: Split, offset: int, reason: str) -> TierUnavailableError:
    topic, partition = split.topic_partition
    return TierUnavailableError(
        f"cannot read {split.topic_partition} at offset {offset} from the tier: {reason}; "
        "this read has no broker to fall back to"
    ).with_context(topic=topic, partition=partition, offset=offset)


def tally_of(tier: TierReader, split: Split, isolation_level: IsolationLevel, *, oldest: bool = False) -> Tally:
    """Returns the number of the split's records and their bounds, by batch headers if possible. ``oldest``: that time, too.

    Raises as :func:`split_blocks`.
    """
    found = Tally()
    with closing(split_blocks(tier, split, isolation_level, borrow=True, tally=oldest)) as blocks:
        for block in blocks:
            assert isinstance(block, TallyBlock)  # the requested end
            found += block.tally
    return found


def growing_parts(split: Split, first: int) -> Iterator[Split]:
    """Yields the split in parts of ``first`` offsets and then of growing size, for a reader that may stop soon."""
    at, length = split.start, max(1, first)
    while at < split.end:
        end = min(split.end, at + length)
        # A short rest belongs to the last part.
        end = split.end if split.end - end < length else end
        yield split.part(at, end)
        at, length = end, length * _GROWTH
