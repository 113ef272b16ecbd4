"""DirectConsumer: the methods of a Consumer with direct fetch on. The constructor of ``Consumer`` imports this module.

:class:`DirectConsumer` decides nothing. It admits one caller at a time (call_gate.py) and calls its parts, none of which
has a strong reference to it:

======================  ==============================================================================================
``_direct_assignment``  which partitions are assigned and where: assignments, rebalances, seeks, pauses (assignment.py)
``_direct_routing``     which tier delivers each partition, and hand-overs (routing.py, route_state.py)
``_direct_deliveries``  gathered records of both tiers, and their delivery (deliveries.py)
``_direct_commits``     committed, stored and withheld offsets (committed_offsets.py)
``_direct_flows``       one value for each partition, which the four share (subscription_state.py, partition_flow.py)
``_direct_engine``      readers, threads and connections of direct reads (the package ``fetch``)
======================  ==============================================================================================

An application's subclass may have any attributes and methods, as one of confluent_kafka's class. So all names here that are
neither confluent_kafka's nor in docs/consumer.md begin with ``_direct_``, and no method here calls one by a public name.

``enable.auto.offset.store`` is always false inside, because librdkafka rejects ``store_offsets`` otherwise; if the
application left it on, offsets are stored when records are delivered.

References: KIP-1254, "Rollout Steps" and "Downgrade".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import confluent_kafka
from confluent_kafka import Message, TopicPartition

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer import class_choice
from kafka_remote_client.consumer.assignment import Assignment, RebalanceCallback
from kafka_remote_client.consumer.call_arguments import number, seconds
from kafka_remote_client.consumer.call_gate import Gate, gated
from kafka_remote_client.consumer.committed_offsets import CommittedOffsets
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.consumer.deliveries import Deliveries
from kafka_remote_client.consumer.dropped import close_when_dropped
from kafka_remote_client.consumer.forked import refuse_after_fork
from kafka_remote_client.consumer.held_exceptions import ClosedInCallback, without_callbacks
from kafka_remote_client.consumer.inner_behaviour import InnerBehaviour, with_topic_settings
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.instrumented import instrumented
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.routing import Routing
from kafka_remote_client.consumer.statistics import complete_statistics, partition_metrics, with_metrics_in_statistics
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.consumer.tier_log import Tier, TierLogs
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.location.sasl_settings import with_watched_oauth, with_watched_tokens
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import UNKNOWN_OFFSET
from kafka_remote_client.records import slice_poll

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DirectConsumer", "begin_direct"]

_T = TypeVar("_T")
_MOST_MESSAGES = 1_000_000
"""The largest ``num_messages`` of confluent_kafka's consume()."""


def begin_direct(consumer: Consumer, remote: RemoteFetchConfig, settings: Mapping[str, object]) -> bool:
    """Completes a consumer's construction with direct fetch on. Returns False, and changes nothing, where it cannot work.

    Raises ConfigurationError for a missing fetcher or one that rejects its settings, and confluent_kafka's errors.
    """
    if isinstance(consumer, DirectConsumer) and _is_open(consumer):
        return False  # confluent_kafka refuses to construct it again
    if not class_choice.allowed():
        return False
    clock = SystemClock()
    metrics = FetchMetrics(clock)
    watched = with_watched_oauth(with_topic_settings(settings), clock)
    connections = with_watched_tokens(without_callbacks(watched))
    engine = build_engine(remote, connections, clock, metrics)
    if engine is None:
        return False
    class_choice.lead_to_direct(Consumer, vars(DirectConsumer))
    direct = class_choice.become(consumer, class_choice.completed(type(consumer), Consumer, DirectConsumer))
    try:
        super(Consumer, direct).__init__(direct._direct_compose(engine, remote, watched, connections, clock, metrics))  # noqa: SLF001 - a part of the constructor
    except BaseException:
        engine.close()
        raise
    refuse_after_fork(consumer, close_when_dropped(consumer, engine).detach)
    return True


def _is_open(consumer: Consumer) -> bool:
    try:
        confluent_kafka.Consumer.assignment(consumer)
    except RuntimeError:
        return False
    return True


