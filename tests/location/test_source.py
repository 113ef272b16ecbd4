from __future__ import annotations

import inspect

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.source import CachingLocationSource, LocationSource, watch_caches
from kafka_remote_client.metrics import CacheStatistics, FetchMetrics

CONTRACT = ("locate", "offsets", "offsets_of", "close")


@pytest.mark.parametrize("method", CONTRACT)
def test_the_broker_source_keeps_the_contract(method: str) -> None:
    promised = inspect.signature(getattr(LocationSource, method))
    assert inspect.signature(getattr(BrokerLocationSource, method)).parameters.keys() == promised.parameters.keys()


def test_a_source_that_reads_indexes_itself_says_what_its_caches_did() -> None:
    assert issubclass(ListingLocationSource, CachingLocationSource)
    assert not issubclass(BrokerLocationSource, CachingLocationSource)


def test_the_contract_is_these_methods_and_no_more() -> None:
    assert {name for name in vars(LocationSource) if not name.startswith("_")} == set(CONTRACT)


def test_what_the_caches_of_a_source_do_is_shown_and_a_source_without_shows_nothing() -> None:
    class Source:
        hits = 1

        def cache_statistics(self) -> dict[str, CacheStatistics]:
            return {"index": CacheStatistics(hits=self.hits)}

    metrics, source = FetchMetrics(SystemClock()), Source()
    watch_caches(source, metrics)
    watch_caches(object(), metrics)
    source.hits = 7
    assert metrics.snapshot()["remote-fetch-index-cache-hits-total"] == 7
