"""A forked child cannot use its parent's consumer: every call raises an error, and the parent is not affected."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import BuiltinMethodType

import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import Consumer, DeserializingConsumer
from kafka_remote_client.consumer import forked
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ForkedConsumerError
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    fallbacks,
    filled_cluster,
    from_store,
    plain_rows,
    plain_settings,
    take,
)

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 300
PUBLIC = sorted({name for name in dir(Consumer) if not name.startswith("_")})


cluster = filled_cluster(TOPIC, COUNT)


class Counting(Consumer):
    """An application's subclass."""

    def next_one(self) -> Message | None:
        return self.poll(0)

    def named_base(self) -> Message | None:
        return Consumer.poll(self, 0)


def in_child(work: Callable[[], object]) -> int:
    """Returns the exit status of a child that runs ``work``: 0 unless it raises, negative for the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 1
        signal.alarm(int(PATIENCE_SECONDS))  # ends it where it hangs
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(ForkedConsumerError, match="forked child") as error:
        call()
    assert isinstance(error.value, RuntimeError)


def test_every_call_is_refused_in_a_child_and_the_parent_reads_on(cluster: EmbeddedCluster) -> None:
    with Counting(direct_settings(cluster, enable_partition_eof=False)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        rows = take(consumer, 10)

        def work() -> None:
            assert isinstance(consumer, Counting)
            for name in PUBLIC:
                refused(getattr(consumer, name))
                refused(lambda name=name: getattr(consumer, name)([TopicPartition(TOPIC, 0)]))  # type: ignore[misc] # bound now
            refused(consumer.next_one)
            refused(consumer.named_base)
            refused(consumer.__enter__)
            assert consumer.__exit__(None, None, None) is None

        assert in_child(work) == 0
        rows += take(consumer, COUNT - 10)
        assert from_store(consumer) > 10
        assert fallbacks(consumer) == {}
    assert rows == plain_rows(cluster, TOPIC)


def test_a_forked_child_can_drop_the_consumer_or_exit_without_effect(cluster: EmbeddedCluster) -> None:
    kept = [Consumer(direct_settings(cluster, enable_partition_eof=False))]
    kept[0].assign([TopicPartition(TOPIC, 0, 0)])
    rows = take(kept[0], 10)

    def work() -> None:
        kept.clear()
        gc.collect()

    assert in_child(work) == 0
    rows += take(kept[0], COUNT - 10)
    kept[0].close()
    assert rows == plain_rows(cluster, TOPIC)


_WHOLE = """
import os, sys
from kafka_remote_client import Consumer
consumer = Consumer({settings})
child = os.fork()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    consumer.close()
    sys.exit(status)
"""


def test_a_child_may_run_to_the_interpreters_end(cluster: EmbeddedCluster) -> None:
    settings = repr(direct_settings(cluster))
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", _WHOLE.replace("{settings}", settings)]) == 0


def test_child_process_forgets_consumers_that_are_gone(
    cluster: EmbeddedCluster,
) -> None:
    parents = [DeserializingConsumer(direct_settings(cluster))]

    def work() -> None:
        assert not forked._parents
        refused(parents[0].poll)

    assert in_child(work) == 0
    key = id(parents[0])
    assert key in forked._parents
    parents[0].close()
    parents.clear()
    gc.collect()
    assert key not in forked._parents


def test_with_direct_fetch_off_nothing_of_ours_looks_at_forks(cluster: EmbeddedCluster) -> None:
    consumer = Consumer(plain_settings(cluster))
    assert id(consumer) not in forked._parents

    def work() -> None:
        assert type(consumer) is Consumer
        assert type(consumer.poll) is BuiltinMethodType

    assert in_child(work) == 0
    consumer.close()
