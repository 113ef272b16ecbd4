"""Decodes one range that has landed: its records, and what kept it from giving more."""

from __future__ import annotations

import logging

from kafka_remote_client.errors import CorruptRecordError, DirectFetchError, UnsupportedFormatError
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.range_io import discard_range
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteStorageFetcher
from kafka_remote_client.records import RecordBlock

__all__ = ["decode_range"]

_log = logging.getLogger(__name__)


def decode_range(
    fetcher: RemoteStorageFetcher, grant: GrantRead, read: RangeRead, metrics: FetchMetrics, *, borrow: bool
) -> tuple[list[RecordBlock], DirectFetchError | None]:
    """The blocks in order, and the damage or defect behind them. Never raises.

    A fetcher that keeps ranges forgets one that is damaged. A defect is logged and counted.
    """
    blocks: list[RecordBlock] = []
    try:
        blocks.extend(grant.decode(read, borrow=borrow))
    except (CorruptRecordError, UnsupportedFormatError) as failure:
        discard_range(fetcher, grant.location, read.granted)
        return blocks, failure
    except Exception:  # noqa: BLE001 - a defect in decoding must cost speed, never a record
        segment = grant.location.metadata.remote_log_segment_id
        _log.exception("decoding %s of %s failed; the broker takes over", read.granted.range, segment)
        metrics.add("remote-fetch-internal-errors-total")
        return blocks, DirectFetchError("decoding failed")
    return blocks, None
