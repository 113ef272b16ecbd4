"""The shim of a simulated world: the real grants, resolver, signer and metadata follower, in virtual time.

::

    part                                          | real or model
    GrantingBroker, look-ups, decisions, limits   | real, on the world's event loop
    ResolvingTier, lineage, indexes, URL signer   | real
    RemoteLogMetadataFollower, its thread         | real, in a virtual thread
    worker threads                                | model: a call takes a random time
    librdkafka below the follower                 | model: MetadataConsumer
    proxy, frames, TLS                            | left out: messages arrive as they are

A client without READ gets TOPIC_AUTHORIZATION_FAILED from the brokers, and learns nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.remote_log.follower import METADATA_TOPIC, RemoteLogMetadataFollower
from kafka_remote_client.remote_log.layout import LayoutOptions
from kafka_remote_client.remote_log.layouts import layout_named
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.shim.broker_strategy import ClientRequest
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.offered_versions import announce
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.tiered_cluster.batches import records_of
from kafka_remote_client.wire import Buffer
from tests.simulation.brokers import Brokers, StoredObjects

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["MetadataConsumer", "Shim"]

_LOOKUP_SECONDS = 3.0
_CLIENT_ID = "simulated"
_FORBIDDEN = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

_T = TypeVar("_T")


class _Workers(Executor):
    """A pool whose calls take ``seconds()``."""

    def __init__(self, world: World, seconds: Callable[[], float]) -> None:
        self._world = world
        self._seconds = seconds

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = Future()
        self._world.after(self._seconds(), partial(self._run, future, partial(fn, *args, **kwargs)))
        return future

    def _run(self, future: Future[_T], call: Callable[[], _T]) -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)


class MetadataConsumer:
    """What the follower calls of confluent_kafka's Consumer, over the metadata topic of the simulated brokers."""

    def __init__(self, world: World, brokers: Brokers) -> None:
        self._world = world
        self._brokers = brokers
        self._next: dict[int, int] = {}
        self._ended: dict[int, int] = {}

    def poll(self, _timeout: float) -> None:
        """No callback waits."""

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        self._takes(timeout)
        partitions = dict.fromkeys(range(len(self._partitions)))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        self._takes(timeout)
        return 0, self._end(place.partition)

    def assign(self, places: list[TopicPartition]) -> None:
        self._next = {}
        self.incremental_assign(places)

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._next[place.partition] = place.offset
            self._ended.pop(place.partition, None)

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for place in places:
            del self._next[place.partition]

    def consume(self, most: int, timeout: float) -> list[Message]:
        """Waits for the answer to a fetch, or until the time is over."""
        if any(self._end(number) > at or self._ended.get(number) != at for number, at in self._next.items()):
            self._takes(timeout)
        else:
            self._world.threads.wait(timeout)
        found: list[Message] = []
        for number in self._next:
            found += self._of_partition(number, most)
        return found

    def close(self) -> None:
        """Nothing is open."""

    @property
    def _partitions(self) -> list[Any]:
        topic = self._brokers.topics.named(METADATA_TOPIC)
        assert topic is not None
        return topic.partitions

    def _end(self, number: int) -> int:
        return int(self._partitions[number].log.end_offset)

    def _takes(self, timeout: float) -> None:
        world = self._world
        world.threads.wait(min(world.some(world.scenario.latency), timeout))
        if world.happens(world.scenario.follower_fails / 4):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "simulated"))

    def _of_partition(self, number: int, most: int) -> list[Message]:
        if self._world.happens(self._world.scenario.follower_fails / 20):
            return [_told(number, KafkaError.OFFSET_OUT_OF_RANGE, self._next[number])]
        if self._next[number] == self._end(number) == self._ended.get(number):
            return []
        batches = [one for segment in self._partitions[number].log.segments for one in segment.batches]
        found = []
        for batch in batches[self._next[number] : self._next[number] + most]:  # each has one record
            (record,) = records_of(batch)
            found.append(
                Message(METADATA_TOPIC, number, batch.base_offset, record.key, record.value, leader_epoch=batch.leader_epoch)
            )
        at = self._next[number] = self._next[number] + len(found)
        if at == self._end(number) and self._ended.get(number) != at:
            self._ended[number] = at
            found.append(_told(number, KafkaError._PARTITION_EOF, at))
        return found


