from __future__ import annotations

import math

import pytest

from kafka_remote_client.consumer.upstream_constructor import with_names


def area(radius: float, *, scale: float = 1.0) -> float:
    return math.pi * radius * scale


class Square:
    pi = 4.0


def test_a_replaced_name_changes_only_the_copy() -> None:
    copy = with_names(area, math=Square)
    assert copy is not None
    assert (copy(2), copy(2, scale=2)) == (8.0, 16.0)
    assert area(2) == math.pi * 2


def test_what_does_not_use_the_name_is_not_copied() -> None:
    assert with_names(area, math=Square, os=None) is None


@pytest.mark.parametrize(("value", "copied"), [("0", False), ("f", False), ("False", False), ("1", True), ("", True)])
def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch, value: str, copied: bool) -> None:
    monkeypatch.setenv("KAFKA_REMOTE_CLIENT_AIO", value)
    assert (with_names(area, math=Square) is not None) is copied
