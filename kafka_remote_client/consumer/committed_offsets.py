"""Committed offsets: where partitions begin, and which stored offsets may be committed.

librdkafka commits a stored offset only past the committed one that it knows, where it began or which it committed last. When it
gives up a partition, it commits any stored offset. If a partition begins at its committed offset,
this class requests that offset, and the inner consumer gets a number. So this class keeps the known committed offset. An
offset that librdkafka would not commit is *withheld*: "nothing is stored" is stored instead. It is stored again when another
commit was made, or when the consumer gives up the partition.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Clock
from kafka_remote_client.consumer.call_arguments import are_partitions, both, invalid, is_stored
from kafka_remote_client.consumer.inner_consumer import InnerConsumer
from kafka_remote_client.consumer.message_positions import epoch_of, key_of, offset_of
from kafka_remote_client.consumer.partition_flow import PartitionFlow, topic_partition
from kafka_remote_client.consumer.subscription_state import SubscriptionState

__all__ = ["CommittedOffsets"]

_log = logging.getLogger(__name__)

_FIRST_SECONDS = 0.02
_LONGEST_SECONDS = 1.0
_UNASKED_SECONDS = 0.25
"""How long to wait for a coordinator: at first, at most, and at most beyond the application's time-out."""

_SILENT = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
)

_Key = tuple[str, int]


