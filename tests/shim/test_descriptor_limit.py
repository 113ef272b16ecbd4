from __future__ import annotations

import resource

import pytest

from kafka_remote_client.shim.descriptor_limit import allow_connections


class Limit:
    """The limit of a process, instead of that of the tests."""

    def __init__(self, soft: int, hard: int, *, most: int | None = None) -> None:
        self.soft, self.hard, self.most = soft, hard, most

    def get(self, _which: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _which: int, limits: tuple[int, int]) -> None:
        if self.most is not None and limits[0] > self.most:
            raise ValueError("current limit exceeds maximum limit")
        self.soft, self.hard = limits


def after(limit: Limit, max_connections: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    allow_connections(max_connections)
    return limit.soft, limit.hard


@pytest.mark.parametrize("hard", [65_536, resource.RLIM_INFINITY])
def test_raises_the_soft_limit_to_what_connections_need(
    hard: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert after(Limit(1_024, hard), 10_000, monkeypatch) == (21_024, hard)
    assert not caplog.messages


@pytest.mark.parametrize("soft", [65_536, resource.RLIM_INFINITY])
def test_never_lowers_the_limit(soft: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    assert after(Limit(soft, soft), 10_000, monkeypatch) == (soft, soft)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("limit", "soft"), [(Limit(1_024, 4_096), 4_096), (Limit(1_024, resource.RLIM_INFINITY, most=10_240), 1_024)]
)
def test_says_that_the_limit_is_too_low(
    limit: Limit, soft: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert after(limit, 10_000, monkeypatch)[0] == soft
    (line,) = caplog.messages
    assert line.startswith(f"max_connections 10000 needs 21024 open files, and the limit is {soft}: raise it ")
