"""``scan``: topics of a tier as a table, from the arguments of one call. It opens, lists and reads nothing.

References: docs/tables.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import UUID

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.scanning.broker_part import BrokerAddress
from kafka_remote_client.scanning.predicate import Predicate
from kafka_remote_client.scanning.scan import OffsetBound, Scan
from kafka_remote_client.scanning.table_scan import TableScan
from kafka_remote_client.scanning.tier_address import TierAddress
from kafka_remote_client.settings import default_of

__all__ = ["scan"]


def scan(
    store_url: str,
    topics: str | Iterable[str] = (),
    *,
    topic_pattern: str | None = None,
    partitions: Iterable[int] | None = None,
    start_offset: OffsetBound | None = None,
    end_offset: OffsetBound | None = None,
    since: object = None,
    until: object = None,
    columns: Iterable[str] | None = None,
    where: Predicate | None = None,
    limit: int | None = None,
    isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
    out_of_order: timedelta | None = None,
    live: bool = False,
    on_fallback: OnFallback | str = OnFallback.FAIL,
    broker: Mapping[str, object] | None = None,
    layout: str = default_of("remote.storage.store.layout"),
    key_prefix: str = "",
    encryption_keys: Mapping[str, str] | None = None,
    store_options: Mapping[str, object] | None = None,
    topic_id: UUID | None = None,
    config: RemoteFetchConfig | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> TableScan:
    """Returns the records of topics as a table: ``scan("s3://bucket/tier", "orders", since="2026-01-01").to_arrow()``.

    The fields of :class:`~kafka_remote_client.scanning.scan.Scan` choose the records. ``since`` and ``until`` are milliseconds,
    a ``datetime`` with a time zone, a ``date``, or a time in ISO 8601 (UTC by default): since <= timestamp < until.

    ``live``: also the records that are not tiered yet, up to the high watermark, or the last stable offset under
    read_committed, at the time of the plan. ``on_fallback``: ``"fail"``, or ``"broker"`` to read from the brokers what the tier
    cannot give. Both need ``broker``: librdkafka's settings for a connection, ``bootstrap.servers`` at least.

    ``progress``: whether reads and exports show a progress bar in a terminal or a notebook (needs the extra ``cli``).

    The other arguments are those of :func:`~kafka_remote_client.fetch.tier_reader.open_tier`. The call opens nothing.

    Raises ConfigurationError for invalid arguments.
    """
    wanted = Scan(
        topics=topics,
        topic_pattern=topic_pattern,
        partitions=partitions,
        start_offset=start_offset,
        end_offset=end_offset,
        since=since,
        until=until,
        columns=columns,
        predicate=where,
        limit=limit,
        isolation_level=isolation_level,
        out_of_order=out_of_order,
        live=live,
        on_fallback=on_fallback,
    )
    address = TierAddress(
        store_url,
        layout=layout,
        key_prefix=key_prefix,
        encryption_keys=encryption_keys or {},
        store_options=store_options or {},
        topic_id=topic_id,
        config=config,
    )
    return TableScan(wanted, address, threads, None if broker is None else BrokerAddress(broker), progress=progress)
