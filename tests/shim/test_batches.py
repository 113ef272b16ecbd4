"""A Fetch for several locations is answered partition by partition, without waiting for slow look-ups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ObjectNotFoundError, ProtocolError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel, NotRemote
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.dialect import MOST_PARTITIONS, TaggedDialect
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.headers import encode_response_header
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.shim import grants
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import MOST_RANGES, GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.server import Shim
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.kafka_client import RawClient
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.shim_fakes import FakeAsk, FakeTier, batched_fetch, client_request, data, resolved, tagged_fetch

SECONDS = 60
GRANTED, PENDING = "granted", "pending"


class HeldTier(FakeTier):
    """A tier of all partitions; those in ``held`` are looked up when :meth:`release` is called."""

    def __init__(self, *held: int) -> None:
        super().__init__()
        self.partitions = range(1000)
        self.held = held
        self._go_on = threading.Event()

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        found = super().resolve(question)
        if question.partition in self.held:
            assert self._go_on.wait(SECONDS)
        return found

    def release(self) -> None:
        self._go_on.set()

    def looked_up(self, partition: int) -> int:
        """Returns how many look-ups of the partition began."""
        return sum(question.partition == partition for question in self.calls)


class Batches:
    """A granting broker with fakes, and its answers for each partition."""

    def __init__(self, tier: HeldTier, workers: ThreadPoolExecutor, **limits: Any) -> None:
        self.tier = tier
        self.ask = FakeAsk()
        self.counters = Counters()
        given = {"lookup_timeout": SECONDS, **limits}
        self.broker = GrantingBroker(tier, GrantLimits(3000, 5000, 30.0, **given), self.counters, workers)

    async def response(self, request: fetch.FetchRequest, version: int = 13) -> fetch.FetchResponse:
        body = await self.broker.answer(client_request(request, version), self.ask)
        assert body is not None, self.counters.snapshot()
        return fetch.decode_response(body, version)

    async def told(self, request: fetch.FetchRequest, version: int = 13) -> dict[int, str | fetch.PartitionData]:
        """Returns by partition: granted, pending, or the data of an ordinary answer."""
        response = await self.response(request, version)
        assert not response.error_code
        return {one.partition_index: kind(one) for topic in response.responses for one in topic.partitions}


def kind(told: fetch.PartitionData) -> str | fetch.PartitionData:
    grant = TaggedDialect().read_grant(told.tags, ["ApacheKafkaV1"])
    if grant is None and not TaggedDialect().is_pending(told.tags):
        return told
    assert not told.error_code
    assert bytes(told.records or b"") == b""
    assert (told.high_watermark, told.log_start_offset) == (1000, 50)
    return PENDING if grant is None else GRANTED


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the first decision wait for all others."""
    monkeypatch.setattr(grants, "_GATHER_SECONDS", SECONDS)


def run(body: Callable[[Batches], Awaitable[None]], tier: HeldTier, **limits: Any) -> Batches:
    """Runs ``body`` in its own loop; held look-ups are released at its end."""
    with ThreadPoolExecutor(8) as workers:
        made = Batches(tier, workers, **limits)

        async def to_the_end() -> None:
            try:
                await body(made)
            finally:
                tier.release()

        asyncio.run(to_the_end())
    return made


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("version", [12, 13])
def test_each_partition_has_its_own_answer(version: int) -> None:
    unauthorized = data(partition_index=1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, high_watermark=-1)
    local = data(partition_index=2, records=b"what the broker sent", tags={77: b"its own tag"})
    tier = HeldTier()
    tier.partitions = (0, 1)

    async def body(made: Batches) -> None:
        made.ask = FakeAsk(lambda asked: {1: unauthorized, 2: local}.get(asked.partition))
        made.ask.throttle_time_ms = 250
        assert await made.told(batched_fetch(0, 1, 2), version) == {0: GRANTED, 1: unauthorized, 2: local}
        assert (await made.response(batched_fetch(1), version)).throttle_time_ms == 250

    made = run(body, tier)
    assert {question.partition for question in tier.calls} == {0}, "an unauthorized partition is not looked up"
    counted = made.counters.snapshot()
    assert counted["locations_granted"] == counted["locations_refused.not-tiered"] == 1
    assert counted["locations_refused.broker-error"] == counted["location_requests"] == 2
    assert made.ask.metadata_topics == (["orders"] if version == 12 else [])


