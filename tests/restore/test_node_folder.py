"""What a restore finds in a folder, and when it does not write there."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError, RestoreError
from kafka_remote_client.restore import node_folder
from tests.support.new_node import NAME, WORK, formatted, planned, restored, two_segments


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A formatted folder."""
    return formatted(tmp_path / "node")


class StoppedError(Exception):
    """A restore that is killed at a step."""


def _stopped(*_: object, **__: object) -> None:
    raise StoppedError


def test_refuses_another_plan_in_an_unfinished_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()
    with monkeypatch.context() as patched:
        patched.setattr("kafka_remote_client.restore.restorer.metadata_records", _stopped)
        with pytest.raises(StoppedError):
            restored(tier, folder)
    with pytest.raises(RestoreError, match="has an unfinished restore of another plan"):
        restored(tier, folder, planned(tier, without=[UUID(int=2)]))


def test_begins_anew_without_the_files_of_a_plan_that_was_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()
    with monkeypatch.context() as patched:
        patched.setattr(node_folder.NodeFolder, "move", _stopped)
        with pytest.raises(StoppedError):
            restored(tier, folder)
    assert (folder / WORK / NAME / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n2 5\n"
    (folder / f"{WORK}.json").unlink()
    restored(tier, folder, planned(tier, without=[UUID(int=2)]))
    assert (folder / NAME / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n0 0\n"


def test_refuses_a_folder_that_was_not_formatted(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match=r"has no meta\.properties or no bootstrap\.checkpoint: format it"):
        restored(two_segments(), tmp_path)


def test_refuses_a_folder_whose_properties_are_not_text(folder: Path) -> None:
    (folder / "meta.properties").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"meta\.properties has version None, not 1"):
        restored(two_segments(), folder)


def test_refuses_a_folder_that_a_broker_has_locked(folder: Path) -> None:
    """A lock of another process: record locks of one process do not exclude each other."""
    from multiprocessing import get_context

    context = get_context("spawn")
    locked, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(folder / ".lock", locked, done))
    holder.start()
    try:
        assert locked.wait(60)
        with pytest.raises(RestoreError, match="is in use: a broker or another restore has locked it"):
            restored(two_segments(), folder)
    finally:
        done.set()
        holder.join(60)


def _hold(path: Path, locked: Any, done: Any) -> None:
    with path.open("ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        locked.set()
        done.wait(60)


def test_refuses_a_node_that_has_started(folder: Path) -> None:
    (folder / "__cluster_metadata-0").mkdir()
    (folder / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(b"")
    with pytest.raises(RestoreError, match="a node has started in it; format a new folder, because a cluster that runs cannot"):
        restored(two_segments(), folder)


@pytest.mark.parametrize("name", [NAME, "log-start-offset-checkpoint"])
def test_refuses_a_folder_with_files_of_its_own(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    with pytest.raises(RestoreError, match=f"is in use: it has {name}"):
        restored(two_segments(), folder)


def test_refuses_a_second_restore(folder: Path) -> None:
    tier = two_segments()
    restored(tier, folder)
    with pytest.raises(RestoreError, match="has restored topics already"):
        restored(tier, folder, planned(tier, without=[UUID(int=2)]))


def test_tells_again_what_is_left_to_do(folder: Path) -> None:
    """What a finished restore printed may be lost, with a terminal for example."""
    tier = two_segments(open_transactions=[(40, 5)])
    done = restored(tier, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = restored(tier, folder)
    assert again == attrs.evolve(done, copied_bytes=0)
    assert again.hanging
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not (folder / WORK).exists()


def test_continues_after_a_kill_while_it_removes_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()
    with monkeypatch.context() as patched:
        patched.setattr("os.rmdir", _stopped)
        with pytest.raises(StoppedError):
            restored(tier, folder)
    assert list((folder / WORK).iterdir()) == []
    restored(tier, folder)
    assert not (folder / WORK).exists()


def test_refuses_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(folder)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(RestoreError, match="has 10 bytes free, the logs have"):
        restored(two_segments(), folder)


def test_reports_what_the_file_system_refuses(folder: Path) -> None:
    (folder / WORK).write_text("")  # a file in the way
    with pytest.raises(RestoreError, match=f"cannot write .*{WORK}"):
        restored(two_segments(), folder)
