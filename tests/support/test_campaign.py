"""A campaign passes its seed to pytest and adds a line to the ledger, also if tests fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import campaign
from tests.support.campaign import command_of, main

_TESTS = "def test_passes(): pass\ndef test_passes_too(): pass\ndef test_fails(): raise AssertionError\n"


def test_the_seed_applies_to_the_tests_and_their_order() -> None:
    assert command_of(["--suite", "unit"], 7)[-4:] == ["--campaign-seed=7", "--randomly-seed=7", "--suite", "unit"]
    assert command_of(["--suite", "unit"], None)[-3:] == ["pytest", "--suite", "unit"]


def test_a_run_records_its_seed_and_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "ledger.jsonl"
    (tmp_path / "test_it.py").write_text(_TESTS)
    monkeypatch.setenv("KAFKA_REMOTE_LEDGER_FILE", str(kept))
    for inherited in ("PYTEST_ADDOPTS", "COVERAGE_PROCESS_CONFIG", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(inherited, raising=False)
    own = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    assert main(["properties", "--seed", "7", "--", *own, str(tmp_path)]) == 1
    (entry,) = [json.loads(line) for line in kept.read_text().splitlines()]
    assert (entry["campaign"], entry["seed"], entry["counts"]) == ("properties", 7, {"passed": 2, "failed": 1})
    assert "SEED=7" in capsys.readouterr().out


def test_seeds_are_new_unless_given_or_fixed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Sequence[str]] = []

    def ran(command: Sequence[str]) -> tuple[str, int]:
        asked.append([one for one in command if "seed" in one])
        return "== 1 passed in 1s ==", 0

    monkeypatch.delenv("KAFKA_REMOTE_LEDGER_FILE", raising=False)
    monkeypatch.setattr(campaign, "_ran", ran)
    for arguments in (["properties", "--"], ["properties", "--"], ["pure-python", "--fixed", "--"]):
        assert main(arguments) == 0
    assert len(asked[0]) == 2
    assert asked[0] != asked[1]
    assert asked[2] == []
    assert capsys.readouterr().out.count("SEED=") == 2
