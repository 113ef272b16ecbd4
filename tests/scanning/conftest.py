"""Fixtures: the golden tier, and a tier with ascending timestamps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.remote_log.layout import ObjectKind
from tests.support.golden import golden_local
from tests.support.tier import LAYOUT, Tier, batch, time_entries

BATCHES, RECORDS, SEGMENTS = 200, 5, 3
"""Of each segment, of each batch, of the partition. The record with offset n has the timestamp 1000 + n."""


@pytest.fixture(scope="session")
def golden_url() -> str:
    return (golden_local() / "remote").as_uri()


@pytest.fixture(scope="module")
def golden(golden_url: str) -> Iterator[TierReader]:
    with open_tier(golden_url) as tier:
        yield tier


@pytest.fixture(scope="session")
def rising_tier() -> Tier:
    """Tier of orders-7 with an index entry for each batch."""
    tier, offset = Tier(), 0
    for number in range(1, SEGMENTS + 1):
        start = offset
        batches = [batch(start + RECORDS * n, RECORDS, payload=400) for n in range(BATCHES)]
        offset += RECORDS * BATCHES
        segment = tier.add(batches, number=number, indexed=range(BATCHES))
        lasts = range(RECORDS - 1, RECORDS * BATCHES, RECORDS)
        tier.put(segment, ObjectKind.TIME_INDEX, time_entries(*((1000 + start + last, last) for last in lasts)))
    return tier


@pytest.fixture
def rising(rising_tier: Tier) -> Iterator[TierReader]:
    """A new reader of ``rising_tier``, without cached metadata."""
    with TierReader(rising_tier.store, ListingLocationSource(rising_tier.store, LAYOUT)) as reader:
        yield reader
