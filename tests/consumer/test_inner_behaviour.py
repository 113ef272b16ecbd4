from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID

from kafka_remote_client.consumer.inner_behaviour import InnerBehaviour, with_topic_settings
from kafka_remote_client.model import IsolationLevel


def test_the_defaults_are_those_of_librdkafka() -> None:
    assert InnerBehaviour.of({}) == InnerBehaviour(
        stores_offsets=True,
        reset_offset=OFFSET_END,
        incremental=False,
        announces_ends=False,
        commits=True,
        isolation_level=IsolationLevel.READ_COMMITTED,
    )


@pytest.mark.parametrize(
    ("value", "stores"),
    [(True, True), ("true", True), ("T", True), (1, True), (None, None), (False, False), ("f", False), (0, False), ("x", None)],
)
def test_offsets_are_stored_as_the_setting_says(value: object, stores: bool | None) -> None:
    assert InnerBehaviour.of({"enable.auto.offset.store": value}).stores_offsets is stores


@pytest.mark.parametrize("policy", ["earliest", "smallest", "beginning", "EARLIEST"])
def test_the_reset_policy_is_found_also_among_topic_settings(policy: str) -> None:
    assert InnerBehaviour.of({"auto.offset.reset": policy}).reset_offset == OFFSET_BEGINNING
    assert InnerBehaviour.of({"default.topic.config": {"auto.offset.reset": policy}}).reset_offset == OFFSET_BEGINNING


@pytest.mark.parametrize(
    ("policy", "offset"), [("largest", OFFSET_END), ("latest", OFFSET_END), ("end", OFFSET_END), ("error", OFFSET_INVALID)]
)
def test_the_reset_policy_leads_to_the_end_or_to_an_error(policy: str, offset: int) -> None:
    assert InnerBehaviour.of({"auto.offset.reset": policy}).reset_offset == offset


def test_topic_settings_replace_the_others_as_in_confluent_kafka() -> None:
    both: dict[str, Any] = {"auto.offset.reset": "no policy", "default.topic.config": {"auto.offset.reset": "earliest"}}
    confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **both}).close()
    assert InnerBehaviour.of(both).reset_offset == OFFSET_BEGINNING
    assert with_topic_settings(both) == {"auto.offset.reset": "earliest"}
    assert with_topic_settings({"default.topic.config": 5}) == {"default.topic.config": 5}, "confluent_kafka rejects it"


@pytest.mark.parametrize("settings", [{"partition.assignment.strategy": "cooperative-sticky"}, {"group.protocol": "consumer"}])
def test_knows_which_groups_rebalance_by_increments(settings: dict[str, Any]) -> None:
    assert InnerBehaviour.of(settings).incremental
    assert not InnerBehaviour.of({"partition.assignment.strategy": "range", "group.protocol": "classic"}).incremental


def test_blanks_before_a_value_do_not_count_as_in_librdkafka() -> None:
    blanks: dict[str, Any] = {
        "isolation.level": " read_uncommitted",
        "auto.offset.reset": "\tearliest",
        "group.protocol": " consumer",
    }
    confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **blanks}).close()
    behaviour = InnerBehaviour.of(blanks)
    assert behaviour.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert (behaviour.reset_offset, behaviour.incremental) == (OFFSET_BEGINNING, True)


def test_the_reset_policy_may_have_the_prefix_of_topic_settings() -> None:
    prefixed: dict[str, Any] = {"topic.auto.offset.reset": "earliest"}
    confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **prefixed}).close()
    assert InnerBehaviour.of(prefixed).reset_offset == OFFSET_BEGINNING
    assert InnerBehaviour.of({**prefixed, "auto.offset.reset": "latest"}).reset_offset == OFFSET_END, "the last one counts"
    assert InnerBehaviour.of({"auto.offset.reset": "latest", **prefixed}).reset_offset == OFFSET_BEGINNING


def test_reads_isolation_level_and_announced_ends() -> None:
    behaviour = InnerBehaviour.of({"isolation.level": "read_uncommitted", "enable.partition.eof": "true"})
    assert (behaviour.isolation_level, behaviour.announces_ends) == (IsolationLevel.READ_UNCOMMITTED, True)


@pytest.mark.parametrize(
    ("value", "commits"), [(True, True), ("true", True), (1, True), (False, False), ("f", False), (0, False)]
)
def test_commits_are_automatic_as_the_setting_says(value: object, commits: bool) -> None:
    assert InnerBehaviour.of({"enable.auto.commit": value}).commits is commits