class DirectConsumer(Consumer):
    """What ``Consumer(config)`` becomes when ``fetch.remote.enabled`` is true. See the module."""

    def _direct_compose(
        self,
        engine: FetchEngine,
        remote: RemoteFetchConfig,
        settings: Mapping[str, object],
        connections: dict[str, object],
        clock: Clock,
        metrics: FetchMetrics,
    ) -> dict[str, Any]:
        """Builds the parts. Returns the settings with which to start the inner consumer.

        The engine has ``connections`` too, and follows what changes in them.
        """
        behaviour = InnerBehaviour.of(settings)
        stores = behaviour.stores_offsets
        inner = InnerConsumer.behind(self, DirectConsumer)
        self._direct_gate: Gate = threading.RLock()
        self._direct_serves = False  # whether a call runs that may serve callbacks
        self._direct_engine = engine
        self._direct_settings = connections
        self._direct_metrics = metrics
        self._direct_flows = flows = SubscriptionState()
        tiers = TierLogs()
        self._direct_commits = CommittedOffsets(inner, flows, clock, stores=stores is True, commits=behaviour.commits)
        self._direct_routing = Routing(inner, engine, flows, self._direct_commits, remote, behaviour, clock, metrics)
        shared = flows, tiers, self._direct_routing, self._direct_commits
        self._direct_deliveries = Deliveries(inner, engine, *shared, remote, behaviour, clock)
        self._direct_delivery_queue = self._direct_deliveries.queue
        self._direct_assignment = Assignment(inner, *shared, self._direct_deliveries, behaviour.incremental)
        complete = partial(complete_statistics, flows=flows, isolation_level=behaviour.isolation_level)
        started = self._direct_deliveries.held.wrap(
            with_metrics_in_statistics(settings, self, DirectConsumer.metrics, complete)
        )
        return started if stores is None else {**started, "enable.auto.offset.store": False}

    # -- added methods ------------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        self._direct_metrics.set_total("broker-fetch-records-total", self._direct_deliveries.broker_records)
        return self._direct_metrics.snapshot() | partition_metrics(self._direct_flows)

    def tier(self, message: Message) -> Tier | None:
        return self._direct_deliveries.tier(message, partial(DirectConsumer.position, self))

    def set_remote_fetch(self, enabled: bool) -> None:
        self._direct_deliveries.switch(enabled)

    @classmethod
    def _direct_method(cls, name: str) -> Callable[..., Any]:
        """The method for ``Consumer.name(self)`` in an application's subclass."""
        return cast("Callable[..., Any]", vars(DirectConsumer)[name])

    def _direct_enter_by(self, gate: Gate) -> None:
        self._direct_gate = gate

    # -- calls that deliver ------------------------------------------------------------------------------------------------

    poll = instrumented(Consumer, "poll", slice_poll("_direct_delivery_queue", "_direct_poll"))

    def _direct_poll(self, timeout: float) -> Message | None:
        with self._direct_gate:
            return self._direct_deliver(partial(self._direct_deliveries.poll, timeout), None)

    def _direct_deliver(self, call: Callable[[], _T], nothing: _T) -> _T:
        """Returns what ``call`` delivers. If a callback in it has called close(), it closes, and returns ``nothing``."""
        held, inside = self._direct_deliveries.held, self._direct_serves
        if held.closes:
            raise RuntimeError("Consumer closed")
        self._direct_serves = True
        try:
            return call()
        except ClosedInCallback:
            return nothing
        finally:
            self._direct_serves = inside
            if self._direct_deliveries.held.closes and not inside:  # not ``held``: for mypy that cannot change above
                DirectConsumer.close(self)

    @partial(instrumented, Consumer, "consume")
    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As confluent_kafka's: waits for ``num_messages`` until ``timeout`` seconds are over."""
        with self._direct_gate:
            wanted, patience = number(num_messages), seconds(timeout)
            if 0 < wanted <= _MOST_MESSAGES:
                return self._direct_deliver(partial(self._direct_deliveries.consume, wanted, patience), [])
            return super().consume(wanted, 0)

    def consume_arrow(self, max_records: int = 1, timeout: float = -1) -> pa.Table:
        from kafka_remote_client.consumer.arrow_batches import table_of  # noqa: PLC0415 - pyarrow is an extra

        with self._direct_gate:
            wanted, patience = number(max_records), seconds(timeout)
            if 0 < wanted <= _MOST_MESSAGES:
                return table_of(self._direct_deliver(partial(self._direct_deliveries.consume_runs, wanted, patience), []))
            return table_of(super().consume(wanted, 0))

    # -- subscription and assignment ---------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """As confluent_kafka's; the callbacks get this consumer."""
        given: dict[str, Any] = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        for name, callback in given.items():
            if callback is not None and not callable(callback):
                super().subscribe(topics, **{name: callback})  # raises
        was_in_group, self._direct_assignment.in_group = self._direct_assignment.in_group, True
        try:
            super().subscribe(
                topics,
                on_assign=self._direct_assignment.assigning(on_assign),
                on_revoke=self._direct_assignment.revoking(on_revoke),
                on_lost=self._direct_assignment.revoking(on_lost or on_revoke, lost=True),
            )
        except BaseException:
            self._direct_assignment.in_group = was_in_group
            raise
        self._direct_deliveries.serve_first()

    def unsubscribe(self) -> None:
        """As confluent_kafka's; the next call that delivers revokes the partitions before it returns a record."""
        super().unsubscribe()
        self._direct_assignment.in_group = False
        self._direct_deliveries.serve_first()

    @gated
    def assign(self, partitions: list[TopicPartition]) -> None:
        self._direct_assignment.assign(partitions)

    @gated
    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._direct_assignment.incremental_assign(partitions)

    @gated
    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._direct_assignment.incremental_unassign(partitions)

    @gated
    def unassign(self) -> None:
        self._direct_assignment.unassign()

    @gated
    def assignment(self) -> list[TopicPartition]:
        return self._direct_assignment.assigned()

    # -- position and flow control -----------------------------------------------------------------------------------------

    @gated
    def seek(self, partition: TopicPartition) -> None:
        self._direct_assignment.seek(partition)

    @gated
    def pause(self, partitions: list[TopicPartition]) -> None:
        self._direct_assignment.pause(partitions)

    @gated
    def resume(self, partitions: list[TopicPartition]) -> None:
        self._direct_assignment.resume(partitions)

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        with self._direct_gate:
            return self._direct_deliveries.position(super().position(partitions))

    @gated
    def get_watermark_offsets(self, partition: TopicPartition, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """As confluent_kafka's; for a partition that is read directly the cached ones are the last known ones."""
        cached = kwargs.get("cached", args[1] if len(args) > 1 else False)
        flow = self._direct_flows.get(partition.topic, partition.partition) if isinstance(partition, TopicPartition) else None
        if cached and flow is not None and flow.route is Route.REMOTE and flow.bounds.log_start != UNKNOWN_OFFSET:
            return flow.bounds.log_start, flow.bounds.high_watermark
        return super().get_watermark_offsets(partition, *args, **kwargs)

    # -- offsets and the end -----------------------------------------------------------------------------------------------

    @partial(instrumented, Consumer, "commit")
    @gated
    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return self._direct_deliveries.commit(args, kwargs)

    @gated
    def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        """As confluent_kafka's: an error while ``enable.auto.offset.store`` is on, unless there are no arguments."""
        self._direct_commits.store_offsets(args, kwargs)

    @gated
    def set_sasl_credentials(self, username: str, password: str) -> None:
        """As confluent_kafka's; connections for location requests use them from their next authentication on."""
        super().set_sasl_credentials(username, password)
        self._direct_settings |= {"sasl.username": username, "sasl.password": password}

    def close(self) -> None:
        """As confluent_kafka's; then it stops direct fetch. A waiting call of another thread ends first.

        In a callback it returns at once, and the call that runs the callback closes at its end.
        """
        self._direct_deliveries.closing = True
        with self._direct_gate:
            if self._direct_serves:
                self._direct_deliveries.held.closes = True
                return
            self._direct_deliveries.held.closes = False
            self._direct_delivery_queue.store()
            self._direct_serves = True
            try:
                self._direct_close()
            finally:
                self._direct_serves = self._direct_deliveries.held.closes = False
                self._direct_deliveries.forget(flow.key for flow in self._direct_flows)
                self._direct_deliveries.close()
                self._direct_engine.close()

    def _direct_close(self) -> None:
        try:
            self._direct_deliveries.before_close()
            if not self._direct_assignment.in_group:
                self._direct_commits.give_up(self._direct_flows)
        finally:
            super().close()
        self._direct_deliveries.held.closes = False
        self._direct_deliveries.held.finish()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        DirectConsumer.close(self)
