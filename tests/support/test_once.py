"""A set-up step runs once per run, and reports why it failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from tests.support.once import SetUpFailedError, once_per_run


@attrs.frozen
class _Broker:
    directory: Path


@pytest.fixture
def once(tmp_path: Path) -> Callable[..., None]:
    def run(write: Callable[[], object]) -> None:
        once_per_run(_Broker(tmp_path / "broker"), "topic", write)

    return run


class _Step:
    """Fails ``failures`` times, then works."""

    def __init__(self, failures: int = 0) -> None:
        self.calls = 0
        self._failures = failures

    def write(self) -> None:
        self.calls += 1
        if self.calls <= self._failures:
            raise ValueError("the broker is late")


def test_a_step_runs_once(once: Callable[..., None]) -> None:
    step = _Step()
    once(step.write)
    once(step.write)
    assert step.calls == 1


def test_a_caller_after_a_failure_gets_the_first_cause(once: Callable[..., None]) -> None:
    step = _Step(failures=1)
    with pytest.raises(ValueError, match="the broker is late"):
        once(step.write)
    with pytest.raises(SetUpFailedError, match="the broker is late"):
        once(step.write)
    assert step.calls == 1
