"""All scenarios of the matrix, and the streams that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.faults.scenario import Scenario
from tests.faults.store_answers import STORE_ANSWERS
from tests.faults.streams import Segment

__all__ = ["SCENARIOS", "STREAMS"]

SCENARIOS: Sequence[Scenario] = (*STORE_ANSWERS,)

STREAMS: Mapping[str, Callable[[], Sequence[Segment]]] = {}
