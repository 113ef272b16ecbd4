"""Moves positions and stored offsets past transaction markers and aborted records, which no application is given.

The rule is librdkafka's. ``rd_kafka_msgset_reader_msg_v2`` queues each marker behind the records before it; the first ``poll``
or ``consume`` that looks for a record there serves it (``rd_kafka_op_handle_std``, ``rd_kafka_q_serve_rkmessages``), and
``rd_kafka_update_app_pos`` sets the position to the offset after it, and with ``enable.auto.offset.store`` the stored offset.
An aborted batch is not queued (``rd_kafka_msgset_reader_msgs_v2``): the marker behind it takes the position past both.

Here the inner consumer and the readers run ahead of the application. They stand behind a marker before the record in front of
it is handed out. So a position follows them only where no record of the partition waits, and only once a call that delivers
was made after the partition's last record (or the end of the partition) was handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from confluent_kafka import TopicPartition

from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.messages import key_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.subscription_state import SubscriptionState

__all__ = ["PassedMarkers"]

_PARTITIONS_PER_LOOK = 1000
"""Of those that the inner consumer delivers: nothing shows which of them passed something, so all are asked about."""

_Key = tuple[str, int]


class PassedMarkers:
    """See the module. ``position`` is the inner consumer's; ``store`` stores positions, ``None`` where the application does."""

    def __init__(
        self,
        flows: SubscriptionState,
        handed_out: DeliveryQueue,
        position: Callable[[list[TopicPartition]], list[TopicPartition]],
        store: Callable[[list[PartitionFlow]], None] | None,
    ) -> None:
        self._flows = flows
        self._delivery_queue = handed_out
        self._position = position
        self._store = store
        self._looked_at = 0
        self.unseen = False
        """Whether the inner consumer was polled since all partitions were last looked at."""
        self.frozen = False
        """Whether the inner consumer closes. It then serves markers behind records that it never delivers."""

    def delivery_begins(self, gathered: Collection[Piece]) -> None:
        """A call that delivers begins: it passes what lies behind the records handed out last."""
        followed = self._delivery_queue.follow()
        if followed or (self._flows.advanced and not gathered):
            flows = [flow for key in followed if (flow := self._flows.get(*key)) is not None]
            self._pass(flows if gathered else {*flows, *self._flows.advanced}, gathered)

    def look(self, gathered: Collection[Piece]) -> None:
        """A call that delivers passes what lies in partitions with no record to wait for too.

        Readers say what they passed. The inner consumer is asked, about some partitions at a time and in turn about all.
        """
        self._flows.pass_over()
        changed = [] if self.frozen else self._changed_inside()
        if changed or self._flows.advanced:
            self._pass({*changed, *self._flows.advanced}, gathered)

    def _changed_inside(self) -> list[PartitionFlow]:
        """Flows in which the inner consumer does not stand where it stood when it was last asked."""
        flows, asked = self._flows.routes.inside
        if len(flows) > _PARTITIONS_PER_LOOK:
            start = self._looked_at % len(flows)
            self._looked_at = start + _PARTITIONS_PER_LOOK
            flows = (flows[start:] + flows[:start])[:_PARTITIONS_PER_LOOK]
            asked = (asked[start:] + asked[:start])[:_PARTITIONS_PER_LOOK]
        places = self._position(asked) if asked else []
        return [flow for flow, place in zip(flows, places, strict=True) if place.offset != flow.inner_position]

    def before_commit(self, gathered: Collection[Piece]) -> None:
        """What calls that delivered have passed is stored before the application commits what is stored."""
        if self._store is not None and (self.unseen or self._flows.advanced):
            self.unseen = False
            self.before_loss(self._flows, gathered)

    def before_loss(self, flows: Iterable[PartitionFlow], gathered: Collection[Piece]) -> None:
        """What calls that delivered have passed of partitions that may be lost."""
        self._pass(flows, gathered, besides=self._delivery_queue.unfollowed | self._delivery_queue.waiting_keys)

    def before_close(self, gathered: Collection[Piece]) -> None:
        """librdkafka serves markers while it closes, so closing counts as a call that delivers."""
        self._delivery_queue.follow()
        self._flows.pass_over()
        self._pass(self._flows, gathered)
        self.frozen = True

    def delivered(self, batch: Sequence[Piece]) -> list[PartitionFlow]:
        """All that was gathered, ``batch``, is handed out: what the inner consumer delivers stands where that does."""
        flows = []
        for flow, place in self._places(self._flows.delivered_in(batch)):
            if place.offset >= 0:
                flow.stands_at(place)
                flows.append(flow)
        return flows

    def _places(self, asked: list[TopicPartition]) -> Iterator[tuple[PartitionFlow, TopicPartition]]:
        """Where the inner consumer stands in partitions of those that are assigned."""
        for tp in self._position(asked) if asked else ():
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None and tp.error is None:
                yield flow, tp

    def _pass(
        self, flows: Iterable[PartitionFlow], gathered: Collection[Piece], *, besides: Collection[_Key] = frozenset()
    ) -> None:
        """Moves positions of those of ``flows`` of which nothing waits, and stores them."""
        waiting = {key_of(message) for message in gathered if message.error() is None} if gathered else ()
        idle = {flow.key: flow for flow in flows if flow.key not in waiting and flow.key not in besides}
        advanced = self._flows.advanced.intersection(idle.values())
        self._flows.advanced -= advanced
        moved = {flow for flow in advanced if flow.handed_out()}
        asked = [flow.bare for flow in idle.values() if flow.delivered_by_broker]
        moved.update(flow for flow, place in self._places([] if self.frozen else asked) if flow.inner_stands_at(place))
        if moved and self._store is not None:
            self._store(list(moved))
