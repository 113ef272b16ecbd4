"""Which path feeds each partition, and the hand-over between the two.

To the tier: the inner consumer's partition is paused and a reader starts at the exact next offset. To the broker: the reader is
stopped, the inner consumer is resumed and then sought to the exact next offset with its leader epoch (seek before resume can
cost a second in librdkafka). A partition goes to the tier only when it lies below the broker's local log and stays there until
the tier has no more for it, so that it does not flap where both hold the data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.remote_reader import ReadEnd
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel

__all__ = ["InnerConsumer", "Routing"]

_log = logging.getLogger(__name__)

_RECHECK_TICK_SECONDS = 0.1


@attrs.frozen
class InnerConsumer:
    """The methods of the inner consumer that move a partition: bound, and free of any override."""

    pause: Callable[[list[TopicPartition]], None]
    resume: Callable[[list[TopicPartition]], None]
    seek: Callable[[TopicPartition], None]


class Routing:
    """Moves flows between the routes. Not thread-safe: only the application's calls use it."""

    def __init__(
        self,
        inner: InnerConsumer,
        engine: FetchEngine,
        flows: SubscriptionState,
        config: RemoteFetchConfig,
        *,
        isolation_level: IsolationLevel,
        clock: Clock,
        metrics: FetchMetrics,
    ) -> None:
        self._inner = inner
        self._engine = engine
        self._flows = flows
        self._config = config
        self._isolation_level = isolation_level
        self._clock = clock
        self._metrics = metrics
        self._next_tick = 0.0

    def learn_offsets(self, flows: list[PartitionFlow]) -> None:
        """Asks where the tiers of newly assigned or sought partitions begin and end, all within one location time-out.

        Those that nobody can tell of start on the broker path and are looked at again soon.
        """
        deadline = Deadline(self._clock, self._config.location_timeout_ms / 1000)
        for flow in flows:
            if flow.may_be_tiered and not deadline.expired():
                try:
                    flow.learn(self._engine.offsets(flow.topic, flow.partition, deadline))
                except DirectFetchError as error:
                    self._metrics.error(error.cause)
                    _log.info("the tiers of %s-%d are unknown: %s", *flow.key, error.cause)
            flow.recheck_at = self._clock.monotonic() + self._config.fallback_backoff_ms / 1000

    def go_remote(self, flow: PartitionFlow) -> None:
        """Reads the flow from the tier, from its next offset on; while the user has it paused, later."""
        self._inner.pause([flow.topic_partition()])
        flow.route = Route.REMOTE
        if not flow.paused:
            flow.reader = self._engine.reader(
                flow.topic,
                flow.partition,
                flow.next_offset,
                leader_epoch=flow.leader_epoch,
                isolation_level=self._isolation_level,
                stop_at_local=True,
                borrow=True,
            )

    def go_broker(self, flow: PartitionFlow) -> None:
        """Lets the inner consumer deliver from the flow's next offset."""
        flow.detach()
        flow.route = Route.BROKER
        partition = flow.here()
        if not flow.moved:
            self._inner.resume([partition])
            return
        try:
            # The first seek keeps the resumed fetcher from asking for one page at the old place, which may be a remote read.
            self._inner.seek(partition)
            self._inner.resume([partition])
            self._inner.seek(partition)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a public constant with a private-looking name
                raise
            # librdkafka still applies the assignment. Nothing is delivered until recheck() has tried again.
            self._inner.pause([partition])
            flow.recheck_at = 0.0
        else:
            flow.moved = False

    def take(self, limit: int) -> tuple[PartitionFlow, list[Message]] | None:
        """The next slice of the partition whose turn it is. Ends of readers are acted on in passing."""
        for flow in self._flows.remote_flows():
            taken = flow.take(limit)
            if isinstance(taken, ReadEnd):
                self._end(flow, taken)
            elif taken is not None:
                messages, size = taken
                self._metrics.add("remote-fetch-records-total", len(messages))
                self._metrics.add("remote-fetch-record-bytes-total", size)
                return flow, messages
        return None

    def recheck(self) -> None:
        """Sends partitions back to the tier that have fallen behind the local log, once their pause is over."""
        now = self._clock.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + _RECHECK_TICK_SECONDS
        for flow in self._flows:
            if flow.route is Route.BROKER and not flow.paused and flow.recheck_at <= now:
                if flow.moved:
                    self.go_broker(flow)
                elif flow.next_offset >= 0:
                    self._look_again(flow, now)

    def _look_again(self, flow: PartitionFlow, now: float) -> None:
        offsets = self._engine.watch.offsets(flow.topic, flow.partition)
        if offsets is None:
            return  # asked for in the background; the next tick sees the answer
        flow.offsets = offsets
        flow.recheck_at = now + self._config.recheck_interval_ms / 1000
        if flow.next_offset < offsets.earliest_local:
            flow.moved = True
            self.go_remote(flow)
            self._flows.reroute()

    def _end(self, flow: PartitionFlow, end: ReadEnd) -> None:
        """The tier has no more for this partition, or cannot be read: the broker goes on at the exact next offset."""
        now = self._clock.monotonic()
        flow.offsets = end.offsets
        flow.next_offset = end.next_offset
        flow.leader_epoch = end.leader_epoch
        if end.error is None and 0 <= end.offsets.earliest_local <= flow.next_offset:
            self._metrics.add("remote-fetch-handovers-total")
            flow.failures = 0
            flow.recheck_at = now + self._config.recheck_interval_ms / 1000
        else:
            self._metrics.fallback(end.reason)
            flow.recheck_at = now + flow.backoff_seconds(self._config.fallback_backoff_ms / 1000)
            _log.info("%s-%d goes on by the broker from offset %d: %s", *flow.key, flow.next_offset, end.reason)
        self.go_broker(flow)
        self._flows.reroute()