class CommittedOffsets:
    """See the module. ``stores`` and ``commits``: ``enable.auto.offset.store`` and ``enable.auto.commit``."""

    def __init__(self, inner: InnerConsumer, flows: SubscriptionState, clock: Clock, *, stores: bool, commits: bool) -> None:
        self._inner = inner
        self._flows = flows
        self._clock = clock
        self._pause = _FIRST_SECONDS
        self._ask_at = 0.0
        self._uncommitted: list[TopicPartition] = []
        self._stores = stores
        self._commits = commits
        self._commits_stored = commits
        self._floors: dict[_Key, TopicPartition] = {}
        self._committed: dict[_Key, int] = {}

    # -- where partitions begin --------------------------------------------------------------------------------------------

    def begin_again(self, partitions: Iterable[TopicPartition], *, in_group: bool = False) -> None:
        """Partitions are assigned. :meth:`starts` soon requests the committed offsets of those that begin there.

        librdkafka would commit the stored offsets of partitions that are assigned again, and wait for that. A member of a
        group commits at a rebalance.
        """
        stored = list(filter(is_stored, partitions))
        for tp in stored:
            self._floors.pop((tp.topic, tp.partition), None)
        places = [flow.stored for flow in self._flows.of(stored)] if self._commits and not in_group else []
        self._uncommitted += [place for place in places if place is not None and place.offset >= 0]
        self._pause = _FIRST_SECONDS
        self._ask_at = 0.0

    def starts(self, partitions: list[TopicPartition], seconds: float) -> dict[_Key, TopicPartition | None]:
        """Returns committed offsets; -1001 = none, ``None`` = the coordinator rejected the request. Empty without an answer.

        A call of the inner consumer blocks its other calls, in any thread. So delivering calls make this request: briefly at
        first, then longer, within about the application's ``seconds``, and with pauses of the same length.
        """
        now = self._clock.monotonic()
        if now < self._ask_at:
            return {}
        patience = min(self._pause, max(seconds, _UNASKED_SECONDS))
        try:
            answered = self._inner.committed(partitions, timeout=patience)
            if self._uncommitted:  # the coordinator answers, so it accepts a commit at once
                uncommitted, self._uncommitted = self._uncommitted, []
                with suppress(KafkaException):
                    self._inner.commit(offsets=uncommitted, asynchronous=False)
                answered = self._inner.committed(partitions, timeout=patience)
        except KafkaException as error:
            silent = error.args[0].code() in _SILENT or error.args[0].retriable()
            self._ask_at = self._clock.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_SECONDS)
            _log.log(logging.DEBUG if silent else logging.WARNING, "cannot get the committed offsets: %s", error)
            return {} if silent else {(tp.topic, tp.partition): None for tp in partitions}
        found = {(tp.topic, tp.partition): tp if tp.error is None else None for tp in answered}
        for key, tp in found.items():
            if tp is not None and tp.offset >= 0:
                self._begin(key, tp)
        return found

    def ask_at_once(self, seconds: float) -> None:
        """The next :meth:`starts` makes a request even after an earlier answer, and waits for up to that long, at most 1 s."""
        self._ask_at, self._pause = 0.0, min(seconds, _LONGEST_SECONDS)

    def _begin(self, key: _Key, start: TopicPartition) -> None:
        """A partition begins at its committed offset. Another client may have committed a lower one than is known here.

        It would then commit nothing up to that, so it gets the only signal that it follows: a commit of the same offset.
        """
        if self._committed.get(key, -1) > start.offset:
            with suppress(KafkaException):
                self._inner.commit(offsets=[start], asynchronous=False)
                self._committed[key] = start.offset
        self._floors[key] = start

    def adopt(self, flow: PartitionFlow) -> None:
        """A partition is assigned again; librdkafka still knows its committed offset."""
        floor = self._floors.get(flow.key)
        if floor is not None:
            flow.floor, flow.floor_epoch = floor.offset, epoch_of(floor.leader_epoch)

    # -- while they are read -----------------------------------------------------------------------------------------------

    def store_last(self, message: Message) -> None:
        """A record was delivered, and its offset is stored automatically."""
        flow = self._flows.get(*key_of(message))
        if flow is not None:
            self._inner.store_offsets(offsets=[flow.stores(_after(message))])

    def store_passed(self, flows: Iterable[PartitionFlow]) -> None:
        """Positions moved past markers, and offsets are stored automatically."""
        with suppress(KafkaException):  # all were lost meanwhile, and lost partitions store nothing
            self._inner.store_offsets(offsets=[flow.stores(flow.handed) for flow in flows])

    def store_offsets(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The application stores."""
        message, offsets = both("message", "offsets", args, kwargs)
        is_message, are_offsets = type(message) is Message, are_partitions(offsets)
        if (message is None) == (offsets is None) or not (is_message or are_offsets):
            self._inner.store_offsets(*args, **kwargs)  # raises
        elif is_message and (message.error() is not None or (message.offset() is None and not self._stores)):
            self._inner.store_offsets(message=message)  # raises
        elif self._stores:
            self._inner.store_offsets(offsets=[])  # raises where the consumer is closed
            raise invalid("StoreOffsets failed: Local: Invalid argument or configuration")
        else:
            self._inner.store_offsets(offsets=[self._let_through(tp) for tp in ([_after(message)] if is_message else offsets)])

    def _let_through(self, place: TopicPartition) -> TopicPartition:
        flow = self._flows.get(place.topic, place.partition)
        return place if flow is None else flow.stores(place)

    def commit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The application commits. From then on librdkafka compares with that offset."""
        made = self._inner.commit(*args, **kwargs)
        message, offsets = both("message", "offsets", args, kwargs)
        if made is not None:
            places = [tp for tp in made if tp.error is None and tp.offset >= 0]
        elif message is None and offsets is None:
            self._commits_stored = True  # it is unknown which of them were committed
            places = []
        else:
            places = offsets if message is None else [_after(message)]
        for place in places:
            key = place.topic, place.partition
            self._committed[key] = place.offset if made is not None else max(place.offset, self._committed.get(key, -1))
            self._lift(key)
        return made

    def _lift(self, key: _Key) -> None:
        if self._floors.pop(key, None) is None:
            return
        flow = self._flows.get(*key)
        if flow is not None:
            withheld = flow.lift()
            self._give_back([] if withheld is None else [withheld])

    # -- as they are given up ----------------------------------------------------------------------------------------------

    def give_up(self, flows: Iterable[PartitionFlow]) -> None:
        """Called before the inner consumer loses partitions: with auto-commit it commits the stored offsets."""
        if not self._commits:
            return
        withheld = {flow.key: place for flow in flows if (place := flow.withheld) is not None}
        for key in withheld:
            self._floors.pop(key, None)
        self._give_back(list(withheld.values()))

    def forget(self, flow: PartitionFlow) -> None:
        """A partition was given up."""
        if self._commits_stored:
            self._committed[flow.key] = max(flow.highest_stored, self._committed.get(flow.key, -1))

    def _give_back(self, withheld: list[TopicPartition]) -> None:
        if withheld:
            with suppress(KafkaException):  # it was lost meanwhile, and lost partitions store nothing
                self._inner.store_offsets(offsets=withheld)


def _after(message: Message) -> TopicPartition:
    """The place after a record."""
    topic, partition = key_of(message)
    return topic_partition(topic, partition, offset_of(message) + 1, epoch_of(message.leader_epoch()))