def _told(number: int, code: int, offset: int) -> Message:
    return Message(METADATA_TOPIC, number, offset, error=KafkaError(code, "simulated"))


class Shim:
    """See the module."""

    def __init__(self, world: World, brokers: Brokers) -> None:
        self._world = world
        self._brokers = brokers
        scenario = world.scenario
        store = RemoteLogMetadataStore()
        self.follower = RemoteLogMetadataFollower({}, store, clock=world.clock)
        tier = ResolvingTier(
            store,
            StoredObjects(brokers.objects),
            layout_named("local-tiered-storage", LayoutOptions()),
            brokers.signer,
            url_ttl=scenario.url_seconds,
            ready=self.follower.ready,
        )
        limits = GrantLimits(
            range_bytes=scenario.range_bytes,
            max_grant_bytes=scenario.grant_bytes,
            url_ttl=scenario.url_seconds,
            lookup_timeout=_LOOKUP_SECONDS,
        )
        self.counters = Counters()
        kept = _Workers(world, lambda: world.some(0.0005))
        self._strategy = GrantingBroker(tier, limits, self.counters, _Workers(world, self._lookup_seconds), kept)

    def start(self) -> None:
        """Begins to follow the metadata topic."""
        self._world.threads.start(partial(self.follower._run, self.metadata_consumer()))

    def metadata_consumer(self, _settings: object = None) -> Any:
        """Returns a consumer for the follower."""
        return MetadataConsumer(self._world, self._brokers)

    def stop(self) -> None:
        """The follower's thread ends when it looks again."""
        self.follower._stop.set()

    async def answer(self, node: int, client: str, connection: str, api_key: int, version: int, body: bytes) -> bytes:
        """Returns the body of the answer to a client's request on a connection to a broker."""
        ask = partial(self._ask, node, client)
        if api_key == ApiKey.API_VERSIONS:
            return announce(version, await ask(api_key, version, body), self._strategy.api_versions)
        if self._strategy.collects(RequestHead(api_key, version, 0), len(body)) and self._strategy.claims(
            RequestHead(api_key, version, 0), body
        ):
            header = RequestHeader(api_key, version, 0, _CLIENT_ID)
            request = ClientRequest(header, memoryview(body), client=connection, principal=client)
            answer = await self._strategy.answer(request, ask)
            if answer is not None:
                return answer
        return bytes(await ask(api_key, version, body))

    async def _ask(self, node: int, client: str, api_key: int, version: int, body: Buffer) -> memoryview:
        """The broker answers a client's request, or one of the shim on its connection."""
        await asyncio.sleep(self._world.some(self._world.scenario.latency / 4))
        answer = await self._brokers.requests.answer(node, api_key, version, bytes(body))
        assert answer is not None
        if api_key == ApiKey.FETCH and client in self._brokers.denied:
            answer = _forbidden(answer, version)
        await asyncio.sleep(self._world.some(self._world.scenario.latency / 4))
        return memoryview(answer)

    def _lookup_seconds(self) -> float:
        world = self._world
        if world.happens(world.scenario.lookups_slow):
            return world.chance.uniform(0.2, 2 * _LOOKUP_SECONDS)
        return world.some(world.scenario.latency)


def _forbidden(answer: bytes, version: int) -> bytes:
    told = fetch.decode_response(answer, version)
    topics = tuple(
        attrs.evolve(topic, partitions=tuple(fetch.PartitionData(one.partition_index, _FORBIDDEN) for one in topic.partitions))
        for topic in told.responses
    )
    return fetch.encode_response(fetch.FetchResponse(topics), version)
