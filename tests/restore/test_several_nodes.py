"""A restore to the folders of several nodes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import attrs
import pytest

from kafka_remote_client.errors import RestoreError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.restore import node_folder
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP, has_topics
from kafka_remote_client.restore.restore_plan import RestorePlan
from tests.support.new_node import FORMATTED, META, NAME, WORK, formatted, planned, restored, two_segments
from tests.support.tier import TIP

TIER = two_segments(open_transactions=[(40, 5)])
PLACES = {TopicPartition(TIP.topic, number): (2, 1) for number in range(7)} | {TopicPartition(TIP.topic, 7): (3, 1)}


def placed() -> RestorePlan:
    return attrs.evolve(planned(TIER), assignment=PLACES)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Formatted folders of the nodes 1 to 3."""
    return [formatted(tmp_path / f"node-{node}", node) for node in (1, 2, 3)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_node_gets_its_replicas_and_all_metadata(folders: list[Path]) -> None:
    done = restored(TIER, folders[0], placed(), *folders[1:])
    first, second, third = map(files, folders)
    assert f"{NAME}/00000000000000000005.log" in first
    assert {name: first[name] for name in first if name.startswith(NAME)} == {
        name: third[name] for name in third if name.startswith(NAME)
    }
    assert not any(name.startswith(NAME) for name in second)
    assert first[BOOTSTRAP] == second[BOOTSTRAP] == third[BOOTSTRAP]
    assert has_topics(first[BOOTSTRAP])
    assert done.copied_bytes == sum(len(data) for name, data in first.items() if name.endswith(".log"))


def test_log_starts_are_with_their_partitions(folders: list[Path]) -> None:
    plan = placed()
    later = attrs.evolve(plan, partitions=(attrs.evolve(plan.partitions[0], log_start=3),))
    restored(TIER, folders[0], later, *folders[1:])
    starts = [(folder / "log-start-offset-checkpoint").read_text() for folder in folders]
    assert starts == [f"0\n1\n{TIP.topic} 7 3\n", "0\n0\n", f"0\n1\n{TIP.topic} 7 3\n"]


@pytest.mark.parametrize("full", [0, 2])
def test_an_error_names_the_folder_that_cannot_be_written(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(folders[full]):
            raise OSError(errno.ENOSPC, "No space left on device")  # without a name, as a write raises it

    monkeypatch.setattr(node_folder.os, "fsync", fsync)
    with pytest.raises(RestoreError) as stopped:
        restored(TIER, folders[0], placed(), folders[2], folders[1])
    assert str(stopped.value) == f"cannot write {folders[full]}: No space left on device"


class StoppedError(Exception):
    """A restore that is killed at a step."""


def test_continues_after_a_stop_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [formatted(tmp_path / f"whole-{node}", node) for node in (1, 2, 3)]
    done = restored(TIER, whole[0], placed(), *whole[1:])
    for stop_at in count():
        left = iter(range(stop_at))

        def fsync(descriptor: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise StoppedError

        stopped = [formatted(tmp_path / f"{stop_at}-{node}", node) for node in (1, 2, 3)]
        with monkeypatch.context() as patched:
            patched.setattr(node_folder.os, "fsync", fsync)
            try:
                restored(TIER, stopped[0], placed(), *stopped[1:], jobs=1)
                break
            except StoppedError:
                patched.setattr(node_folder.os, "fsync", lambda _: None)
            again = restored(TIER, stopped[0], placed(), *stopped[1:])
        assert (again.next_producer_id, again.hanging) == (done.next_producer_id, done.hanging)
        assert [files(one) for one in stopped] == [files(one) for one in whole]
        assert not any((one / WORK).exists() for one in stopped)
    assert stop_at > 16


def test_refuses_folders_that_do_not_fit(folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match="several folders need an assignment"):
        restored(TIER, folders[0], None, *folders[1:])
    with pytest.raises(RestoreError, match=f"the assignment places {NAME} on node 3, and no folder given is of that node"):
        restored(TIER, folders[0], placed(), folders[1])
    twin = formatted(tmp_path / "twin")
    with pytest.raises(RestoreError, match=r"node-1 and .*twin are both of node 1"):
        restored(TIER, folders[0], placed(), *folders[1:], twin)
    (folders[2] / "meta.properties").write_text(META.replace("node.id=1", "node.id=3").replace("cluster.id=d", "cluster.id=e"))
    with pytest.raises(RestoreError, match=r"node-1 and .*node-3 are of different clusters"):
        restored(TIER, folders[0], placed(), *folders[1:])
    assert {(folder / BOOTSTRAP).read_bytes() for folder in folders} == {FORMATTED}


def test_refuses_a_full_disk_of_one_node(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    free = {folders[0]: 10**9, folders[1]: 0, folders[2]: 5}
    monkeypatch.setattr(node_folder.NodeFolder, "free_bytes", lambda folder: free[folder.path])
    with pytest.raises(RestoreError, match=r"node-3 has 5 bytes free"):
        restored(TIER, folders[0], placed(), *folders[1:])