@pytest.mark.usefixtures("patient")
def test_one_probe_without_bytes_or_tags_covers_all_partitions() -> None:
    async def body(made: Batches) -> None:
        await made.told(batched_fetch(0, 1, 2))
        probe, *others = made.ask.fetches
        (topic,) = probe.topics
        assert [one.partition for one in topic.partitions] == [0, 1, 2]
        assert {(one.partition_max_bytes, one.fetch_offset, one.current_leader_epoch) for one in topic.partitions} == {
            (0, 120, 9)
        }
        assert (probe.max_wait_ms, probe.min_bytes, probe.tags) == (0, 0, {})
        assert all(not one.tags for one in topic.partitions)
        assert all(one.partition_max_bytes == 0 and not one.tags for other in others for one in other.topics[0].partitions)

    run(body, HeldTier())


class TierOfSegments(HeldTier):
    """A tier in which each partition has its own segment, so that the lineage of one answers for no other."""

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        found = super().resolve(question)
        assert isinstance(found, ResolvedSegment)
        known = found.metadata.remote_log_segment_id
        tip = attrs.evolve(known.topic_id_partition, partition=question.partition)
        segment_id = attrs.evolve(known, topic_id_partition=tip, id=UUID(int=1 + question.partition))
        return attrs.evolve(found, metadata=attrs.evolve(found.metadata, remote_log_segment_id=segment_id))


@pytest.mark.usefixtures("patient")
def test_lineages_of_many_partitions_are_one_request() -> None:
    tier = TierOfSegments()

    async def body(made: Batches) -> None:
        whole = made.ask

        async def ask(api_key: int, version: int, body: Any) -> memoryview:
            while whole.fetches and len(tier.calls) < 64:  # the first request waits until all others are looked up
                await asyncio.sleep(0.001)
            return await whole(api_key, version, body)

        made.ask = ask  # type: ignore[assignment] # replaced by a function
        assert set((await made.told(batched_fetch(*range(64)))).values()) == {GRANTED}
        lineage = [len(request.topics[0].partitions) for request in whole.fetches[1:]]
        assert sum(lineage) == 64
        assert len(lineage) <= 16

    run(body, tier)


def test_topic_ids_of_one_batch_are_one_request() -> None:
    one, other = batched_fetch(0), batched_fetch(0, 1)
    named = attrs.evolve(other.topics[0], topic="payments")
    request = attrs.evolve(one, topics=(*one.topics, named))

    async def body(made: Batches) -> None:
        response = await made.response(request, 12)
        assert [(topic.topic, len(topic.partitions)) for topic in response.responses] == [("orders", 1), ("payments", 2)]
        assert made.ask.metadata_topics == ["orders", "payments"]

    made = run(body, HeldTier())
    assert made.counters["locations_refused.unknown-topic"] == 2


def test_a_hung_look_up_is_pending_and_granted_later() -> None:
    tier = HeldTier(1)

    async def body(made: Batches) -> None:
        assert await made.told(batched_fetch(0, 1)) == {0: GRANTED, 1: PENDING}
        assert await made.told(batched_fetch(1, max_wait_ms=1)) == {1: PENDING}
        assert tier.looked_up(1) <= 1, "the look-up that runs is joined"
        tier.release()
        assert await made.told(batched_fetch(1)) == {1: GRANTED}

    made = run(body, tier)
    assert made.counters["locations_pending"] == 2
    assert made.counters["locations_granted"] == 2


def test_a_repeated_request_gets_all_partitions_but_hung_ones() -> None:
    tier = HeldTier(1, 3)

    async def body(made: Batches) -> None:
        pending, answers = {0, 1, 2, 3}, 0
        while pending != {1, 3}:
            told = await made.told(batched_fetch(*sorted(pending)))
            pending = {partition for partition, one in told.items() if one == PENDING}
            answers += 1
            assert answers <= 2, "each answer decides one at least"
        tier.release()
        while pending:
            told = await made.told(batched_fetch(*sorted(pending)))
            pending = {partition for partition, one in told.items() if one == PENDING}

    made = run(body, tier)
    assert made.counters["locations_granted"] == 4


