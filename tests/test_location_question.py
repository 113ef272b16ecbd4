from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel, TopicIdPartition

QUESTION = LocationQuestion(topic="orders", partition=3, offset=7, isolation_level=IsolationLevel.READ_COMMITTED)


def test_fields_that_the_source_adds_are_optional() -> None:
    assert (QUESTION.leader_epoch, QUESTION.max_bytes, QUESTION.topic_id) == (-1, 0, UUID(int=0))
    assert (QUESTION.log_start_offset, QUESTION.end_offset, QUESTION.range_bytes, QUESTION.formats) == (0, None, 0, ())


def test_the_partition_has_a_name_for_messages_and_one_for_the_tier() -> None:
    assert str(QUESTION) == "Fetch of orders-3 at 7"
    known = attrs.evolve(QUESTION, topic_id=UUID(int=9))
    assert known.topic_id_partition == TopicIdPartition(UUID(int=9), "orders", 3)


def test_isolation_levels_may_have_kafkas_names() -> None:
    assert attrs.evolve(QUESTION, isolation_level="Read_Uncommitted").isolation_level is IsolationLevel.READ_UNCOMMITTED


@pytest.mark.parametrize("changed", [{"offset": -1}, {"offset": True}, {"max_bytes": -1}, {"isolation_level": 1}], ids=str)
def test_refuses_an_invalid_question(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(changed))} must be"):
        attrs.evolve(QUESTION, **changed)
