from __future__ import annotations

import inspect

import pytest

from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.source import CachingLocationSource, LocationSource

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