def test_a_decision_longer_than_each_wait_is_delivered_in_the_end() -> None:
    """Here the broker takes longer than a client waits to answer the probe after the look-up."""
    tier = HeldTier()

    async def body(made: Batches) -> None:
        whole = made.ask

        async def ask(api_key: int, version: int, body: Any) -> memoryview:
            if whole.fetches:
                await asyncio.sleep(0.02)
            return await whole(api_key, version, body)

        made.ask = ask  # type: ignore[assignment] # replaced by a function
        answers = 0
        while await made.told(batched_fetch(0, max_wait_ms=1)) == {0: PENDING}:
            answers += 1
            assert answers < 100
        assert answers

    made = run(body, tier)
    assert tier.looked_up(0) == made.counters["locations_granted"] == 1


@pytest.mark.parametrize(("seconds", "left_ms"), [(10, 20_000), (31, 30_000)])
def test_a_kept_grant_has_the_life_that_is_left_of_its_urls(seconds: float, left_ms: int) -> None:
    tier = HeldTier(0)

    async def body(made: Batches) -> None:
        assert await made.told(batched_fetch(0, max_wait_ms=1)) == {0: PENDING}
        tier.release()
        while not made.counters["locations_granted"]:
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        now = loop.time()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "time", lambda: now + seconds)
            (told,) = (await made.response(batched_fetch(0))).responses[0].partitions
        grant = TaggedDialect().read_grant(told.tags, ["ApacheKafkaV1"])
        assert grant is not None
        assert grant.expires_in_ms is not None
        assert 0 < grant.expires_in_ms <= left_ms

    run(body, tier)
    assert tier.url_ttls == [30.0] * (1 + (seconds > 30)), "a grant whose URLs have expired is made again"


def test_connections_from_one_port_share_no_decision() -> None:
    """Two clients behind NAT may have one address and port, on listeners of different brokers."""
    tier, broker = HeldTier(), FakeAsk()

    async def silent(api_key: int, version: int, body: Any) -> memoryview:
        if broker.fetches:
            await asyncio.Event().wait()
        return await broker(api_key, version, body)

    async def body(made: Batches) -> None:
        async def told(connection: int, ask: Any, wait: int) -> str | fetch.PartitionData:
            request = client_request(batched_fetch(0, max_wait_ms=wait))
            known = attrs.evolve(request, client="192.0.2.1:5", connection=connection)
            answer = await made.broker.answer(known, ask)
            assert answer is not None
            return kind(fetch.decode_response(answer, 13).responses[0].partitions[0])

        assert await told(1, silent, 1) == PENDING
        assert await told(2, FakeAsk(), 20_000) == GRANTED

    run(body, tier)


def test_a_later_request_is_bounded_by_its_own_probe() -> None:
    tier = HeldTier(0)
    unauthorized = data(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, high_watermark=-1)
    level = IsolationLevel.READ_UNCOMMITTED

    async def body(made: Batches) -> None:
        assert await made.told(batched_fetch(0, max_wait_ms=1, isolation_level=level)) == {0: PENDING}
        made.ask = FakeAsk(lambda _asked: unauthorized)
        assert await made.told(batched_fetch(0, isolation_level=level)) == {0: unauthorized}
        made.ask = FakeAsk(lambda _asked: data(high_watermark=900, last_stable_offset=800))
        tier.release()
        response = await made.response(batched_fetch(0, isolation_level=level))
        assert [(one.high_watermark, one.last_stable_offset) for one in response.responses[0].partitions] == [(900, 800)]

    run(body, tier)
    assert [question.end_offset for question in tier.calls] == [1000, 900]


def test_a_look_up_past_its_deadline_is_refused_to_all_clients() -> None:
    tier = HeldTier(0)

    async def body(made: Batches) -> None:
        for _ in range(2):
            assert await made.told(batched_fetch(0)) == {0: data(partition_index=0)}

    made = run(body, tier, lookup_timeout=0)
    assert made.counters["locations_refused.lookup-timeout"] == 2


