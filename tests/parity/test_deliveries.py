"""The same deliveries as confluent_kafka's class, from both tiers, with all settings that affect them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED, TopicPartition

from tests.parity.stage import Run, Stage, play

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    ("topic", "settings"),
    [
        ("transactional", {"isolation_level": "read_committed"}),
        ("transactional", {"isolation_level": "read_uncommitted"}),
        ("mixed", {}),
        ("mixed", {"check_crcs": False, "client_rack": "a"}),
        ("mixed", {"queued_min_messages": 1, "queued_max_messages_kbytes": 1, "fetch_queue_backoff_ms": 10}),
        ("mixed", {"message_max_bytes": 1000, "fetch_message_max_bytes": 1000, "fetch_max_bytes": 1000}),
        ("append", {}),
    ],
)
def test_all_records_to_the_end_are_delivered(broker_stage: Stage, topic: str, settings: dict[str, Any]) -> None:
    def scenario(run: Run) -> None:
        consumer = run.open(**settings)
        consumer.assign([TopicPartition(run.topics[topic]["name"], 0, OFFSET_BEGINNING)])
        consumer.read_to_ends()
        consumer.position([TopicPartition(run.topics[topic]["name"], 0)])
        consumer.hears_nothing(2)

    play(broker_stage, scenario, reads_the_tier=True)


def start(topic: dict[str, Any], where: str) -> int:
    """Returns a place of a topic by its name here."""
    return {
        "the beginning": OFFSET_BEGINNING,
        "the end": OFFSET_END,
        "stored": OFFSET_STORED,
        "nowhere": OFFSET_INVALID,
        "the last five": -2000 - 5,
        "zero": 0,
        "the log's start": topic["start"],
        "below the log's start": topic["start"] - 1,
        "in the tier": topic["start"] + 17,
        "the tier's last": topic["local"] - 1,
        "the local log": topic["local"],
        "in the local log": topic["local"] + 3,
        "the high watermark": topic["end"],
        "beyond the end": topic["end"] + 10,
    }[where]


EVERY = ("earliest", "latest", "error")


@pytest.mark.parametrize("reset", EVERY)
@pytest.mark.parametrize(
    ("topic", "where", "tiered"),
    [
        ("mixed", "the beginning", EVERY),
        ("mixed", "the end", ()),
        ("mixed", "stored", ("earliest",)),
        ("mixed", "nowhere", ("earliest",)),
        ("mixed", "the last five", ()),
        ("mixed", "in the tier", EVERY),
        ("mixed", "the tier's last", EVERY),
        ("mixed", "the local log", ()),
        ("mixed", "in the local log", ()),
        ("mixed", "the high watermark", ()),
        ("transactional", "zero", None),
        ("transactional", "the log's start", EVERY),
        ("transactional", "below the log's start", None),
        ("transactional", "beyond the end", None),
    ],
)
def test_any_start_offset_gives_the_same_records(
    broker_stage: Stage, topic: str, where: str, reset: str, tiered: tuple[str, ...] | None
) -> None:
    """Out of range at either end, in either tier, and without a commit: ``auto.offset.reset`` decides.

    ``tiered``: the policies with which the tier is read at once; ``None`` if the broker is asked first.
    """

    def scenario(run: Run) -> None:
        facts = run.topics[topic]
        consumer = run.open(auto_offset_reset=reset)
        consumer.assign([TopicPartition(facts["name"], 0, start(facts, where))])
        consumer.assignment()
        consumer.position([TopicPartition(facts["name"], 0)])
        consumer.read(3 if reset == "earliest" and where != "the end" and where != "the high watermark" else 1)
        consumer.position([TopicPartition(facts["name"], 0)])
        consumer.assignment()

    play(broker_stage, scenario, reads_the_tier=None if tiered is None else reset in tiered)
