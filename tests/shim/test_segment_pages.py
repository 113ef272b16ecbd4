"""A shim lists the segments of readable topics, page by page, and lists nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.fetch.tier_reader import open_tier
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.model import RemoteLogSegmentId
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import SegmentPage, TaggedDialect
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.shim import grants, segment_pages
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.topic_policies import topic_policies
from tests.support.shim_fakes import SEGMENT, TIP, FakeAsk, FakeTier, batched_fetch, client_request, data

LENGTH = 100
dialect = TaggedDialect()


def segments(count: int) -> list[TieredSegment]:
    """Segments of 100 offsets each, from 0 on."""
    made = []
    for number in range(count):
        start = number * LENGTH
        metadata = attrs.evolve(
            SEGMENT,
            remote_log_segment_id=RemoteLogSegmentId(TIP, UUID(int=1 + number)),
            start_offset=start,
            end_offset=start + LENGTH - 1,
            max_timestamp_ms=number,
        )
        made.append(TieredSegment(metadata, start, start + LENGTH))
    return made


class Lister:
    """A granting broker with fakes, and the pages of its answers."""

    def __init__(self, workers: ThreadPoolExecutor) -> None:
        self.workers = workers
        self.tier = FakeTier()
        self.tier.partitions = range(10)
        self.tier.listed = segments(10)
        self.ask = FakeAsk(lambda _: data(log_start_offset=0))
        self.counters = Counters()
        self.limits = GrantLimits(3000, 5000, 30.0, lookup_timeout=60)

    def answers(self, *partitions: int, start: int = 0, version: int = 13) -> dict[int, fetch.PartitionData]:
        broker = GrantingBroker(self.tier, self.limits, self.counters, self.workers)
        request = batched_fetch(*partitions, wanted={"batched": True, "list_start": start}, offset=1000)
        body = asyncio.run(broker.answer(client_request(request, version), self.ask))
        assert body is not None
        return {
            one.partition_index: one for topic in fetch.decode_response(body, version).responses for one in topic.partitions
        }

    def page(self, start: int = 0, **changes: Any) -> SegmentPage:
        found = dialect.read_page(self.answers(TIP.partition, start=start, **changes)[TIP.partition].tags, start)
        assert found is not None, self.counters.snapshot()
        return found


@pytest.fixture
def lister(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lister]:
    """Its first decision waits for all others."""
    monkeypatch.setattr(grants, "_GATHER_SECONDS", 60)
    with ThreadPoolExecutor(2) as workers:
        yield Lister(workers)


@pytest.mark.parametrize("version", [12, 13])
def test_all_segments_are_listed_as_the_tier_knows_them(lister: Lister, version: int) -> None:
    page = lister.page(version=version)
    assert page.next_start is None
    assert [(one.id.int, one.first_offset, one.next_offset) for one in page.entries] == [
        (1 + number, number * LENGTH, (number + 1) * LENGTH) for number in range(10)
    ]
    assert {(one.leader_epoch, one.size_in_bytes) for one in page.entries} == {(2, 10_000)}
    assert [one.max_timestamp_ms for one in page.entries] == list(range(10))
    counted = lister.counters.snapshot()
    assert (counted["segment_lists"], counted["segments_listed"], counted["location_requests"]) == (1, 10, 1)
    assert counted["locations_granted"] == 0
    assert not lister.tier.calls, "a list needs no look-up of an offset"


def test_the_fetch_upstream_has_no_bytes_and_no_tags(lister: Lister) -> None:
    lister.page()
    (probe,) = lister.ask.fetches
    (asked,) = probe.topics[0].partitions
    assert (asked.fetch_offset, asked.partition_max_bytes, asked.tags, probe.tags) == (1000, 0, {}, {})


@pytest.mark.parametrize(("most", "sizes", "nexts"), [(4, [4, 4, 2], [400, 800, None]), (5, [5, 5], [500, None])])
def test_a_page_is_bounded_and_names_the_next(
    lister: Lister, monkeypatch: pytest.MonkeyPatch, most: int, sizes: list[int], nexts: list[int | None]
) -> None:
    monkeypatch.setattr(segment_pages, "MOST_SEGMENTS", most)
    pages = [lister.page()]
    while (start := pages[-1].next_start) is not None:
        pages.append(lister.page(start))
    assert [len(page.entries) for page in pages] == sizes
    assert [page.next_start for page in pages] == nexts
    assert [one.first_offset for page in pages for one in page.entries] == list(range(0, 1000, LENGTH))


def test_partitions_of_one_request_share_the_bound(lister: Lister, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pages, "MOST_SEGMENTS", 9)
    answers = lister.answers(0, 1, 2, 3)
    pages = [dialect.read_page(answers[number].tags, 0) for number in range(4)]
    assert [page and len(page.entries) for page in pages] == [2, 2, 2, 2]
    assert lister.counters["segments_listed"] == 8


def test_nothing_below_the_log_start_is_listed(lister: Lister) -> None:
    lister.ask = FakeAsk(lambda _: data(log_start_offset=700))
    assert [one.first_offset for one in lister.page().entries] == [700, 800, 900]


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.OFFSET_OUT_OF_RANGE]
)
def test_a_denied_or_missing_topic_has_the_brokers_answer_alone(lister: Lister, code: ErrorCode) -> None:
    refusal = data(error_code=code, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1)
    lister.ask = FakeAsk(lambda _: refusal)
    lister.tier.find = lister.tier.segments = None
    assert lister.answers(TIP.partition) == {TIP.partition: refusal}
    assert lister.counters["locations_refused.broker-error"] == 1


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        (None, "metadata-not-ready"),
        (ObjectNotFoundError("no checkpoint"), "object-not-found"),
        ([TieredSegment(SEGMENT, 199, 201)], "inconsistent"),
    ],
)
def test_what_the_tier_cannot_tell_is_refused(lister: Lister, listed: Any, why: str) -> None:
    lister.tier.listed = listed
    assert lister.answers(TIP.partition)[TIP.partition] == data(log_start_offset=0)
    assert lister.counters[f"locations_refused.{why}"] == 1, lister.counters.snapshot()


def test_partitions_that_are_not_tiered_are_refused_one_by_one(lister: Lister) -> None:
    lister.tier.partitions = (1,)
    answers = lister.answers(0, 1)
    assert (answers[0].tags, dialect.read_page(answers[1].tags, 0) is None) == ({}, False)
    assert lister.counters["locations_refused.not-tiered"] == 1


def test_a_topic_whose_policy_permits_no_grants_is_not_listed(lister: Lister) -> None:
    lister.limits = attrs.evolve(lister.limits, topics=topic_policies({"ord*.grant": "never"}))
    assert lister.answers(TIP.partition)[TIP.partition].tags == {}
    assert lister.counters["locations_refused.topic-policy"] == 1


def test_a_batch_may_ask_for_locations_and_lists(lister: Lister) -> None:
    lists = batched_fetch(1, wanted={"batched": True, "list_start": 0})
    locations = batched_fetch(2)
    (topic,), (other,) = lists.topics, locations.topics
    both = attrs.evolve(locations, topics=(attrs.evolve(topic, partitions=(*topic.partitions, *other.partitions)),))
    broker = GrantingBroker(lister.tier, lister.limits, lister.counters, lister.workers)
    body = asyncio.run(broker.answer(client_request(both), lister.ask))
    assert body is not None
    (answered,) = fetch.decode_response(body, 13).responses
    listed, granted = answered.partitions
    assert dialect.read_page(listed.tags, 0) is not None
    assert dialect.read_grant(granted.tags, ["ApacheKafkaV1"]) is not None


def test_an_embedded_cluster_lists_the_segments_of_its_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pages, "MOST_SEGMENTS", 6)
    with EmbeddedCluster(tmp_path, segment_bytes=2_000) as cluster:
        for partition in range(2):
            for _ in range(8):
                cluster.produce("t", [(None, b"%d" % n * 20) for n in range(50)], partition=partition)
        cluster.archive(keep_open=False)
        source = BrokerLocationSource(cluster.bootstrap_servers, client_id="planner", clock=SystemClock())
        try:
            listed = source.segments_of([("t", 0), ("t", 1), ("missing", 0)], Deadline(SystemClock(), 60))
        finally:
            source.close()
        with open_tier(f"file://{tmp_path}") as tier:
            known = {(tip.topic, tip.partition): tier.segments(tip) or () for tip in tier.partitions("t")}
        assert listed.keys() == known.keys()
        for key, found in listed.items():
            assert len(found) > 6
            # A store that is listed does not know timestamps; the broker's metadata does.
            assert [attrs.evolve(one, max_timestamp=None) for one in found] == [
                attrs.evolve(one.span, max_timestamp=None) for one in known[key]
            ]
            assert all(one.max_timestamp for one in found)
        counted = cluster.metrics()
        assert counted["segments_listed"] == sum(map(len, listed.values()))
        assert counted["segment_lists"] > 2, "several pages"
