"""The ledger: what a run appends, and when its figures are older than the code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.ledger import LEDGER, RunEntry, digest, entries, ledger


def _tree(root: Path) -> Path:
    (root / "package" / "inner").mkdir(parents=True)
    (root / "package" / "one.py").write_text("one = 1\n")
    (root / "package" / "inner" / "kernel.pyx").write_text("two = 2\n")
    (root / "package" / "kernel.c").write_text("made from kernel.pyx\n")
    return root


def _run(root: Path, describes: tuple[str, ...] = ("package",)) -> RunEntry:
    return RunEntry("chaos", "2026-11-22T00:00:00Z", "0123abc", describes, {"records": 3}, digest(describes, root), seed=7)


def test_prints_a_line_and_appends_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "ledger.jsonl"
    monkeypatch.setenv("KAFKA_REMOTE_LEDGER_FILE", str(kept))
    line = ledger("chaos", describes=["kafka_remote_client/records"], seed=7, seconds=3, records=5, kinds="a b")
    assert capsys.readouterr().out == line + "\n"
    assert " chaos commit=" in line
    assert line.endswith(" seed=7 records=5 kinds=a_b seconds=3")
    (entry,) = entries(kept)
    assert (entry.campaign, entry.seed, entry.seconds) == ("chaos", 7, 3)
    assert entry.counts == {"records": 5, "kinds": "a b"}
    assert entry.describes == ("kafka_remote_client/records",)
    assert entry.is_current()
    ledger("chaos", records=6)
    assert [run.counts["records"] for run in entries(kept)] == [5, 6]


def test_writes_nothing_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_REMOTE_LEDGER_FILE", "")
    before = LEDGER.read_bytes()
    assert "seed" not in ledger("chaos", records=6)
    assert LEDGER.read_bytes() == before


def test_entry_is_the_same_after_json() -> None:
    entry = RunEntry("chaos", "2026-11-22T00:00:00Z", "0123abc", ("fetchers",), {"records": 3}, seconds=1.5)
    assert RunEntry.from_json(entry.to_json()) == entry
    assert "digest" not in json.loads(entry.to_json())
    with pytest.raises(TypeError, match="surprise"):
        RunEntry.from_json(json.dumps({**json.loads(entry.to_json()), "surprise": 1}))


def test_counts_of_old_entries_have_todays_names() -> None:
    entry = RunEntry("shim-kills", "2026-11-25T00:00:00Z", "0123abc", ("fetchers",), {"longest_pause_behind_ms": 5, "kills": 1})
    assert RunEntry.from_json(entry.to_json()).counts == {"longest_pause_through_shim_ms": 5, "kills": 1}


@pytest.mark.parametrize("change", ["content", "name", "new file", "removed file", "removed folder"])
def test_run_is_older_than_code_that_changed(tmp_path: Path, change: str) -> None:
    root = _tree(tmp_path)
    run = _run(root)
    assert run.is_current(root) is True
    source = root / "package" / "inner" / "kernel.pyx"
    if change == "content":
        source.write_text("two = 3\n")
    elif change == "name":
        source.rename(source.with_name("other.pyx"))
    elif change == "new file":
        source.with_name("new.h").write_text("\n")
    elif change == "removed file":
        source.unlink()
    else:
        shutil.rmtree(root / "package")
    assert run.is_current(root) is False


def test_only_sources_that_are_described_count(tmp_path: Path) -> None:
    root = _tree(tmp_path)
    whole, top = _run(root), _run(root, ("package/*.py",))
    (root / "package" / "kernel.c").write_text("made again\n")
    assert whole.is_current(root) is True
    (root / "package" / "inner" / "kernel.pyx").write_text("two = 3\n")
    assert (whole.is_current(root), top.is_current(root)) == (False, True)


def test_entry_without_digest_is_neither_current_nor_old(tmp_path: Path) -> None:
    entry = RunEntry("chaos", "2026-11-22T00:00:00Z", "0123abc", ("package",), {})
    assert entry.is_current(_tree(tmp_path)) is None


def test_digest_refuses_a_place_without_sources(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="elsewhere: no source file"):
        digest(["package", "elsewhere"], _tree(tmp_path))
