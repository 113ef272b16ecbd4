"""A thousand peers that never read, or never finish a TLS handshake: the memory of the shim's process keeps its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.resident_memory import KINDS, main, measured

PEERS = 1_000
SEED = 5


@pytest.mark.fault("S12")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_the_process_keeps_its_bound(kind: str) -> None:
    figures = measured(kind, PEERS, SEED)
    assert figures.before < figures.peak <= figures.bound


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_a_run_adds_a_line_for_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_REMOTE_LEDGER_FILE", str(tmp_path / "ledger"))
    assert main(["--peers", "2", "--seed", "7"]) == 0
    assert (tmp_path / "ledger").read_text().count('"seed": 7') == len(KINDS)
