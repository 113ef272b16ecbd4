"""A rolling change on a real broker: members with direct fetch, plain ones and ours with direct fetch off share a group.

In each protocol members join one after the other, and leave, while all read; another continues where one stopped in order.
No member is killed here (``test_group_rebalances.py`` does that), so each record is read exactly once, unless a plain member
begins a partition again (see ``tests/support/group_judgement.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.server import Shim
from tests.support.group_judgement import repeated
from tests.support.group_member import KINDS
from tests.support.group_settings import PROTOCOLS, in_group
from tests.support.group_topic import COUNT, PARTITIONS
from tests.support.history import History
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, settings_of, shim_before, total
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]  # a failed rebalance starts again after 90 s

_PATIENCE_SECONDS = 5 * PATIENCE_SECONDS


@pytest.fixture(scope="module")
def shim(running_broker: KafkaBroker) -> Iterator[Shim]:
    with shim_before(running_broker) as running:
        yield running


class Group:
    """Members of all kinds by name, and their histories."""

    def __init__(self, broker: KafkaBroker, shim: Shim, topic: str, protocol: str) -> None:
        self.history = History()
        self.direct: set[str] = set()
        self._came: set[tuple[int, int]] = set()
        self.from_store: dict[str, int] = {}
        self._broker, self._shim, self._topic = broker, shim, topic
        self.id = f"mixed-{protocol}-{uuid4()}"
        self._common = {**in_group(broker, protocol, self.id), "enable.partition.eof": False, "auto.commit.interval.ms": 1_000}
        self._members: dict[str, RecordedConsumer] = {}
        self._pool = ThreadPoolExecutor(4)

    def join(self, name: str, kind: str) -> None:
        """Adds a member and waits until the partitions are balanced and each member has read."""
        config = settings_of(kind, self._broker, self._shim, **self._common)
        if kind == "direct":
            self.direct.add(name)
        self._members[name] = recorded(KINDS[kind], config, self.history, name)
        self._members[name].subscribe([self._topic])
        self.settle()

    def leave(self, name: str) -> None:
        """Closes a member; the others take over its partitions."""
        self._close(name)
        self.settle()

    def settle(self) -> None:
        fair = PARTITIONS // len(self._members)

        def shared_out() -> bool:
            self._round(1)
            return {len(member.assignment()) for member in self._members.values()} == {fair}

        wait_until(shared_out, f"{fair} partitions each", seconds=_PATIENCE_SECONDS)  # slow enough that records remain
        left = {*self._members}

        def all_read() -> bool:
            left.difference_update(name for name, count in self._round(5).items() if count)
            return not left

        wait_until(all_read, "records for each member", seconds=_PATIENCE_SECONDS, pause=0)

    def finish(self) -> None:
        """Reads until every record is read and committed; records read twice until then are recorded too.

        The end does not come from the members' close: the broker may refuse the commit of one that leaves during a rebalance.
        """
        wait_until(lambda: self._round(200) and self._is_complete, "all records", seconds=_PATIENCE_SECONDS, pause=0)
        asked = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        anyone = next(iter(self._members.values()))

        def all_committed() -> bool:
            self._round(200)
            return {tp.offset for tp in anyone.inner.committed(asked, PATIENCE_SECONDS)} == {COUNT}

        wait_until(all_committed, "all commits", seconds=_PATIENCE_SECONDS)

    @property
    def _is_complete(self) -> bool:
        return len(self._came) == PARTITIONS * COUNT

    def _round(self, limit: int) -> dict[str, int]:
        """Every member consumes once, in parallel. Returns the number of records of each."""
        answers = self._pool.map(lambda member: member.consume(limit, 0.1), self._members.values())
        counts = {}
        for name, messages in zip(self._members, answers, strict=True):
            for message in messages:
                assert message.error() is None, message.error()
                self._came.add((message.partition() or 0, message.offset() or 0))
            counts[name] = len(messages)
        return counts

    def _close(self, name: str) -> None:
        member = self._members.pop(name)
        member.close()
        if isinstance(member.inner, Consumer):
            self.from_store[name] = total(member.inner.metrics(), "remote-fetch-records-total")

    def close(self) -> None:
        for name in list(self._members):
            self._close(name)
        self._pool.shutdown()


@pytest.mark.fault("F66")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_of_all_kinds_take_over_at_the_exact_record(
    kafka_broker: KafkaBroker, shim: Shim, group_topic: str, protocol: str
) -> None:
    with ExitStack() as stack:
        group = Group(kafka_broker, shim, group_topic, protocol)
        stack.callback(group.close)
        group.join("first", "plain")
        group.join("second", "direct")
        group.join("third", "off")
        group.leave("first")
        group.join("fourth", "direct")
        group.leave("second")
        group.leave("third")
        group.join("fifth", "plain")
        group.finish()
        group.close()
    assert repeated(group.history, group.direct) == {}
    assert group.from_store["second"] > 0
    assert group.from_store["third"] == 0
    assert group.from_store["fourth"] > 0
