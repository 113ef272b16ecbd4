"""A split as record blocks, in the order of their offsets: complete, or an error.

The tier is read as far as possible. The brokers continue where the scan permits it, at the exact next offset.

References: :mod:`~kafka_remote_client.fetch.tier_reader`, :mod:`~kafka_remote_client.scanning.broker_part`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from kafka_remote_client.errors import ConfigurationError, DirectFetchError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.records.tally import Tally, TallyBlock
from kafka_remote_client.scanning.broker_part import BEFORE_THE_TIER, BrokerPart
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import Split

__all__ = ["growing_parts", "split_blocks", "tally_of"]

_PATIENCE_SECONDS = 600.0
_GROWTH = 8


def split_blocks(
    tier: TierReader,
    split: Split,
    isolation_level: IsolationLevel,
    *,
    borrow: bool = False,
    tally: bool | None = None,
    brokers: BrokerPart | None = None,
) -> Generator[RecordBlock, None, None]:
    """Yields the records of a split. ``borrow``: a block is valid until the next one. ``tally``: as in ``TierReader.read``.

    Raises TierUnavailableError if the tier's part cannot be read to its end and the ``brokers`` may not continue, after the
    blocks before the failure; BrokerReadError if they cannot.
    """
    ended = yield from _tiered(tier, split, isolation_level, borrow=borrow, tally=tally, brokers=brokers)
    if ended.next_offset >= split.end:
        return
    if brokers is None or not brokers.continues(split.topic_partition, ended):
        raise _unreadable(tier, split, ended, alone=brokers is None) from ended.error
    yield from brokers.blocks(split, ended.next_offset, isolation_level, tally=tally)


def _tiered(
    tier: TierReader,
    split: Split,
    isolation_level: IsolationLevel,
    *,
    borrow: bool,
    tally: bool | None,
    brokers: BrokerPart | None,
) -> Generator[RecordBlock, None, ReadEnd]:
    """Yields what the tier has of the split, and returns why it ended. Without brokers, raises what the tier raises."""
    try:
        bounds = tier.bounds(*split.topic_partition)
        if bounds.log_start > split.start:
            return ReadEnd(BEFORE_THE_TIER, split.start)
        if brokers is not None and split.start >= bounds.high_watermark:
            return ReadEnd("end", split.start)
        reader = tier.read(
            *split.topic_partition,
            split.start,
            split.end,
            isolation_level=isolation_level,
            window=split_window(tier.config),
            borrow=borrow,
            tally=tally,
        )
    except DirectFetchError as error:
        if brokers is None or isinstance(error, ConfigurationError):
            raise
        return ReadEnd(error.cause, split.start, error=error)
    with closing(reader.blocks(_PATIENCE_SECONDS)) as items:
        for item in items:
            if isinstance(item, ReadEnd):
                return item
            yield item
    raise AssertionError("a reader ends with a ReadEnd")


def _unreadable(tier: TierReader, split: Split, ended: ReadEnd, *, alone: bool) -> TierUnavailableError:
    topic, partition = split.topic_partition
    reason = str(ended.error or ended.reason)
    if ended.reason == BEFORE_THE_TIER:
        reason = f"the tier begins at offset {tier.bounds(topic, partition).log_start}"
    advice = "this read has no broker to fall back to" if alone else 'on_fallback="broker" reads it from the brokers'
    return TierUnavailableError(
        f"cannot read {split.topic_partition} at offset {ended.next_offset} from the tier: {reason}; {advice}"
    ).with_context(topic=topic, partition=partition, offset=ended.next_offset)


def tally_of(
    tier: TierReader,
    split: Split,
    isolation_level: IsolationLevel,
    *,
    oldest: bool = False,
    brokers: BrokerPart | None = None,
) -> Tally:
    """Returns the number of the split's records and their bounds, by batch headers if possible. ``oldest``: that time, too.

    Raises as :func:`split_blocks`.
    """
    found = Tally()
    with closing(split_blocks(tier, split, isolation_level, borrow=True, tally=oldest, brokers=brokers)) as blocks:
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
