"""Moves positions and stored offsets past transaction markers and aborted records, which no application gets.

The rule is librdkafka's. ``rd_kafka_msgset_reader_msg_v2`` queues each marker behind the records before it; the first ``poll``
or ``consume`` that looks for a record there serves it (``rd_kafka_op_handle_std``, ``rd_kafka_q_serve_rkmessages``), and
``rd_kafka_update_app_pos`` sets the position to the offset after it, and with ``enable.auto.offset.store`` the stored offset.
An aborted batch is not queued (``rd_kafka_msgset_reader_msgs_v2``): the marker behind it takes the position past both.

Here the inner consumer and the readers run ahead of the application. They pass a marker before the application gets the
record in front of it. So a position follows them only if no record of the partition waits, and only after a delivering call
that came after the delivery of the partition's last record (or of its end).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from confluent_kafka import TopicPartition

from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from kafka_remote_client.consumer.message_positions import key_of
from kafka_remote_client.consumer.message_run import Piece
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.subscription_state import SubscriptionState

__all__ = ["PassedMarkers"]

_PARTITIONS_PER_LOOK = 1000
"""How many partitions of the inner consumer to query at a time. It does not report which of them passed a marker."""

_Key = tuple[str, int]


class PassedMarkers:
    """See the module. ``position`` is the inner consumer's; ``store`` stores positions, ``None`` where the application does."""

    def __init__(
        self,
        flows: SubscriptionState,
        queue: DeliveryQueue,
        position: Callable[[list[TopicPartition]], list[TopicPartition]],
        store: Callable[[list[PartitionFlow]], None] | None,
    ) -> None:
        self._flows = flows
        self._delivery_queue = queue
        self._position = position
        self._store = store
        self._looked_at = 0
        self.unseen = False
        """Whether the inner consumer was polled since all partitions were last looked at."""
        self.frozen = False
        """Whether the inner consumer closes. It then serves markers behind records that it never delivers."""

    def delivery_begins(self, gathered: Collection[Piece]) -> None:
        """Called when a delivering call begins: it passes the markers after the last delivered records."""
        followed = self._delivery_queue.follow()
        if followed or (self._flows.advanced and not gathered):
            flows = [flow for key in followed if (flow := self._flows.get(*key)) is not None]
            self._pass(flows if gathered else {*flows, *self._flows.advanced}, gathered)

    def look(self, gathered: Collection[Piece]) -> None:
        """Called by a delivering call: it also passes markers in partitions without a waiting record.

        Readers report what they passed. The inner consumer is queried, some partitions at a time, all of them in turn.
        """
        self._flows.pass_over()
        changed = [] if self.frozen else self._changed_inside()
        if changed or self._flows.advanced:
            self._pass({*changed, *self._flows.advanced}, gathered)

    def _changed_inside(self) -> list[PartitionFlow]:
        """Returns the flows in which the inner consumer has moved since the last query."""
        flows, asked = self._flows.routes.inside
        if len(flows) > _PARTITIONS_PER_LOOK:
            start = self._looked_at % len(flows)
            self._looked_at = start + _PARTITIONS_PER_LOOK
            flows = (flows[start:] + flows[:start])[:_PARTITIONS_PER_LOOK]
            asked = (asked[start:] + asked[:start])[:_PARTITIONS_PER_LOOK]
        places = self._position(asked) if asked else []
        changed = []
        for flow, place in zip(flows, places, strict=True):
            flow.inner_has_read |= place.offset >= 0
            if place.offset != flow.inner_position:
                changed.append(flow)
        return changed

    def before_commit(self, gathered: Collection[Piece]) -> None:
        """Stores the offsets that delivering calls have passed, before the application commits stored offsets."""
        if self._store is not None and (self.unseen or self._flows.advanced):
            self.unseen = False
            self.before_loss(self._flows, gathered)

    def before_loss(self, flows: Iterable[PartitionFlow], gathered: Collection[Piece]) -> None:
        """Stores the offsets that delivering calls have passed in partitions that may be lost."""
        self._pass(flows, gathered, besides=self._delivery_queue.unfollowed | self._delivery_queue.waiting_keys)

    def before_close(self, gathered: Collection[Piece]) -> None:
        """librdkafka serves markers while it closes, so closing counts as a call that delivers."""
        self._delivery_queue.follow()
        self._flows.pass_over()
        self._pass(self._flows, gathered)
        self.frozen = True

    def delivered(self, batch: Sequence[Piece]) -> list[PartitionFlow]:
        """All gathered records, ``batch``, are delivered: the inner consumer's partitions stand at their ends."""
        flows = []
        for flow, place in self._places(self._flows.delivered_in(batch)):
            if flow.went_back:  # the inner consumer's position is the old one, or none
                for piece in batch:
                    if key_of(piece) == flow.key and piece.error() is None:
                        flow.handed_out_to(piece)
            elif place.offset >= 0:
                flow.stands_at(place)
            else:
                continue
            flows.append(flow)
        return flows

    def _places(self, asked: list[TopicPartition]) -> Iterator[tuple[PartitionFlow, TopicPartition]]:
        """Returns the inner consumer's positions of assigned partitions."""
        for tp in self._position(asked) if asked else ():
            flow = self._flows.get(tp.topic, tp.partition)
            if flow is not None and tp.error is None:
                yield flow, tp

    def _pass(
        self, flows: Iterable[PartitionFlow], gathered: Collection[Piece], *, besides: Collection[_Key] = frozenset()
    ) -> None:
        """Moves the positions of those ``flows`` that have no waiting record, and stores them."""
        waiting = {key_of(message) for message in gathered if message.error() is None} if gathered else ()
        idle = {flow.key: flow for flow in flows if flow.key not in waiting and flow.key not in besides}
        advanced = self._flows.advanced.intersection(idle.values())
        self._flows.advanced -= advanced
        moved = {flow for flow in advanced if flow.handed_out()}
        asked = [flow.bare for flow in idle.values() if flow.delivered_by_broker and not flow.went_back]
        moved.update(flow for flow, place in self._places([] if self.frozen else asked) if flow.inner_stands_at(place))
        if moved and self._store is not None:
            self._store(list(moved))
