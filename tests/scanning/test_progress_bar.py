"""A progress bar is drawn in a terminal only."""

from __future__ import annotations

import io
import re
import sys
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.scanning.export.run import ExportProgress
from kafka_remote_client.scanning.predicate import column
from kafka_remote_client.scanning.progress_bar import PassedOffsets, TaskBar, export_bar, terminal_bar
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan


class Screen(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


def on_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Call it in the test, not in a fixture: pytest replaces standard error after its fixtures."""
    found = Screen()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


@pytest.fixture
def epochs(golden_url: str) -> TableScan:
    return scan(golden_url, "epochs", threads=2, progress=True)


def all_offsets(table: TableScan) -> int:
    return sum(split.end - split.start for split in table.plan().splits)


def test_a_read_ends_at_all_offsets(epochs: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, before = on_screen(monkeypatch), set(threading.enumerate())  # other tests may have left running threads
    rows = epochs.to_arrow().num_rows
    whole = all_offsets(epochs)
    assert rows > 0
    assert "epochs" in screen.shown
    assert f"{whole}/{whole}" in screen.shown
    new = [thread.name for thread in threading.enumerate() if thread not in before]
    assert [name for name in new if name.startswith("kafka-remote")] == []


def test_records_that_do_not_match_are_passed_too(epochs: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_screen(monkeypatch)
    table = epochs.where(column("key") == b"no such key")
    assert table.to_arrow().num_rows == 0
    assert f"{all_offsets(table)}/{all_offsets(table)}" in screen.shown


def test_an_abandoned_read_closes_its_bar(epochs: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_screen(monkeypatch)
    batches = epochs.batches()
    next(batches)
    batches.close()
    assert "epochs" in screen.shown
    reported = screen.getvalue()
    threading.Event().wait(0.3)
    assert screen.getvalue() == reported


def test_an_export_shows_its_splits(epochs: TableScan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = on_screen(monkeypatch)
    result = epochs.to_parquet(tmp_path)
    assert f"{result.splits}/{result.splits}" in screen.shown


def test_a_progress_callback_replaces_the_bar(epochs: TableScan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = on_screen(monkeypatch)
    reported: list[ExportProgress] = []
    epochs.to_parquet(tmp_path, progress=reported.append)
    assert reported
    assert screen.getvalue() == ""


def test_without_a_terminal_nothing_is_printed(epochs: TableScan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert epochs.to_arrow().num_rows > 0
    epochs.to_parquet(tmp_path)
    with export_bar("export") as reported:
        assert reported is None
    assert log.getvalue() == ""


def test_a_bar_can_be_forced(epochs: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_screen(monkeypatch)
    assert attrs.evolve(epochs, progress=False).to_arrow().num_rows > 0
    assert epochs.head(3).to_arrow().num_rows == 3
    assert screen.getvalue() == ""


def test_without_rich_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    on_screen(monkeypatch)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert terminal_bar("orders") is None


def test_progress_of_threads_adds_up() -> None:
    shown: list[tuple[int, int]] = []

    class Bar(TaskBar):
        def update(self, done: int, total: int) -> None:
            shown.append((done, total))

        def close(self) -> None:
            pass

    passed: Any = PassedOffsets(Bar())
    passed.total = 4000
    threads = [threading.Thread(target=lambda: [passed(1) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shown[-1] == (4000, 4000)
    assert [done for done, _ in shown] == list(range(1, 4001))
