"""Requests that can be granted, and the probes made of them."""

from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.protocol import fetch
from kafka_remote_client.shim.tagged_fetch import asks_for_location, joined_probe, read_tagged_fetch
from tests.support.shim_fakes import TIP, batched_fetch, tagged_fetch


def test_a_consumers_sessionless_fetch_of_one_partition_can_be_granted() -> None:
    tagged = read_tagged_fetch(tagged_fetch(), 13)
    assert not tagged.batched
    (wanted,) = tagged.partitions
    assert wanted.offset == 120
    assert wanted.isolation_level is IsolationLevel.READ_COMMITTED
    assert wanted.wanted.max_bytes == 8 << 20
    assert wanted.wanted.format_versions == ("Other", "ApacheKafkaV1")


def test_a_probe_changes_only_the_required_fields() -> None:
    request = tagged_fetch(rack_id="rack")
    (asked,) = read_tagged_fetch(request, 12).partitions
    probe = fetch.decode_request(asked.probe(Probe(ProbeKind.LINEAGE, 7, 3)), 12)
    assert (probe.rack_id, probe.isolation_level, probe.max_bytes) == ("rack", request.isolation_level, request.max_bytes)
    (partition,) = probe.topics[0].partitions
    assert (partition.fetch_offset, partition.current_leader_epoch, partition.last_fetched_epoch) == (7, 9, 3)


def test_a_batch_has_a_probe_for_all_and_one_for_each() -> None:
    tagged = read_tagged_fetch(batched_fetch(4, 5), 12)
    assert tagged.batched
    assert [one.name for one in tagged.partitions] == [(TIP.topic, TIP.topic_id, number) for number in (4, 5)]
    one = Probe(ProbeKind.ABORTED, 7, max_bytes=1)
    for probe, numbers in ((tagged.probe(), [4, 5]), (tagged.partitions[1].probe(one), [5])):
        asked = fetch.decode_request(probe, 12)
        assert not asks_for_location(asked)
        assert [one.partition for one in asked.topics[0].partitions] == numbers


def test_probes_of_several_topics_and_partitions_are_one_request() -> None:
    one = batched_fetch(4, 5)
    request = attrs.evolve(one, topics=(*one.topics, attrs.evolve(one.topics[0], topic="payments")))
    first, second, third, _ = read_tagged_fetch(request, 12).partitions
    probes = [
        (first, Probe(ProbeKind.LINEAGE, 7, 3)),
        (third, Probe(ProbeKind.LINEAGE, 8, 4)),
        (second, Probe(ProbeKind.LINEAGE, 9)),
    ]
    asked = fetch.decode_request(joined_probe(probes), 12)
    assert [topic.topic for topic in asked.topics] == [TIP.topic, "payments"]
    found = [
        [(p.partition, p.fetch_offset, p.last_fetched_epoch, p.partition_max_bytes) for p in t.partitions] for t in asked.topics
    ]
    assert found == [[(4, 7, 3, 0), (5, 9, -1, 0)], [(4, 8, 4, 0)]]
    assert (asked.max_wait_ms, asked.min_bytes, asked.tags) == (0, 0, {})
    assert not asks_for_location(asked)


def test_any_partition_can_request_a_location() -> None:
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
def test_a_refusal_has_its_reason(request_: fetch.FetchRequest, why: str) -> None:
    with pytest.raises(NotGrantedError, match=why) as refused:
        read_tagged_fetch(request_, 12)
    assert refused.value.why == why
