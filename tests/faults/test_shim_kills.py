"""A shim that is killed under load costs a pause and no record: a short ``make shim-kills``."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.shim_kills import SHORTEST_SECONDS, kill_under_load, report
from tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.broker

_SECONDS = 40
_SEED = 1451


@pytest.mark.fault("F57", "F58")
def test_a_shim_killed_under_load_costs_a_pause_and_no_record(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    found = kill_under_load(kafka_broker, tmp_path, f"kills-{uuid4().hex[:8]}", _SECONDS, _SEED)
    report(found, _SECONDS, _SEED)
    assert found.violations == ()
    assert found.failed_produces == 0
    assert found.from_store > 0
    assert found.from_broker > 0
    assert found.produced > 0
    # The consumer that connects to the broker reads on while the shim is gone. The campaign has the bound of 1.5 s: other tests
    # on the same machine may delay a consumer for longer, so the shorter pause of two kills must be shorter than the shim's
    # absence.
    assert min(found.pauses_to_broker) < SHORTEST_SECONDS
