"""Routing with an inner consumer and an engine that record their calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_END, OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.inner_behaviour import InnerBehaviour
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.inner_start import assign_inner
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.routing import Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.partition_state import ReaderState
from kafka_remote_client.fetch.preference import BrokerPreference
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.wire import ZERO_UUID
from tests.support.locations import ManualClock

__all__ = ["BOUNDS", "FakeEngine", "FakeReader", "Rig"]

BOUNDS = PartitionOffsets(log_start=10, earliest_local=100, latest_tiered=99, high_watermark=150)


class FakeReader:
    """A reader with these blocks and ends."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = deque(items)
        self.offsets = PartitionOffsets()
        self.topic_id = ZERO_UUID
        self.stopped = False
        self.released = 0
        self.state = ReaderState.READING

    @property
    def has_ready(self) -> bool:
        return bool(self.items)

    def take(self) -> Any:
        return self.items.popleft() if self.items else None

    def release(self) -> None:
        self.released += 1

    def stop(self) -> None:
        self.stopped = True


class FakeEngine:
    """Records what is asked of it. It is its own watch and admission."""

    def __init__(self) -> None:
        self.read_requests: list[ReadRequest] = []
        self.items: list[Any] = []
        self.requested: list[tuple[str, int]] = []
        self.answers: dict[tuple[str, int], PartitionOffsets | DirectFetchError | None] = {}
        self.watched: PartitionOffsets | DirectFetchError | None = None
        self.times_watched = 0
        self.watch = self
        self.admission = self
        self.preference = BrokerPreference(1000, 10.0)
        self.suspended_at = 0.0

    def reader(self, request: ReadRequest, *, on_ready: Callable[[], None], on_passed: Callable[[], None]) -> FakeReader:
        self.read_requests.append(request)
        if self.items:
            on_ready()
        return FakeReader(self.items)

    def offsets_of(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Any]:
        self.times_watched += 1
        return {} if self.watched is None else dict.fromkeys(partitions, self.watched)

    def ask(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.requested += partitions

    def suspended_until(self, now: float) -> float:
        return max(now, self.suspended_at)

    def answer(self, key: tuple[str, int]) -> Any:
        return self.answers.get(key, BOUNDS) if key in self.requested else None


class Rig:
    """Routing with an inner consumer that records its calls as (name, offset) and rejects seeks by the codes of ``refuse``."""

    def __init__(self, topics: str | None = None, **settings: str) -> None:
        self.calls: list[tuple[str, int]] = []
        self.refuse: list[int] = []
        self.refuses_to_assign = False
        self.end: int | None = 150
        """Where the logs end, if their leaders answer."""
        self.inner_position = OFFSET_INVALID
        self.positions_asked: list[int] = []
        self.engine = FakeEngine()
        self.flows = SubscriptionState()
        self.clock = ManualClock()
        self.metrics = FetchMetrics(self.clock)
        self.committed: TopicPartition | None = None
        self.inner = inner = InnerConsumer.of(lambda name: partial(self._call, name))
        self.routing = Routing(
            inner,
            self.engine,
            self.flows,
            CommittedOffsets(inner, self.flows, self.clock, stores=True, commits=True),
            RemoteFetchConfig(enabled=True, topics=topics),
            InnerBehaviour.of(settings),
            self.clock,
            self.metrics,
        )

    def _call(self, name: str, partitions: Any = None, *, offsets: Any = None, timeout: float = 0.0) -> Any:
        if name == "position":
            self.positions_asked.append(len(partitions))
            return [TopicPartition(tp.topic, tp.partition, self.inner_position) for tp in partitions]
        if name == "committed":
            return [] if self.committed is None else [self.committed]
        if name == "seek":
            return self._seek(partitions)
        if name == "offsets_for_times":
            return self._ends(partitions)
        if name.endswith("assign"):
            return self._assigns(name, partitions)
        return self.calls.append((name, (partitions or offsets)[0].offset))

    def _ends(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        assert {tp.offset for tp in partitions} == {OFFSET_END}
        if self.end is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [TopicPartition(tp.topic, tp.partition, self.end) for tp in partitions]

    def _seek(self, partition: TopicPartition) -> None:
        if self.refuse:
            raise KafkaException(KafkaError(self.refuse.pop()))
        self.calls.append(("seek", partition.offset))

    def _assigns(self, call: str, partitions: list[TopicPartition]) -> None:
        self.calls.append((call, partitions[0].offset))
        if self.refuses_to_assign:
            raise KafkaException(KafkaError(KafkaError._CONFLICT))
        if call == "incremental_assign":
            self.refuse = []

    def assign(self, inner_assign: Callable[[list[TopicPartition]], None], *flows: PartitionFlow) -> None:
        assign_inner(self.inner, self.flows, inner_assign, list(flows))

    def adopted(self, offset: int) -> PartitionFlow:
        """Returns partition 0 of ``t``, assigned at ``offset``."""
        flow = PartitionFlow("t", 0, offset)
        self.take_up(flow)
        return flow

    def from_committed(self, offset: int) -> PartitionFlow:
        """Returns partition 0 of ``t``, assigned at its committed offset, which is known at once; -1001 = none."""
        self.committed = TopicPartition("t", 0, offset)
        flow = PartitionFlow("t", 0, OFFSET_STORED)
        self.take_up(flow, assigned=True)
        return flow

    def take_up(self, *flows: PartitionFlow, assigned: bool = False) -> None:
        """Assigns the partitions and lets their bounds arrive."""
        self.routing.begin(list(flows), assigned=assigned)
        self.assign(lambda starts: None, *flows)
        for flow in flows:
            self.routing.adopt(flow)
        self.calls.clear()
        self.routing.decide()

    @property
    def location_timeout(self) -> float:
        return RemoteFetchConfig().location_timeout_ms / 1000

    @property
    def fallbacks(self) -> Any:
        return self.metrics.snapshot()["remote-fetch-fallbacks-total"]