@pytest.mark.parametrize("wait", [0, -1])
def test_without_a_wait_only_known_locations_are_answered(wait: int) -> None:
    unauthorized = data(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def body(made: Batches) -> None:
        made.ask = FakeAsk(lambda asked: None if asked.partition < 2 else unauthorized)
        told = await made.told(batched_fetch(0, 1, 2, 3, max_wait_ms=wait))
        refused = [attrs.evolve(unauthorized, partition_index=number) for number in (2, 3)]
        assert told == {0: PENDING, 1: PENDING, 2: refused[0], 3: refused[1]}

    run(body, HeldTier(0, 1))


@pytest.mark.usefixtures("patient")
def test_a_batch_gets_no_more_ranges_than_one_partition() -> None:
    tier = HeldTier()
    wanted = {"batched": True, "range_bytes": 1}

    async def body(made: Batches) -> None:
        made.broker.reload(GrantLimits(), {})
        await made.response(batched_fetch(*range(MOST_PARTITIONS), max_bytes=1 << 40, wanted=wanted))

    run(body, tier)
    assert len(tier.calls) == MOST_PARTITIONS
    assert sum(question.max_bytes // question.range_bytes for question in tier.calls) == MOST_RANGES


def test_a_batch_of_the_maximum_size_is_answered() -> None:
    async def body(made: Batches) -> None:
        assert await made.told(batched_fetch(*range(128), formats=("Other",))) == {
            number: data(partition_index=number) for number in range(128)
        }

    made = run(body, HeldTier())
    assert made.counters["locations_refused.format"] == 128
    assert len(made.ask.fetches) == 1


QUIET = tagged_fetch(requested=False, wanted={"batched": True}).topics[0]
OLD = tagged_fetch().topics[0]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (batched_fetch(*range(129)), "several-partitions"),
        (batched_fetch(0, 0), "several-partitions"),
        (attrs.evolve(batched_fetch(0), topics=(*batched_fetch(0).topics, QUIET)), "several-partitions"),
        (attrs.evolve(batched_fetch(0), topics=(*batched_fetch(0).topics, OLD)), "several-partitions"),
        (batched_fetch(0, 1, session_id=4, session_epoch=1), "session"),
        (batched_fetch(0, 1, replica_id=1), "not-a-consumer"),
    ],
)
def test_other_requests_go_to_the_broker(request_: fetch.FetchRequest, why: str) -> None:
    async def body(made: Batches) -> None:
        assert await made.broker.answer(client_request(request_), made.ask) is None
        assert not made.ask.fetches

    made = run(body, HeldTier())
    assert made.counters[f"locations_refused.{why}"] == 1


def test_an_error_for_the_whole_batch_is_the_answer() -> None:
    async def body(made: Batches) -> None:
        made.ask.error_code = ErrorCode.UNSUPPORTED_VERSION
        assert (await made.response(batched_fetch(0, 1))).error_code == ErrorCode.UNSUPPORTED_VERSION

    made = run(body, HeldTier())
    assert made.counters["locations_refused.broker-error"] == 1
    assert not made.tier.calls


def test_partitions_that_the_broker_adds_or_omits_are_kept_as_such() -> None:
    async def body(made: Batches) -> None:
        told: list[fetch.FetchTopicResponse] = []

        async def ask(*_: Any) -> memoryview:
            return memoryview(fetch.encode_response(fetch.FetchResponse(tuple(told)), 13))

        made.ask = ask  # type: ignore[assignment] # replaced by a function
        assert await made.told(batched_fetch(0)) == {}
        told.append(fetch.FetchTopicResponse((data(partition_index=8),), topic_id=batched_fetch(0).topics[0].topic_id))
        assert await made.told(batched_fetch(0)) == {8: data(partition_index=8)}

    run(body, HeldTier())


def test_an_answer_that_does_not_parse_ends_the_connection() -> None:
    async def body(made: Batches) -> None:
        whole = FakeAsk()

        async def ask(api_key: int, version: int, body: Any) -> memoryview:
            answer = await whole(api_key, version, body)
            return answer if len(whole.fetches) == 1 else answer[:-1]

        made.ask = ask  # type: ignore[assignment] # replaced by a function
        with pytest.raises(ProtocolError):
            await made.response(batched_fetch(0, 1))

    run(body, HeldTier(1))


def test_a_missing_object_refuses_its_partition_only() -> None:
    tier = HeldTier()
    tier.answer = ObjectNotFoundError("key")

    async def body(made: Batches) -> None:
        assert await made.told(batched_fetch(0)) == {0: data(partition_index=0)}

    made = run(body, tier)
    assert made.counters["locations_refused.object-not-found"] == 1


