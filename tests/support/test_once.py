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
    def run(write: Callable[[], object], **options: object) -> None:
        once_per_run(_Broker(tmp_path / "broker"), "topic", write, **options)

    return run


class _Step:
    """Fails ``failures`` times, then works."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[str] = []
        self._failures = failures

    def write(self) -> None:
        self._call("write")

    def instead(self) -> None:
        self._call("instead")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) <= self._failures:
            raise ValueError(f"the broker is late at {name}")


def test_a_step_runs_once(once: Callable[..., None]) -> None:
    step = _Step()
    once(step.write)
    once(step.write)
    assert step.calls == ["write"]


def test_a_caller_after_a_failure_gets_the_first_cause(once: Callable[..., None]) -> None:
    step = _Step(failures=1)
    with pytest.raises(ValueError, match="the broker is late"):
        once(step.write)
    with pytest.raises(SetUpFailedError, match="the broker is late"):
        once(step.write)
    assert step.calls == ["write"]


def test_another_step_runs_instead_of_one_that_failed(once: Callable[..., None], tmp_path: Path) -> None:
    step = _Step(failures=1)
    once(step.write, instead=step.instead)
    once(step.write, instead=step.instead)
    assert step.calls == ["write", "instead"]
    assert "the broker is late at write" in (tmp_path / "topic.retried").read_text()


def test_a_failure_of_both_steps_is_raised(once: Callable[..., None], tmp_path: Path) -> None:
    step = _Step(failures=2)
    with pytest.raises(ValueError, match="the broker is late at instead"):
        once(step.write, instead=step.instead)
    with pytest.raises(SetUpFailedError, match="the broker is late at instead"):
        once(step.write, instead=step.instead)
    assert step.calls == ["write", "instead"]
    assert (tmp_path / "topic.retried").exists()
