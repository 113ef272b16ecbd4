"""The simulation's own list of bugs to plant: ``own_bugs.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.mutants.mutant import Mutant

__all__ = ["own_bugs"]

_LIST = Path(__file__).with_suffix(".toml")


def own_bugs() -> dict[Mutant, str]:
    """Returns each bug of the list with the reason why no rule finds it, or an empty text."""
    written = tomllib.loads(_LIST.read_text(encoding="utf-8"))["bug"]
    return {Mutant(killed_by="", **_without_reason(bug)): bug.get("unjudged", "") for bug in written}


def _without_reason(bug: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in bug.items() if name != "unjudged"}
