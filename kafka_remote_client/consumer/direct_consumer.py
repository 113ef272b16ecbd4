"""The consumer with direct fetch on: old records from the store, new ones from the broker, one sequence.

Each assigned partition is on one route at a time (routing.py). While it is read directly the inner consumer's partition is
paused and only keeps the group, commits and callbacks going. Every call that delivers also polls the inner consumer, because
only that counts for ``max.poll.interval.ms`` and serves callbacks.

``enable.auto.offset.store`` is always false inside, because librdkafka refuses ``store_offsets`` otherwise; where the
application left it on, offsets are stored here when they are handed out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.consumer.assemble import build_engine, isolation_level
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.consumer.routing import InnerConsumer, Routing
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import UNKNOWN_EPOCH

__all__ = ["DirectConsumer"]

_log = logging.getLogger(__name__)

_SLICE = 500
_WAKE_SECONDS = 0.01
_JOINING_SECONDS = 0.1
_COMMITTED_SECONDS = 5.0
_EARLIEST = frozenset({"smallest", "earliest", "beginning"})

RebalanceCallback = Callable[[confluent_kafka.Consumer, list[TopicPartition]], None]


class DirectConsumer(Consumer):
    """See the module. Built by ``Consumer(config)`` when ``fetch.remote.enabled`` is true."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._config, inner = split_config({**(args[0] if args else {}), **kwargs})
        self._clock = SystemClock()
        self._metrics = FetchMetrics(self._clock)
        self._stores_offsets = str(inner.get("enable.auto.offset.store", True)).lower() == "true"
        self._resets_to_earliest = str(inner.get("auto.offset.reset", "latest")) in _EARLIEST
        strategy = str(inner.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or str(inner.get("group.protocol", "classic")).lower() == "consumer"
        self._flows = SubscriptionState()
        self._pending: list[Message] = []
        self._pending_flow: PartitionFlow | None = None
        self._broker_turn = False
        self._assigned_by_user = False
        self._engine = build_engine(self._config, inner, self._clock, self._metrics)
        super(Consumer, self).__init__({**inner, "enable.auto.offset.store": False})
        self._routing: Routing | None = None
        if self._engine is not None:
            self._routing = Routing(
                InnerConsumer(super().pause, super().resume, super().seek),
                self._engine,
                self._flows,
                self._config,
                isolation_level=isolation_level(inner),
                clock=self._clock,
                metrics=self._metrics,
            )

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        """The metrics of docs/metrics.md as plain numbers."""
        return self._metrics.snapshot()

    # -- subscription and assignment ---------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """As confluent_kafka's; the callbacks get this consumer."""
        super().subscribe(
            topics,
            on_assign=self._assigning(on_assign),
            on_revoke=self._revoking(on_revoke),
            on_lost=self._revoking(on_lost or on_revoke),
        )

    def _assigning(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        def on_assign(_: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
            self._assigned_by_user = False
            try:
                if callback is not None:
                    callback(self, partitions)
            finally:
                if not self._assigned_by_user:
                    assign = DirectConsumer.incremental_assign if self._incremental else DirectConsumer.assign
                    assign(self, partitions)

        return on_assign

    def _revoking(self, callback: RebalanceCallback | None) -> RebalanceCallback:
        def on_revoke(_: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
            self._forget((tp.topic, tp.partition) for tp in partitions)
            if callback is not None:
                callback(self, partitions)

        return on_revoke

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        flows = self._resolve(partitions)
        super().assign([flow.inner_start() for flow in flows])
        self._forget(flow.key for flow in self._flows)
        self._adopt(flows)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned_by_user = True
        flows = self._resolve(partitions)
        super().incremental_assign([flow.inner_start() for flow in flows])
        self._adopt(flows)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        super().incremental_unassign(partitions)
        self._forget((tp.topic, tp.partition) for tp in partitions)

    def unassign(self) -> None:
        super().unassign()
        self._forget(flow.key for flow in self._flows)

    def unsubscribe(self) -> None:
        super().unsubscribe()
        self._forget(flow.key for flow in self._flows)

    def _resolve(self, partitions: Iterable[TopicPartition]) -> list[PartitionFlow]:
        """Flows with their start: the offset given, else the committed one, else what ``auto.offset.reset`` says."""
        partitions = list(partitions)
        asked = [TopicPartition(tp.topic, tp.partition) for tp in partitions if tp.offset in (OFFSET_INVALID, OFFSET_STORED)]
        stored = self._committed_starts(asked) if asked and self._routing is not None else {}
        starts = [stored.get((tp.topic, tp.partition), tp) for tp in partitions]
        flows = [PartitionFlow(start.topic, start.partition, start.offset, _epoch(start)) for start in starts]
        if self._routing is not None:
            self._routing.learn_offsets(flows)
        return flows

    def _committed_starts(self, asked: list[TopicPartition]) -> dict[tuple[str, int], TopicPartition]:
        """Committed offsets; where there is none and the policy is "earliest", the beginning. Empty when nobody answers."""
        try:
            committed = self.committed(asked, timeout=_COMMITTED_SECONDS)
        except KafkaException as error:
            _log.warning("committed offsets are unknown, so the broker path starts: %s", error)
            return {}
        found = {}
        for tp in committed:
            if tp.error is None and tp.offset >= 0:
                found[tp.topic, tp.partition] = tp
            elif tp.error is None and self._resets_to_earliest:
                found[tp.topic, tp.partition] = TopicPartition(tp.topic, tp.partition, OFFSET_BEGINNING)
        return found

    def _adopt(self, flows: list[PartitionFlow]) -> None:
        for flow in flows:
            self._flows.add(flow)
            if self._routing is not None and flow.below_local:
                self._routing.go_remote(flow)
        self._flows.reroute()

    def _forget(self, keys: Iterable[tuple[str, int]]) -> None:
        self._flows.remove(list(keys))
        self._drop_pending()

    def _drop_pending(self) -> None:
        """Forgets records taken for poll() whose partition is no longer read this way."""
        flow = self._pending_flow
        if flow is not None and (self._flows.get(*flow.key) is not flow or flow.reader is None):
            self._pending = []
            self._pending_flow = None

    # -- delivery ----------------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Message | None:
        """As confluent_kafka's, from both tiers in turn."""
        deadline = None if timeout < 0 else Deadline(self._clock, timeout)
        while True:
            if self._routing is not None:
                self._routing.recheck()
            self._broker_turn = not self._broker_turn
            # A message without a value is falsy, so only None means that there is none.
            message = self._poll_broker(0) if self._broker_turn else self._poll_remote()
            if message is None:
                message = self._poll_remote() if self._broker_turn else self._poll_broker(0)
            if message is None:
                left = None if deadline is None else deadline.remaining()
                if left == 0.0:
                    return None
                message = self._wait(left)
            if message is not None:
                return message

    def _wait(self, left: float | None) -> Message | None:
        """Waits a while for either tier: briefly where the store may bring the next record, else in the inner poll."""
        if self._engine is not None and self._flows.any_remote:
            self._engine.wait(_WAKE_SECONDS if left is None else min(left, _WAKE_SECONDS))
            return None
        return self._poll_broker(self._inner_slice(left))

    def _inner_slice(self, left: float | None) -> float:
        """How long an inner call may last before routes have to be looked at again."""
        longest = self._config.recheck_interval_ms / 1000 if len(self._flows) else _JOINING_SECONDS
        return longest if left is None else min(left, longest)

    def _poll_broker(self, timeout: float) -> Message | None:
        message = super().poll(timeout)
        if message is None or not self._accept([message]):
            return None
        if self._stores_offsets and message.error() is None:
            super().store_offsets(message=message)
        return message

    def _poll_remote(self) -> Message | None:
        """The next record from the tier. It counts as handed out now, whatever was taken ahead with it."""
        if not self._pending:
            taken = self._routing.take(_SLICE) if self._routing is not None else None
            if taken is None:
                return None
            self._pending_flow, messages = taken
            self._pending = messages[::-1]
        message = self._pending.pop()
        self._note_pending(message)
        if self._stores_offsets:
            super().store_offsets(message=message)
        return message

    def _note_pending(self, message: Message) -> None:
        if self._pending_flow is not None:
            self._pending_flow.position = _offset(message) + 1

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As confluent_kafka's: waits for ``num_messages`` until ``timeout`` seconds are over."""
        if not 0 < num_messages <= 1_000_000:
            return super().consume(num_messages, 0)
        deadline = None if timeout < 0 else Deadline(self._clock, timeout)
        batch: list[Message] = []
        while True:
            if self._routing is not None:
                self._routing.recheck()
            generation = self._flows.generation
            left = None if deadline is None else deadline.remaining()
            pause = 0 if self._flows.any_remote else self._inner_slice(left)
            arrived = super().consume(num_messages - len(batch), pause)
            if self._flows.generation != generation:
                batch = [message for message in batch if self._still_owned(message)]
            batch.extend(self._accept(arrived))
            self._fill_from_remote(batch, num_messages)
            if len(batch) >= num_messages or (deadline is not None and deadline.expired()):
                self._store_last(batch)
                return batch
            if self._engine is not None and self._flows.any_remote:
                self._engine.wait(_WAKE_SECONDS if deadline is None else min(deadline.remaining(), _WAKE_SECONDS))

    def _fill_from_remote(self, batch: list[Message], num_messages: int) -> None:
        room = num_messages - len(batch)
        if self._pending and room:
            batch.extend(self._pending[-room:][::-1])
            del self._pending[-room:]
            self._note_pending(batch[-1])
        while self._routing is not None and len(batch) < num_messages:
            taken = self._routing.take(num_messages - len(batch))
            if taken is None:
                return
            batch.extend(taken[1])

    def _still_owned(self, message: Message) -> bool:
        return message.error() is not None or self._flows.get(*_key(message)) is not None

    def _accept(self, arrived: list[Message]) -> list[Message]:
        """Notes messages of the inner consumer as handed out; leaves out those that a change of route has overtaken."""
        if self._flows.any_remote:
            arrived = [message for message in arrived if self._by_broker(message)]
        for key, message in self._last_records(arrived).items():
            flow = self._flows.get(*key)
            if flow is not None:
                flow.handed_out(_offset(message), _epoch(message))
        records = [message for message in arrived if message.error() is None]
        self._metrics.add("broker-fetch-records-total", len(records))
        self._metrics.add("broker-fetch-record-bytes-total", sum(map(len, records)))
        return arrived

    def _last_records(self, batch: list[Message]) -> dict[tuple[str, int], Message]:
        """The last record of each partition in ``batch``."""
        last: dict[tuple[str, int], Message] = {}
        for message in reversed(batch):
            if message.error() is None:
                last.setdefault(_key(message), message)
                if len(last) == len(self._flows):
                    break
        return last

    def _by_broker(self, message: Message) -> bool:
        """Whether a message (or an error, such as the end of a partition) speaks for its partition at this moment."""
        topic, partition = message.topic(), message.partition()
        if topic is None or partition is None:
            return True
        flow = self._flows.get(topic, partition)
        return flow is None or (flow.route is Route.BROKER and not flow.moved)

    def _store_last(self, batch: list[Message]) -> None:
        """Stores the offset after the last record of each partition in ``batch``."""
        if self._stores_offsets:
            for message in self._last_records(batch).values():
                super().store_offsets(message=message)

    # -- position and flow control -----------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition) -> None:
        flow = self._flows.get(partition.topic, partition.partition)
        if flow is None or self._routing is None:
            super().seek(partition)
            return
        target = PartitionFlow(partition.topic, partition.partition, partition.offset, _epoch(partition))
        self._routing.learn_offsets([target])
        super().pause([partition])
        try:
            super().seek(target.here())
        except KafkaException:
            if flow.route is Route.BROKER and not flow.paused:
                super().resume([partition])
            raise
        self._flows.generation += 1
        flow.detach()
        self._drop_pending()
        flow.sought(target)
        if flow.below_local:
            self._routing.go_remote(flow)
        elif not flow.paused:
            super().resume([partition])
            super().seek(flow.here())
        self._flows.reroute()

    def pause(self, partitions: list[TopicPartition]) -> None:
        super().pause(partitions)
        self._flows.generation += 1
        for tp in partitions:
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None:
                flow.paused = True
                if self._pending_flow is flow and self._pending:
                    flow.next_offset = _offset(self._pending[-1])  # what poll() took ahead was not handed out
                flow.detach()
        self._drop_pending()
        self._flows.reroute()

    def resume(self, partitions: list[TopicPartition]) -> None:
        inner = []
        for tp in partitions:
            flow = self._flows.get(tp.topic, tp.partition)
            was_paused = flow is not None and flow.paused
            if flow is not None:
                flow.paused = False
            if flow is None or flow.route is Route.BROKER:
                inner.append(tp)
            elif was_paused and self._routing is not None:
                self._routing.go_remote(flow)
        if inner:
            super().resume(inner)
        self._flows.reroute()

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        answered = super().position(partitions)
        for index, tp in enumerate(answered):
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None and tp.error is None:
                answered[index] = flow.topic_partition(flow.position)
        return answered

    # -- offsets and the end -----------------------------------------------------------------------------------------------

    def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        """As confluent_kafka's: refused while ``enable.auto.offset.store`` is on."""
        if self._stores_offsets:
            code = KafkaError._INVALID_ARG  # noqa: SLF001 - a public constant with a private-looking name
            raise KafkaException(KafkaError(code, "enable.auto.offset.store is true"))
        super().store_offsets(*args, **kwargs)

    def close(self) -> None:
        """As confluent_kafka's; then all of direct fetch is stopped as well."""
        try:
            super().close()
        finally:
            self._forget(flow.key for flow in self._flows)
            if self._engine is not None:
                self._engine.close()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _key(message: Message) -> tuple[str, int]:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _epoch(of: Message | TopicPartition) -> int:
    epoch = of.leader_epoch() if isinstance(of, Message) else of.leader_epoch
    return UNKNOWN_EPOCH if epoch is None else epoch
