"""A read from the log's beginning begins where the log begins now, not where it did when the bounds were last asked.

librdkafka takes the log start of its last fetch (``rd_kafka_offset_reset``). While it fetches, that is at most
``fetch.wait.max.ms`` old. The bounds of the tiers may be a minute old.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    delete_first_segment,
    direct_settings,
    fallbacks,
    fill_topic,
    plain_rows,
    take,
)
from tests.support.held_source import HeldSource

pytestmark = pytest.mark.embedded

_COUNT = 200


def _seeks(one: Any, there: TopicPartition) -> None:
    one.seek(there)


def _assigns_again(one: Any, there: TopicPartition) -> None:
    one.assign([there])


def _resumes_there(one: Any, there: TopicPartition) -> None:
    one.pause([there])
    one.seek(there)
    one.resume([there])


@pytest.mark.parametrize("begins_again", [_seeks, _assigns_again, _resumes_there])
@pytest.mark.parametrize("first", [0, _COUNT - 5], ids=["tier", "broker"])
def test_the_beginning_is_asked_anew(
    cluster: EmbeddedCluster, begins_again: Callable[[Any, TopicPartition], None], first: int
) -> None:
    """The known log start is out of range, and the policy would continue at the end."""
    topic = fill_topic(cluster, f"shrinking-{first}-{begins_again.__name__}", _COUNT)
    consumer: Any = Consumer(direct_settings(cluster, auto_offset_reset="latest", enable_partition_eof=False))
    consumer.assign([TopicPartition(topic, 0, first)])
    take(consumer, 5)
    log_start = delete_first_segment(cluster, topic)
    begins_again(consumer, TopicPartition(topic, 0, OFFSET_BEGINNING))
    rows = take(consumer, 20)
    assert rows == plain_rows(cluster, topic)[:20]
    assert rows[0][:3] == (topic, 0, log_start)
    assert fallbacks(consumer) == {}
    consumer.close()


def test_a_log_start_that_moved_during_a_question_is_asked_again(cluster: EmbeddedCluster) -> None:
    """The answer to a question of before the seek may be older than the log start."""
    topic = fill_topic(cluster, "shrinking-meanwhile", _COUNT)
    consumer: Any = Consumer(direct_settings(cluster, auto_offset_reset="latest", enable_partition_eof=False))
    guarded = consumer._direct_engine.source
    source = guarded.inner = HeldSource(guarded.inner)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert source.answered.wait(PATIENCE_SECONDS)
    log_start = delete_first_segment(cluster, topic)
    consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    source.released.set()
    assert take(consumer, 1)[0][:3] == (topic, 0, log_start)
    consumer.close()
