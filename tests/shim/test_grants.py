"""A location is granted if broker and tier agree; otherwise the client's own request goes to the broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import ObjectNotFoundError, ProtocolError, RemoteStorageUnavailableError
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import AbortedTransaction, ByteRange, EpochEntry, IsolationLevel, NotRemote
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.dialect import SegmentGrant, TaggedDialect
from kafka_remote_client.protocol.metadata import MetadataTopic
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.topic_policies import topic_policies
from kafka_remote_client.wire import ZERO_UUID
from tests.support.shim_fakes import SEGMENT, TIP, FakeAsk, FakeTier, client_request, data, resolved, tagged_fetch

DATA_KEY = b"a data key of exactly 32 bytes!!"
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
BOTH_FORMATS = ("ApacheKafkaV1", "AivenTieredStorageV1")
A, B, C = (AbortedTransaction(producer_id, offset) for producer_id, offset in ((1, 110), (2, 130), (3, 170)))


class Granter:
    """A granting broker with fakes."""

    def __init__(self, workers: ThreadPoolExecutor) -> None:
        self.tier = FakeTier()
        self.ask = FakeAsk()
        self.counters = Counters()
        self.broker = GrantingBroker(self.tier, GrantLimits(3000, 5000, 30.0), self.counters, workers)

    def answer(self, request: fetch.FetchRequest, version: int = 13, *, secure: bool = False) -> bytes | None:
        return asyncio.run(self.broker.answer(client_request(request, version, secure=secure), self.ask))

    def granted(
        self, request: fetch.FetchRequest, version: int = 13, *, secure: bool = False
    ) -> tuple[SegmentGrant, fetch.FetchResponse]:
        body = self.answer(request, version, secure=secure)
        assert body is not None, self.counters.snapshot()
        response = fetch.decode_response(body, version)
        grant = TaggedDialect().read_grant(response.responses[0].partitions[0].tags, BOTH_FORMATS)
        assert grant is not None
        return grant, response

    def refused(self, request: fetch.FetchRequest, version: int = 13) -> str:
        assert self.answer(request, version) is None
        (why,) = [name for name in self.counters.snapshot() if name.startswith("locations_refused.")]
        assert self.counters["locations_granted"] == 0
        return why.removeprefix("locations_refused.")


@pytest.fixture(scope="module")
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def granter(workers: ThreadPoolExecutor) -> Granter:
    return Granter(workers)


@pytest.mark.parametrize("version", [12, 13, 15])
def test_grants_have_ranges_and_the_brokers_offsets(granter: Granter, version: int) -> None:
    granter.ask.throttle_time_ms = 250
    grant, response = granter.granted(tagged_fetch(), version)
    assert [granted.range for granted in grant.ranges] == [ByteRange(1000, 2000), ByteRange(2000, 4500)]
    assert [LocationMetadata.decode(granted.custom_metadata).url for granted in grant.ranges] == [
        "http://store/orders/segment.log?1000",
        "http://store/orders/segment.log?2000",
    ]
    assert (grant.segment_id, grant.format) == (SEGMENT.remote_log_segment_id.id, "ApacheKafkaV1")
    assert (grant.segment_size, grant.start_offset, grant.end_offset, grant.next_offset) == (10_000, 100, 199, 160)
    assert grant.leader_epochs == SEGMENT.segment_leader_epochs
    assert 0 < (grant.expires_in_ms or 0) <= 30_000
    (told,) = response.responses[0].partitions
    assert (told.error_code, told.high_watermark, told.last_stable_offset, told.log_start_offset) == (0, 1000, 1000, 50)
    assert (told.aborted_transactions, told.preferred_read_replica, bytes(told.records or b"")) == ((), -1, b"")
    assert response.throttle_time_ms == 250
    counted = {name: number for name, number in granter.counters.snapshot().items() if number}
    assert counted == {
        "bytes_granted": 3500,
        "location_requests": 1,
        "locations_granted": 1,
        "probes": 2,
        "ranges_granted": 2,
    }


def test_probes_to_the_broker_have_no_bytes_wait_or_tags(granter: Granter) -> None:
    kept = tagged_fetch(partition={"tags": {0: bytes(16)} | dict(tagged_fetch().topics[0].partitions[0].tags)})
    granter.granted(kept)
    first, second = granter.ask.fetches
    for probe in (first, second):
        assert (probe.max_wait_ms, probe.min_bytes, probe.tags) == (0, 0, {})
        assert probe.topics[0].partitions[0].partition_max_bytes == 0
        assert probe.topics[0].partitions[0].tags == {0: bytes(16)}
        assert probe.topics[0].partitions[0].current_leader_epoch == 9
    assert (first.topics[0].partitions[0].fetch_offset, first.topics[0].partitions[0].last_fetched_epoch) == (120, 2)
    assert first.isolation_level == COMMITTED


def test_all_searched_segments_must_be_on_the_leaders_lineage(granter: Granter) -> None:
    granter.granted(tagged_fetch())
    end = granter.ask.partitions[1]
    assert (end.fetch_offset, end.last_fetched_epoch) == (300, 4)


@pytest.mark.parametrize("answer", [data(tags={fetch.DIVERGING_EPOCH_TAG: bytes(13)}), data(error_code=1), data(error_code=74)])
def test_a_window_off_the_lineage_is_not_granted(granter: Granter, answer: fetch.PartitionData) -> None:
    granter.ask = FakeAsk(lambda asked: answer if asked.fetch_offset == 300 else None)
    assert granter.refused(tagged_fetch()) == "lineage"


def test_lineage_is_requested_once_per_window_and_leader_epoch(granter: Granter) -> None:
    for leader_epoch, probes in ((9, 2), (9, 1), (10, 2), (-1, 2), (-1, 2)):
        granter.ask = FakeAsk()
        granter.granted(tagged_fetch(partition={"current_leader_epoch": leader_epoch}))
        assert len(granter.ask.fetches) == probes


@pytest.mark.parametrize(("level", "end"), [(COMMITTED, 400), (UNCOMMITTED, 1000)])
def test_only_offsets_readable_at_the_isolation_level_are_resolved(granter: Granter, level: IsolationLevel, end: int) -> None:
    granter.ask = FakeAsk(lambda _asked: data(last_stable_offset=400))
    granter.granted(tagged_fetch(isolation_level=level))
    (question,) = granter.tier.calls
    assert (question.topic_id_partition, question.offset, question.isolation_level) == (TIP, 120, level)
    assert (question.log_start_offset, question.end_offset) == (50, end)
    assert (question.max_bytes, question.range_bytes) == (5000, 3000)


@pytest.mark.parametrize(
    ("wanted", "window"),
    [(0, (3000, 3000)), (1000, (1000, 1000)), (4000, (4000, 3000)), (9000, (5000, 3000))],
)
def test_the_window_has_the_requested_size_within_the_limits(granter: Granter, wanted: int, window: tuple[int, int]) -> None:
    granter.granted(tagged_fetch(max_bytes=wanted))
    (question,) = granter.tier.calls
    assert (question.max_bytes, question.range_bytes) == window


@pytest.mark.parametrize(
    "answer",
    [
        data(error_code=29),
        data(error_code=1, high_watermark=-1),
        data(error_code=74),
        data(tags={fetch.DIVERGING_EPOCH_TAG: bytes(13)}),
    ],
)
def test_the_brokers_error_or_divergence_is_the_answer(granter: Granter, answer: fetch.PartitionData) -> None:
    granter.ask = FakeAsk(lambda _asked: answer)
    body = granter.answer(tagged_fetch())
    assert body is not None
    assert fetch.decode_response(body, 13).responses[0].partitions == (answer,)
    assert granter.counters["locations_refused.broker-error"] == 1
    assert not granter.tier.calls


def test_an_error_for_the_whole_request_is_the_answer(granter: Granter) -> None:
    granter.ask.error_code = 103
    body = granter.answer(tagged_fetch())
    assert body is not None
    assert fetch.decode_response(body, 13).error_code == 103


def test_an_answer_without_the_partition_is_passed_on(granter: Granter) -> None:
    empty = fetch.encode_response(fetch.FetchResponse(()), 13)

    async def ask(*_: Any) -> memoryview:
        return memoryview(empty)

    granter.ask = ask
    assert granter.answer(tagged_fetch()) == empty


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (data(preferred_read_replica=2), "preferred-replica"),
        (data(log_start_offset=121), "not-tiered"),
        (data(last_stable_offset=120), "not-tiered"),
    ],
)
def test_the_brokers_answer_can_exclude_a_location(granter: Granter, answer: fetch.PartitionData, why: str) -> None:
    granter.ask = FakeAsk(lambda _asked: answer)
    assert granter.refused(tagged_fetch()) == why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NotRemote("local"), "local"),
        (NotRemote("metadata-not-ready"), "metadata-not-ready"),
        (ObjectNotFoundError("key"), "object-not-found"),
        (RemoteStorageUnavailableError("down"), "unavailable"),
        (resolved(metadata=attrs.evolve(SEGMENT, segment_leader_epochs=(EpochEntry(2, 5),))), "inconsistent"),
    ],
)
def test_the_tiers_answer_can_exclude_a_location(granter: Granter, answer: Any, why: str) -> None:
    granter.tier.answer = answer
    assert granter.refused(tagged_fetch()) == why


def test_a_look_up_that_takes_too_long_goes_to_the_broker(granter: Granter) -> None:
    released = threading.Event()

    def hang(question: LocationQuestion) -> NotRemote:
        assert released.wait(60)
        return NotRemote("local")

    granter.tier.resolve = hang  # type: ignore[method-assign] # this look-up never ends
    with ThreadPoolExecutor(1) as workers:
        limits = GrantLimits(3000, 5000, 30.0, lookup_timeout=0)
        granter.broker = GrantingBroker(granter.tier, limits, granter.counters, workers)
        try:
            assert granter.refused(tagged_fetch()) == "lookup-timeout"
        finally:
            released.set()


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (tagged_fetch(formats=("Other",)), "format"),
        (tagged_fetch(formats=()), "format"),
        (tagged_fetch(session_id=4, session_epoch=1), "session"),
        (tagged_fetch(session_epoch=0), "session"),
        (tagged_fetch(isolation_level=2), "not-a-consumer"),
        (tagged_fetch(replica_id=1), "not-a-consumer"),
        (tagged_fetch(topics=tagged_fetch().topics * 2), "several-partitions"),
        (tagged_fetch(partition={"partition": 4}), "not-tiered"),
    ],
)
def test_other_requests_go_to_the_broker(granter: Granter, request_: fetch.FetchRequest, why: str) -> None:
    assert granter.refused(request_) == why


def test_a_segment_in_a_format_not_offered_goes_to_the_broker(granter: Granter) -> None:
    granter.tier.formats, granter.tier.located_as = BOTH_FORMATS, "AivenTieredStorageV1"
    assert granter.refused(tagged_fetch()) == "format"
    assert len(granter.ask.fetches) == 1, "the broker is asked no more than it takes to find out"
    grant, _ = granter.granted(tagged_fetch(formats=BOTH_FORMATS))
    assert grant.format == "AivenTieredStorageV1"


def test_a_segment_above_2_gib_is_granted_to_clients_that_understand_it(granter: Granter) -> None:
    segment = attrs.evolve(SEGMENT, segment_size_in_bytes=5 << 30)
    ranges = (ByteRange(4 << 30, (4 << 30) + 1000), ByteRange((4 << 30) + 1000, (4 << 30) + 3500))
    granter.tier.answer = resolved(metadata=segment, ranges=ranges)
    assert granter.refused(tagged_fetch()) == "large-segment"
    grant, _ = granter.granted(tagged_fetch(wanted={"large_positions": True}))
    assert ([one.range for one in grant.ranges], grant.segment_size) == ([*ranges], 5 << 30)


def test_a_plain_segment_of_a_chunked_tier_is_granted(granter: Granter) -> None:
    granter.tier.formats = BOTH_FORMATS
    grant, _ = granter.granted(tagged_fetch(formats=("ApacheKafkaV1",)))
    assert grant.format == "ApacheKafkaV1"


def test_a_data_key_is_granted_over_encrypted_connections_only(granter: Granter) -> None:
    granter.tier.data_key = DATA_KEY
    assert granter.refused(tagged_fetch()) == "plaintext-data-key"
    grant, _ = granter.granted(tagged_fetch(), secure=True)
    assert [LocationMetadata.decode(one.custom_metadata).data_key for one in grant.ranges] == [DATA_KEY] * 2


def test_a_data_key_is_granted_over_any_connection_if_allowed(granter: Granter, workers: ThreadPoolExecutor) -> None:
    limits = GrantLimits(3000, 5000, 30.0, plaintext_data_keys=True)
    granter.broker = GrantingBroker(granter.tier, limits, granter.counters, workers)
    granter.tier.data_key = DATA_KEY
    grant, _ = granter.granted(tagged_fetch())
    assert [LocationMetadata.decode(one.custom_metadata).data_key for one in grant.ranges] == [DATA_KEY] * 2
    assert DATA_KEY.hex() not in repr(grant)
    assert repr(DATA_KEY)[2:-1] not in repr(grant)


def test_a_request_without_the_flag_is_not_counted(granter: Granter) -> None:
    assert granter.answer(tagged_fetch(requested=False)) is None
    assert not any(granter.counters.snapshot().values())


def test_read_uncommitted_gets_no_aborted_transactions(granter: Granter) -> None:
    granter.tier.answer = resolved(aborted_complete=False)
    _, response = granter.granted(tagged_fetch(isolation_level=UNCOMMITTED))
    assert response.responses[0].partitions[0].aborted_transactions is None
    assert granter.counters["aborted_probes"] == 0


def test_a_complete_list_is_not_requested_from_the_broker(granter: Granter) -> None:
    granter.tier.answer = resolved(aborted=(A, B))
    _, response = granter.granted(tagged_fetch())
    assert response.responses[0].partitions[0].aborted_transactions == (A, B)
    assert granter.counters["aborted_probes"] == 0


def test_aborted_transactions_with_a_local_marker_come_from_the_broker(granter: Granter) -> None:
    granter.tier.answer = resolved(aborted=(B,), aborted_complete=False)
    listed = data(aborted_transactions=(C, A, B))
    granter.ask = FakeAsk(lambda asked: listed if asked.partition_max_bytes == 1 else None)
    for _ in range(2):
        _, response = granter.granted(tagged_fetch())
        assert response.responses[0].partitions[0].aborted_transactions == (A, B)  # C begins after the window
    asked = [probe for probe in granter.ask.partitions if probe.partition_max_bytes == 1]
    assert [(probe.fetch_offset, probe.last_fetched_epoch) for probe in asked] == [(300, -1)]
    assert granter.counters["aborted_probes"] == 1
    assert granter.counters["remote_probes"] == 0


@pytest.mark.parametrize("answer", [data(error_code=6), data(aborted_transactions=None), data(last_stable_offset=299)])
def test_an_incomplete_list_is_not_granted(granter: Granter, answer: fetch.PartitionData) -> None:
    granter.tier.answer = resolved(aborted_complete=False)
    granter.ask = FakeAsk(lambda asked: answer if asked.partition_max_bytes == 1 else None)
    assert granter.refused(tagged_fetch()) == "aborted-unknown"


def test_a_name_stands_for_its_current_topic(granter: Granter) -> None:
    granter.granted(tagged_fetch(), 12)
    assert granter.ask.metadata_topics == [TIP.topic]


@pytest.mark.parametrize(
    ("topics", "why"),
    [
        ((), "unknown-topic"),
        ((MetadataTopic(TIP.topic, error_code=3, topic_id=TIP.topic_id),), "unknown-topic"),
        ((MetadataTopic(TIP.topic, topic_id=ZERO_UUID),), "unknown-topic"),
        ((MetadataTopic(TIP.topic, topic_id=type(ZERO_UUID)(int=78)),), "not-tiered"),
    ],
)
def test_a_name_of_another_topic_by_now_is_not_granted(granter: Granter, topics: Any, why: str) -> None:
    granter.ask.topics = topics
    assert granter.refused(tagged_fetch(), 12) == why


def test_a_request_or_an_answer_that_does_not_parse_ends_the_connection(granter: Granter) -> None:
    request = client_request(tagged_fetch())
    with pytest.raises(ProtocolError):
        asyncio.run(granter.broker.answer(attrs.evolve(request, body=request.body[:-3]), granter.ask))

    async def ask(*_: Any) -> memoryview:
        return memoryview(b"\0\0\0")

    with pytest.raises(ProtocolError):
        asyncio.run(granter.broker.answer(request, ask))


def test_only_small_fetches_with_our_tags_are_collected(granter: Granter) -> None:
    looks = granter.broker.collects
    assert looks(RequestHead(ApiKey.FETCH, 12, 1), 64 << 10)
    assert not looks(RequestHead(ApiKey.FETCH, 11, 1), 100)
    assert not looks(RequestHead(ApiKey.FETCH, 12, 1), (64 << 10) + 1)
    assert not looks(RequestHead(ApiKey.METADATA, 12, 1), 100)
    head = RequestHead(ApiKey.FETCH, 13, 1)
    assert granter.broker.claims(head, bytes(client_request(tagged_fetch()).body))
    assert not granter.broker.claims(head, bytes(client_request(tagged_fetch(requested=False)).body))


@pytest.mark.parametrize("level", [COMMITTED, UNCOMMITTED])
def test_a_grant_has_the_brokers_last_stable_offset(granter: Granter, level: IsolationLevel) -> None:
    granter.ask = FakeAsk(lambda _asked: data(last_stable_offset=400))
    _, response = granter.granted(tagged_fetch(isolation_level=level))
    (told,) = response.responses[0].partitions
    assert (told.last_stable_offset, told.high_watermark) == (400, 1000)


def control(granter: Granter, workers: ThreadPoolExecutor, policies: dict[str, object], clients: dict[str, object]) -> None:
    limits = GrantLimits(3000, 5000, 30.0, topics=topic_policies(policies))
    granter.broker.reload(limits, clients)


def test_a_topic_with_a_policy_of_no_grants_goes_to_the_broker(granter: Granter, workers: ThreadPoolExecutor) -> None:
    control(granter, workers, {"ord*.grant": "never"}, {})
    assert granter.refused(tagged_fetch()) == "topic-policy"
    assert not granter.tier.calls, "nothing is looked up"
    assert len(granter.ask.fetches) == 1, "the broker is asked first, so a client without READ sees no difference"


def test_a_topics_policy_sets_the_life_and_size_of_grants(granter: Granter, workers: ThreadPoolExecutor) -> None:
    control(granter, workers, {"orders.url_ttl": 7}, {})
    grant, _ = granter.granted(tagged_fetch())
    assert 0 < (grant.expires_in_ms or 0) <= 7000
    assert granter.tier.url_ttls == [7]
    control(granter, workers, {"other.url_ttl": 7}, {})
    assert 7000 < (granter.granted(tagged_fetch())[0].expires_in_ms or 0) <= 30_000


def test_a_grant_promises_no_longer_life_than_its_urls_have(granter: Granter) -> None:
    granter.tier.life = 7.0
    grant, _ = granter.granted(tagged_fetch())
    assert 0 < (grant.expires_in_ms or 0) <= 7000


def test_a_client_above_its_limit_is_not_granted(granter: Granter, workers: ThreadPoolExecutor) -> None:
    control(granter, workers, {}, {"me@*.bytes_per_second": 0})
    assert granter.refused(tagged_fetch()) == "client-limit"
    assert not granter.tier.calls


def test_a_limit_counts_grants_made_meanwhile(granter: Granter, workers: ThreadPoolExecutor) -> None:
    control(granter, workers, {}, {"me@*.grants_per_second": 1e-6})

    async def answer_two() -> list[bytes | None]:
        requests = (client_request(tagged_fetch(), 13), client_request(tagged_fetch(), 13))
        return await asyncio.gather(*(granter.broker.answer(request, granter.ask) for request in requests))

    answers = asyncio.run(answer_two())
    assert sum(one is not None for one in answers) == 1
    assert granter.counters["locations_refused.client-limit"] == 1


def test_grants_are_counted_by_client_and_topic(granter: Granter) -> None:
    for principal in ("", "commonName=app"):
        request = attrs.evolve(client_request(tagged_fetch(), 13), client="192.0.2.1:5", principal=principal)
        assert asyncio.run(granter.broker.answer(request, granter.ask))
    assert granter.counters.granted.snapshot() == {
        ("commonName=app", "orders"): (2, 3500),
        ("me@192.0.2.1", "orders"): (2, 3500),
    }
    assert granter.counters["bytes_granted"] == 7000
