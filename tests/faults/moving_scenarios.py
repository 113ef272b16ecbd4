"""Runs in which the broker is unreachable, the log's start moves, records are written, or a consumer restarts.

The history gets events of broker and log (:class:`Outage`, :class:`Moved`, :class:`Produced`), which the invariants
use. As in :mod:`tests.faults.bug_scenarios`, a run without a bug violates nothing.
"""

from __future__ import annotations

from uuid import uuid4

import confluent_kafka
from confluent_kafka import OFFSET_STORED, TopicPartition

from kafka_remote_client import Consumer
from tests.faults.stage import EVEN, Evidence, Stage, even_segments, finish, take
from tests.support.embedded_topics import direct_settings, note_produced, plain_settings, records, small_cluster
from tests.support.history import History, Moved, Outage
from tests.support.invariants.oracle import Oracle
from tests.support.recorder import RecordedConsumer, recorded

__all__ = ["OUTAGE_SECONDS", "deleted", "outage", "restarted", "written"]

OUTAGE_SECONDS = 1_000.0
"""In the history's clock, which the scenario moves forward: longer than any limit of I9."""
_POLLS = 5
_POLL_SECONDS = 0.1
_SEGMENT_BYTES = 1_500
_WRITTEN, _AT_ONCE = 120, 10


def outage(stage: Stage, patience: float) -> Evidence:
    """The broker does not answer for some time in the middle of a read; then it does."""
    evidence = stage.evidence(EVEN, seconds=patience)
    with stage.open(evidence) as consumer:
        consumer.assign([TopicPartition(EVEN, 0, 0)])
        take(consumer, 3, patience)
        evidence.history.add(Outage)
        stage.broker.hold()
        try:
            for _ in range(_POLLS):
                consumer.consume(1000, _POLL_SECONDS)
            evidence.history.shift(OUTAGE_SECONDS)
            consumer.consume(1000, _POLL_SECONDS)
        finally:
            stage.broker.release()
            evidence.history.add(Outage, over=True)
        finish(consumer, patience)
    return evidence


def deleted(stage: Stage, patience: float) -> Evidence:
    """The log's start passes the position of a paused consumer whose policy is "error". The oracle gets the same fault."""
    stream = stage.fresh("deleted", even_segments(b"deleted"))
    place, truth = TopicPartition(stream.topic, 0), History()
    evidence = stage.evidence(stream.topic, seconds=patience)
    plainly = plain_settings(stage.cluster, auto_offset_reset="error")
    with (
        stage.open(evidence, auto_offset_reset="error") as consumer,
        recorded(confluent_kafka.Consumer, plainly, truth) as plain,
    ):
        both: tuple[RecordedConsumer, ...] = (consumer, plain)
        for one in both:
            one.assign([TopicPartition(stream.topic, 0, 0)])
            take(one, 3, patience)
            one.pause([place])
        log_start = stage.delete_segment(stream)
        evidence.history.add(Moved, key=(stream.topic, 0), log_start=log_start)
        for one in both:
            one.resume([place])
            finish(one, patience)
    evidence.oracle = Oracle.of(truth)
    return evidence


def restarted(stage: Stage, patience: float) -> Evidence:
    """A consumer reads some records, commits and closes; the next one of its group continues."""
    evidence = stage.evidence(EVEN, seconds=patience)
    group = f"restarted-{uuid4()}"
    for name in ("first", "second"):
        with stage.open(evidence, name, group_id=group) as consumer:
            consumer.assign([TopicPartition(EVEN, 0, OFFSET_STORED)])
            take(consumer, 7, patience)
            consumer.commit(asynchronous=False)
    return evidence


def written(stage: Stage, patience: float) -> Evidence:
    """Records are written and archived alternately; then the consumer and the oracle read everything."""
    history, truth, topic = History(), History(), "written"
    evidence = Evidence(history, Oracle({}), patience)
    with small_cluster(stage.scratch / f"written-{uuid4()}", segment_bytes=_SEGMENT_BYTES) as cluster:
        made = records(_WRITTEN, topic)
        for start in range(0, _WRITTEN, _AT_ONCE):
            some = made[start : start + _AT_ONCE]
            note_produced(history, topic, 0, cluster.produce(topic, some), some)
            cluster.archive()
        makers = (
            recorded(Consumer, direct_settings(cluster), history),
            recorded(confluent_kafka.Consumer, plain_settings(cluster), truth),
        )
        for consumer in makers:
            with consumer:
                consumer.assign([TopicPartition(topic, 0, 0)])
                finish(consumer, patience)
    evidence.oracle = Oracle.of(truth)
    return evidence
