"""What a consumer has beside confluent_kafka's methods: which tier delivered what, direct fetch off and on again, progress.

Nothing here costs a record anything: tiers are noted where partitions change their route (tier_log.py), and the rest is looked
at where routes are.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message, TopicPartition

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.assigned_consumer import AssignedConsumer
from kafka_remote_client.consumer.messages import key_of, offset_of
from kafka_remote_client.consumer.partition_metrics import partition_metrics
from kafka_remote_client.consumer.progress import ProgressCallback, ProgressReports
from kafka_remote_client.consumer.statistics import complete_statistics
from kafka_remote_client.consumer.tier_log import Tier

__all__ = ["TieredConsumer"]


class TieredConsumer(AssignedConsumer):
    """See the module. It delivers nothing itself."""

    def _start_direct(self, *parts: Any) -> None:
        remote: RemoteFetchConfig
        _, remote, *_ = parts
        self._switched = False
        self._progress_cb: ProgressCallback | None = remote.progress_cb
        self._progress = ProgressReports(remote.progress_interval_ms / 1000)
        super()._start_direct(*parts)

    def metrics(self) -> dict[str, float | int | dict[str, int]]:
        return super().metrics() | partition_metrics(self._flows)

    def _complete_statistics(self, statistics: dict[str, Any]) -> None:
        complete_statistics(statistics, self._flows, self._behaviour.isolation_level)

    def tier(self, message: Message) -> Tier | None:
        offset = message.offset()
        if message.error() is not None or offset is None:
            return None
        key = key_of(message)
        position = -1
        if self._flows.get(*key) is not None:
            last = self._handed_out.last
            if last is not None and key_of(last) == key:  # what waits behind it need not be gathered anew for this
                position = offset_of(last) + 1
            else:
                (tp,) = AssignedConsumer.position(self, [TopicPartition(*key)])
                position = tp.offset
        return self._tiers.tier(key, offset, position)

    def set_remote_fetch(self, enabled: bool) -> None:
        self._routing.on = enabled
        self._switched = True
        self._handed_out.due = True  # poll() hands out what it has gathered without a look at anything else

    def _recheck(self) -> None:
        """What poll() and consume() do before they look for records: routes follow what has changed."""
        if self._switched:
            self._switched = False
            self._routing.switched(self._take_back)
        if not self._routing.recheck():
            return
        self._passed_markers.look(self._gathered)
        if self._progress_cb is not None:
            for progress in self._progress.due(self._clock.monotonic(), self._flows):
                if self._flows.get(progress.topic, progress.partition) is not None:  # the callback may take any away
                    self._progress_cb(progress)

    def _place(self, batch: list[Message]) -> None:
        """Notes where partitions begin that began nobody knew where, now that records are handed out."""
        unplaced = [TopicPartition(*key) for key in self._tiers.unplaced]
        begun = {(tp.topic, tp.partition) for tp in super(AssignedConsumer, self).position(unplaced) if tp.offset >= 0}
        for message in batch:
            if not begun:
                return
            key = key_of(message)
            if key in begun and message.error() is None:
                self._tiers.place(key, offset_of(message))
                begun.discard(key)
