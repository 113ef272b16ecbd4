"""Each target for a while, in the installed build and in one with sanitizers: what ``make fuzz`` does for longer."""

from __future__ import annotations

import pytest

from tests.fuzz import run

_SECONDS = 20
_SECONDS_SANITIZED = 4


@pytest.fixture(scope="module")
def sanitized() -> dict[str, str]:
    return run.sanitized()


@pytest.mark.parametrize("name", run.NAMES)
def test_fuzzer_finds_nothing(name: str) -> None:
    run.fuzz(name, _SECONDS, {})


@pytest.mark.parametrize("name", run.NAMES)
def test_fuzzer_finds_nothing_with_sanitizers(name: str, sanitized: dict[str, str]) -> None:
    run.fuzz(name, _SECONDS_SANITIZED, sanitized)
