"""Every fallible call of a read fails once in every way, and no invariant breaks; no thread, socket or byte is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.stage import Stage
from tests.faults.torture import SEAMS, WAYS, Torture, run, tortured
from tests.support.run_summary import RecordProperty

pytestmark = pytest.mark.embedded

_SHARES = 4


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("way", WAYS)
def test_no_call_that_fails_breaks_anything(stage: Stage, way: str, share: int, record_property: RecordProperty) -> None:
    fired, breaches = run(stage, [way], share, _SHARES)
    record_property("failed_calls", fired.total())
    assert breaches == []
    assert fired


@pytest.mark.parametrize("way", WAYS)
def test_every_seam_is_met_that_can_fail_in_that_way(stage: Stage, way: str) -> None:
    torture = Torture(way)
    evidence = tortured(stage, torture)
    assert evidence.all() == []
    assert set(torture.calls) == {seam.name for seam in SEAMS if way in seam.ways}
