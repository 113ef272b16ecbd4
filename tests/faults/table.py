"""All scenarios of the matrix, and the streams that they read."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.scenario import Scenario
from tests.faults.store_answers import STORE_ANSWERS
from tests.faults.store_bytes import STORE_BYTES, STREAMS
from tests.faults.store_connections import STORE_CONNECTIONS

__all__ = ["SCENARIOS", "STREAMS"]

SCENARIOS: Sequence[Scenario] = (*STORE_ANSWERS, *STORE_CONNECTIONS, *STORE_BYTES)
