"""Which requests can be granted, and the questions that are made of them."""

from __future__ import annotations

import pytest

from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.protocol import fetch
from kafka_remote_client.shim.location_question import asks_for_location, location_question
from tests.support.shim_fakes import tagged_fetch


def test_a_consumers_sessionless_fetch_of_one_partition_can_be_granted() -> None:
    question = location_question(tagged_fetch(), 13)
    assert question.offset == 120
    assert question.isolation_level is IsolationLevel.READ_COMMITTED
    assert question.wanted.max_bytes == 8 << 20
    assert question.wanted.format_versions == ("Other", "ApacheKafkaV1")


def test_a_probe_changes_nothing_but_what_it_must() -> None:
    request = tagged_fetch(rack_id="rack")
    probe = fetch.decode_request(location_question(request, 12).probe(fetch_offset=7), 12)
    assert (probe.rack_id, probe.isolation_level, probe.max_bytes) == ("rack", request.isolation_level, request.max_bytes)
    (partition,) = probe.topics[0].partitions
    assert (partition.fetch_offset, partition.current_leader_epoch, partition.last_fetched_epoch) == (7, 9, 2)


def test_any_partition_can_ask() -> None:
    quiet, asking = tagged_fetch(requested=False), tagged_fetch()
    assert not asks_for_location(quiet)
    assert asks_for_location(tagged_fetch(topics=(*quiet.topics, *asking.topics)))


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (tagged_fetch(forgotten_topics=(fetch.ForgottenTopic((1,)),)), "session"),
        (tagged_fetch(topics=()), "several-partitions"),
        (tagged_fetch(isolation_level=-1), "not-a-consumer"),
    ],
)
def test_says_why_not(request_: fetch.FetchRequest, why: str) -> None:
    with pytest.raises(NotGrantedError, match=why) as refused:
        location_question(request_, 12)
    assert refused.value.why == why
