"""A fixed sample of each target, in the installed build and with sanitizers. ``make fuzz`` tries more."""

from __future__ import annotations

import pytest

from tests.fuzz import run
from tests.fuzz.registry import TARGETS

_SEED = 1254
_MOST_SECONDS = 60
"""A machine that is slow tries fewer inputs."""
_KERNEL = [name for name, target in TARGETS.items() if target.sanitized]


@pytest.fixture(scope="module")
def sanitized() -> dict[str, str]:
    return run.sanitized()


@pytest.mark.parametrize("name", TARGETS)
def test_the_fuzzer_finds_nothing(name: str) -> None:
    target = TARGETS[name]
    assert run.fuzz(target, run.Campaign(_SEED, inputs=target.inputs, seconds=_MOST_SECONDS)).inputs


@pytest.mark.parametrize("name", _KERNEL)
def test_the_fuzzer_finds_nothing_with_sanitizers(name: str, sanitized: dict[str, str]) -> None:
    target = TARGETS[name]
    sample = run.Campaign(_SEED, inputs=target.sanitized, seconds=_MOST_SECONDS, environment=sanitized)
    assert run.fuzz(target, sample).inputs


def test_a_campaign_runs_for_its_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def child(target: object, arguments: list[str], environment: dict[str, str]) -> tuple[str, float]:
        asked.append([one for one in arguments if one.startswith(("-seed", "-max_total"))])
        return "Done 70 runs in 20 second(s)", 8.0

    monkeypatch.setattr(run, "_run", child)
    found = run.fuzz(TARGETS["lz4"], run.Campaign(_SEED, seconds=20))
    assert (found.inputs, found.seconds) == (210, 24.0)
    assert asked == [[f"-seed={_SEED + n}", f"-max_total_time={left}"] for n, left in enumerate((20, 12, 5))]