@pytest.mark.parametrize(("end_offset", "wanted"), [(150, 150), (None, None)])
def test_the_end_of_the_read_is_part_of_the_question(end_offset: int | None, wanted: int | None) -> None:
    tier = HeldTier()

    async def body(made: Batches) -> None:
        assert await made.told(batched_fetch(0, wanted={"batched": True, "end_offset": end_offset})) == {0: GRANTED}

    run(body, tier)
    assert [question.read_end_offset for question in tier.calls] == [wanted]


@pytest.mark.parametrize(("batched", "told"), [(True, [110, 140]), (False, [None] * 2)])
def test_range_offsets_are_sent_only_to_clients_that_request_them(batched: bool, told: object) -> None:
    tier = HeldTier()
    tier.answer = resolved(range_offsets=(110, 140))

    async def body(made: Batches) -> None:
        response = await made.response(batched_fetch(0, wanted={"batched": batched}))
        grant = TaggedDialect().read_grant(response.responses[0].partitions[0].tags, ["ApacheKafkaV1"])
        assert grant is not None
        assert [one.first_offset for one in grant.ranges] == told

    run(body, tier)


class Peers:
    """A broker that answers a Fetch as FakeAsk does, and a shim that grants from a held tier."""

    def __init__(self, tier: HeldTier, workers: ThreadPoolExecutor) -> None:
        self.ask = FakeAsk()
        self.broker = ScriptedBroker(self._reply)
        self.strategy = GrantingBroker(tier, GrantLimits(), Counters(), workers)

    def _reply(self, request: ReceivedRequest) -> bytes:
        if request.api_key != ApiKey.FETCH:
            return echo(request)
        head, version = encode_response_header(ApiKey.FETCH, 13, request.correlation_id)[4:], 13
        probe = request.body[request.body.index(b"raw\0") + 4 :]
        return request.answer(head + bytes(asyncio.run(self.ask(ApiKey.FETCH, version, probe))))


@pytest.fixture
def held() -> Iterator[HeldTier]:
    tier = HeldTier(1)
    yield tier
    tier.release()


def test_requests_after_a_hung_look_up_are_answered(held: HeldTier) -> None:
    with ThreadPoolExecutor(4) as workers:
        peers = Peers(held, workers)
        with (
            peers.broker as broker,
            Shim(ShimConfig(broker.address), strategy=peers.strategy) as shim,
            RawClient(shim.bootstrap_servers) as client,
        ):
            hangs, granted = (
                client.request(ApiKey.FETCH, 13, number, fetch.encode_request(batched_fetch(number, max_wait_ms=wait), 13))
                for number, wait in ((1, 1), (2, 60_000))
            )
            client.send(hangs + granted + heartbeat(3))
            for number in (1, 2):
                told = client.read()
                assert int.from_bytes(told[:4], "big") == number
                (topic,) = fetch.decode_response(memoryview(told)[5:], 13).responses
                assert kind(topic.partitions[0]) == (PENDING if number == 1 else GRANTED)
            assert client.read()[:4] == heartbeat(3)[8:12]
        held.release()


@pytest.mark.embedded
def test_partitions_of_the_embedded_cluster_are_granted_in_one_batch(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, segment_bytes=10_000, expire_local=True) as cluster:
        for partition in (0, 1):
            cluster.produce("orders", [(None, b"%d" % number * 50) for number in range(300)], partition=partition)
        assert cluster.archive(keep_open=False)
        epochs = {"current_leader_epoch": -1, "last_fetched_epoch": -1}
        with RawClient(cluster.bootstrap_servers) as client:
            pending, granted = {0, 1, 2}, set()
            while pending:
                body = fetch.encode_request(batched_fetch(*sorted(pending), partition=epochs), 12)
                client.send(client.request(ApiKey.FETCH, 12, 5, body))
                (topic,) = fetch.decode_response(memoryview(client.read())[5:], 12).responses
                told = {one.partition_index: one.tags for one in topic.partitions}
                assert told.keys() == pending
                pending = {partition for partition, tags in told.items() if TaggedDialect().is_pending(tags)}
                granted |= {number for number, tags in told.items() if TaggedDialect().read_grant(tags, ["ApacheKafkaV1"])}
        assert granted == {0, 1}
        assert cluster.metrics()["locations_granted"] == 2
