from __future__ import annotations

import inspect
from typing import Any, cast

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import LocationError
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.source import CachingLocationSource, LocationSource, locate_one, watch_caches
from kafka_remote_client.metrics import CacheStatistics, FetchMetrics
from kafka_remote_client.model import LocationPending, NotRemote
from tests.support.locations import ManualClock
from tests.support.one_by_one import OneByOne
from tests.support.questions import question

CONTRACT = ("locate", "offsets", "offsets_of", "close")


@pytest.mark.parametrize("method", CONTRACT)
def test_the_broker_source_keeps_the_contract(method: str) -> None:
    promised = inspect.signature(getattr(LocationSource, method))
    assert inspect.signature(getattr(BrokerLocationSource, method)).parameters.keys() == promised.parameters.keys()


def test_a_source_that_reads_indexes_reports_its_cache_statistics() -> None:
    assert issubclass(ListingLocationSource, CachingLocationSource)
    assert not issubclass(BrokerLocationSource, CachingLocationSource)


def test_the_contract_is_exactly_these_methods() -> None:
    assert {name for name in vars(LocationSource) if not name.startswith("_")} == set(CONTRACT)


def test_cache_metrics_exist_for_sources_with_caches() -> None:
    class Source:
        hits = 1

        def cache_statistics(self) -> dict[str, CacheStatistics]:
            return {"index": CacheStatistics(hits=self.hits)}

    metrics, source = FetchMetrics(SystemClock()), Source()
    watch_caches(source, metrics)
    watch_caches(object(), metrics)
    source.hits = 7
    assert metrics.snapshot()["remote-fetch-index-cache-hits-total"] == 7


class Source(OneByOne):
    """Gives these answers in turn; each takes a second of the clock."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.clock = ManualClock()

    def answer(self, _question: object, _deadline: object) -> Any:
        self.clock.now += 1.0
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def one(source: Source) -> object:
    return locate_one(cast("LocationSource", source), question("t", 0, 5), Deadline(source.clock, 1.5))


def test_a_pending_question_is_asked_again() -> None:
    assert one(Source(LocationPending(), NotRemote("local"))) == NotRemote("local")


def test_an_answer_that_is_pending_at_the_deadline_is_an_error() -> None:
    with pytest.raises(LocationError, match=r"^Fetch of t-0 at 5: the location was still pending at the deadline$"):
        one(Source(LocationPending(), LocationPending()))


def test_an_error_in_place_of_the_one_answer_is_raised() -> None:
    with pytest.raises(LocationError, match="gone"):
        one(Source(LocationError("gone")))
