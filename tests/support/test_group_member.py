"""What a member of a group takes for a record, and for an error that ends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.support.group_member import LocalMember


def member_of(*messages: Any) -> LocalMember:
    member = LocalMember.__new__(LocalMember)
    member.consumer = SimpleNamespace(consume=lambda *_: list(messages), assignment=lambda: [0, 1])
    return member


def message(code: int | None = None) -> Any:
    return SimpleNamespace(error=lambda: None if code is None else KafkaError(code))


def test_the_end_of_a_partition_is_no_record() -> None:
    assert member_of(message(), message(KafkaError._PARTITION_EOF), message()).round(3) == (2, 2)


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE])
def test_any_other_error_ends_a_member(code: int) -> None:
    with pytest.raises(AssertionError):
        member_of(message(code)).round(1)
