"""All scenarios of the matrix, and the streams that they read."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.scenario import Scenario
from tests.faults.shim_answers import SHIM_ANSWERS
from tests.faults.store_answers import STORE_ANSWERS
from tests.faults.store_bytes import BYTES_STREAMS, STORE_BYTES
from tests.faults.store_connections import STORE_CONNECTIONS
from tests.faults.store_grants import GRANTED_STREAMS, STORE_GRANTS

__all__ = ["SCENARIOS", "STREAMS"]

SCENARIOS: Sequence[Scenario] = (*STORE_ANSWERS, *STORE_CONNECTIONS, *STORE_BYTES, *STORE_GRANTS, *SHIM_ANSWERS)
STREAMS = {**BYTES_STREAMS, **GRANTED_STREAMS}
