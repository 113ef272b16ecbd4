"""Reads a partition only by grants: a location, its signed URLs with plain requests, records; then again from the next offset.

It has no engine, no retries and no fallback, so all its records come from the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import requests

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import GrantedRange, IsolationLevel, NotRemote, SegmentLocation
from kafka_remote_client.records import CompletedFetch
from tests.support.questions import question

__all__ = ["asked", "fetched", "granted_rows", "signed_url"]

_CLOCK = SystemClock()


def asked(
    bootstrap_servers: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    max_bytes: int = 8 << 20,
    leader_epoch: int = -1,
) -> SegmentLocation | NotRemote:
    """Requests one location on separate connections."""
    source = BrokerLocationSource(bootstrap_servers, client_id="tests", clock=_CLOCK)
    try:
        asked = question(
            topic, partition, offset, leader_epoch=leader_epoch, isolation_level=isolation_level, max_bytes=max_bytes
        )
        return locate_one(source, asked, Deadline(_CLOCK, 30))
    finally:
        source.close()


def signed_url(granted: GrantedRange) -> str:
    """The URL of a range."""
    url = LocationMetadata.decode(granted.custom_metadata).url
    assert url is not None
    return url


def fetched(granted: GrantedRange, url: str | None = None) -> requests.Response:
    """Returns the store's answer for a range."""
    wanted = {"Range": f"bytes={granted.range.start}-{granted.range.end - 1}", "Accept-Encoding": "identity"}
    return requests.get(url or signed_url(granted), headers=wanted, timeout=30)


def granted_rows(
    bootstrap_servers: str,
    topic: str,
    offset: int,
    isolation_level: IsolationLevel,
    *,
    partition: int = 0,
    max_bytes: int = 8 << 20,
) -> Iterator[tuple[Any, ...]]:
    """Returns all granted records from ``offset`` on, as rows of RecordBlock, up to the first offset without a grant."""
    source = BrokerLocationSource(bootstrap_servers, client_id="tests", clock=_CLOCK)
    epoch = -1
    try:
        while True:
            asked = question(topic, partition, offset, leader_epoch=epoch, isolation_level=isolation_level, max_bytes=max_bytes)
            location = locate_one(source, asked, Deadline(_CLOCK, 30))
            if isinstance(location, NotRemote):
                return
            completed = CompletedFetch(location.metadata, offset, isolation_level, location.aborted_transactions)
            for granted in location:
                response = fetched(granted)
                assert response.status_code == 206, response.text
                block, consumed = completed.feed(response.content)
                assert consumed == granted.range.size, "a granted range begins and ends with a batch"
                yield from block.rows()
            assert completed.next_fetch_offset == location.next_offset
            offset, epoch = location.next_offset, completed.last_leader_epoch
    finally:
        source.close()
