"""The campaign over versions of the broker reports a failed check and a version that does not start."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.support import broker_versions
from tests.support.broker_versions import CHECKS, VERSIONS, Stage, main, outcomes

_STAGE = Mock(spec=Stage)


def _passes(_: Stage) -> str:
    return "12 segments"


def _fails(_: Stage) -> str:
    raise AssertionError("3 records, the plain consumer has 4")


def test_a_check_that_raises_does_not_stop_the_others() -> None:
    found = outcomes(_STAGE, {"tier": _fails, "records": _passes})
    assert found == {"tier": "failed: AssertionError('3 records, the plain consumer has 4')", "records": "12 segments"}


@pytest.mark.parametrize(("check", "status"), [(_passes, 0), (_fails, 1)])
def test_each_version_has_a_ledger_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: object, status: int) -> None:
    kept = tmp_path / "ledger.jsonl"
    monkeypatch.setenv("KAFKA_REMOTE_LEDGER_FILE", str(kept))
    monkeypatch.setattr(broker_versions, "_stage", lambda _: nullcontext(_STAGE))
    monkeypatch.setattr(broker_versions, "outcomes", lambda stage: outcomes(stage, {"tier": check}))  # type: ignore[dict-item] # a check
    assert main(["3.9.2", "4.0.2"]) == status
    counts = [json.loads(line)["counts"] for line in kept.read_text().splitlines()]
    assert [one["version"] for one in counts] == ["3.9.2", "4.0.2"]
    assert all(one["tier"].startswith("failed") == bool(status) for one in counts)


def test_a_version_that_does_not_start_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker_versions, "_stage", Mock(side_effect=RuntimeError("the broker ended")))
    assert main(["3.9.2"]) == 1
    assert "failed:_RuntimeError('the_broker_ended')" in capsys.readouterr().out


def test_all_minor_versions_are_checked() -> None:
    assert [version.rpartition(".")[0] for version in VERSIONS] == ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
    assert set(CHECKS) == {"tier", "announced", "records", "transactions", "delayed", "denied"}
