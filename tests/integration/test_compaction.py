"""A log that Kafka's own cleaner compacted is read from the tier as the plain consumer reads it from the broker.

No release of Kafka tiers a topic while it is compacted, so the policy of the topic is delete by the time that its segments are
in the tier (``tests/support/compacted_topic.py``). Where a test needs a compacted topic, it changes one value of the broker's
answer to DescribeConfigs, as a broker with KIP-1272 would answer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_remote_client import Consumer
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.verify import VerifyCommand, verify
from kafka_remote_client.location import cleanup_policies
from kafka_remote_client.location.cleanup_policies import CleanupPolicies
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.verify.verifier import VerifyRequest
from tests.support.compacted_topic import CompactedTopic, write_compacted_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import Row, direct, read_to_end, settings, shim_before, total

pytestmark = pytest.mark.broker

ISOLATION = ("read_committed", "read_uncommitted")
_HEADER = struct.Struct(">qiibIhiqqqhii")


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> CompactedTopic:
    return write_compacted_topic(running_broker, f"compacted-{uuid4().hex[:8]}")


@pytest.fixture
def shim(kafka_broker: KafkaBroker, topic: CompactedTopic) -> Iterator[Shim]:
    with shim_before(kafka_broker) as running:
        yield running


class CompactingAdmin:
    """An AdminClient for a broker that keeps the topic's policy compact while it is tiered. ``told``: what it really is."""

    def __init__(self, told: list[str], config: dict[str, Any]) -> None:
        self._told = told
        self._admin = AdminClient(config)

    def describe_configs(self, resources: Any, request_timeout: float) -> Any:
        asked = self._admin.describe_configs(resources, request_timeout=request_timeout)
        return {resource: SimpleNamespace(result=partial(self._changed, answer)) for resource, answer in asked.items()}

    def _changed(self, answer: Any, timeout: float) -> Any:
        self._told.append(answer.result(timeout)["cleanup.policy"].value)
        return {"cleanup.policy": SimpleNamespace(value="compact")}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes the topic compacted for all consumers of the test. Returns the broker's true answers."""
    answers: list[str] = []
    monkeypatch.setattr(
        cleanup_policies, "CleanupPolicies", partial(CleanupPolicies, make_admin=partial(CompactingAdmin, answers))
    )
    return answers


def read(consumer: confluent_kafka.Consumer, topic: str, start: int = OFFSET_BEGINNING) -> tuple[list[Row], int]:
    """Returns the rows from ``start`` on, and the position after them."""
    consumer.assign([TopicPartition(topic, 0, start)])
    rows = read_to_end(consumer)
    return rows, consumer.position([TopicPartition(topic, 0)])[0].offset


def read_plain(broker: KafkaBroker, topic: str, isolation: str, start: int = OFFSET_BEGINNING) -> tuple[list[Row], int]:
    consumer = confluent_kafka.Consumer(settings(broker.bootstrap_servers, isolation))
    try:
        return read(consumer, topic, start)
    finally:
        consumer.close()


def batches(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Base offset, last offset, record count and attributes of each batch, by the format's documentation."""
    position = 0
    while position < len(data):
        base, length, _, magic, _, attributes, delta, *_, count = _HEADER.unpack_from(data, position)
        assert magic == 2
        yield base, base + delta, count, attributes
        position += 12 + length


def test_the_tier_has_what_a_cleaner_leaves(kafka_broker: KafkaBroker, topic: CompactedTopic) -> None:
    segments = [list(batches(path.read_bytes())) for path in kafka_broker.remote_segments(topic.topic)]
    between = sum(after[0] > before[1] + 1 for found in segments for before, after in pairwise(found))
    rare = sum(0 < count < last - base + 1 for found in segments for base, last, count, _ in found)
    transactional = sum(bool(attributes & 0x10) for found in segments for *_, attributes in found)
    assert min(between, rare, transactional) > 0, (between, rare, transactional)


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_compacted_topic_is_read_from_the_tier_alone(
    kafka_broker: KafkaBroker, topic: CompactedTopic, shim: Shim, told: list[str], isolation: str
) -> None:
    expected, position = read_plain(kafka_broker, topic.topic, isolation)
    assert expected == topic.local[isolation], "the broker serves the same records from its disk and from the tier"
    with Consumer(direct(shim, isolation)) as consumer:
        assert read(consumer, topic.topic) == (expected, position)
        metrics = consumer.metrics()
    tiered = sum(offset < topic.offsets.earliest_local for offset, *_ in expected)
    assert total(metrics, "remote-fetch-records-total") == tiered > 100
    assert set(told) == {"delete"}, "what the broker itself says by now"


def verified(broker: KafkaBroker, topic: str) -> tuple[int, set[str]]:
    """Exit status and kinds of the findings."""
    command = VerifyCommand(
        broker.store_url, VerifyRequest((topic,)), bootstrap_servers=broker.bootstrap_servers, output=OutputFormat.JSON
    )
    with redirect_stdout(StringIO()) as out:
        status = verify(command, lambda _: None)
    return status, set(json.loads(out.getvalue().splitlines()[-1])["findings"])


def test_verify_accepts_holes_only_while_the_topic_is_compacted(
    kafka_broker: KafkaBroker, topic: CompactedTopic, request: pytest.FixtureRequest
) -> None:
    status, kinds = verified(kafka_broker, topic.topic)
    assert status == 1
    assert "batch-chain" in kinds
    told = request.getfixturevalue("told")
    assert verified(kafka_broker, topic.topic) == (0, set())
    assert told == ["delete"], "asked once"


@pytest.mark.parametrize("isolation", ISOLATION)
def test_holes_of_a_topic_with_another_policy_come_from_the_broker(
    kafka_broker: KafkaBroker, topic: CompactedTopic, shim: Shim, isolation: str
) -> None:
    with Consumer(direct(shim, isolation)) as consumer:
        assert read(consumer, topic.topic) == read_plain(kafka_broker, topic.topic, isolation)
        metrics = consumer.metrics()
    tiered = sum(offset < topic.offsets.earliest_local for offset, *_ in topic.local[isolation])
    assert total(metrics, "remote-fetch-records-total") < tiered
    fallbacks = metrics["remote-fetch-fallbacks-total"]
    assert isinstance(fallbacks, dict)
    assert fallbacks
    assert set(fallbacks) <= {"corrupt", "bad-location"}
