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


def test_a_request_that_waited_too_long_does_not_end_a_member() -> None:
    late = message(KafkaError._TIMED_OUT_QUEUE)
    assert member_of(message(), late, message(KafkaError._PARTITION_EOF), message()).round(4) == (2, 2)


def test_any_other_error_ends_it() -> None:
    with pytest.raises(AssertionError):
        member_of(message(KafkaError._AUTO_OFFSET_RESET)).round(1)
