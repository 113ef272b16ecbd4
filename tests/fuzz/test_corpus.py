"""The fuzzer's corpus, replayed: no exception that is not documented, and both decoders alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.targets import TARGETS
from tests.support.decoders import SEAM

INPUTS = sorted(run.CORPUS.glob("*/*"))


def test_every_target_has_a_corpus() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS) == set(run.NAMES)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name[:8]}")
def test_input_gives_records_or_a_documented_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in SEAM:  # the targets replace them; this puts them back
        monkeypatch.setattr(module, name, getattr(module, name))
    TARGETS[path.parent.name](path.read_bytes())
