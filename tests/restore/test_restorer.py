"""The copy into a node's folder, from tiers in memory and from golden data."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError, RestoreError
from kafka_remote_client.model import AbortedTransaction, TopicPartition
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.listing import TierListing
from kafka_remote_client.restore import node_folder
from kafka_remote_client.restore.bootstrap import BOOTSTRAP, has_topics
from kafka_remote_client.restore.plan import RestorePlan, RestoreRequest, plan_restore
from kafka_remote_client.restore.restorer import PRODUCER_ID_MARGIN, Restored, Restorer
from kafka_remote_client.restore.tier import read_partition, read_snapshot
from tests.restore.test_bootstrap import FORMATTED
from tests.restore.test_files import META
from tests.support.tier import LAYOUT, TIP, Tier, batch, checkpoint

CONFIGS = {TIP.topic: {"retention.ms": "-1"}}
NAME = f"{TIP.topic}-{TIP.partition}"
WORK = "kafka-remote-restore"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A formatted folder."""
    (tmp_path / "meta.properties").write_text(META)
    (tmp_path / BOOTSTRAP).write_bytes(FORMATTED)
    return tmp_path


def two_segments(**changes: Any) -> Tier:
    tier = Tier()
    tier.add([batch(0, 3), batch(3, 2)], number=1)
    tier.add([batch(5, 5, epoch=2, producer_id=40), batch(10, epoch=2)], number=2, epochs=[(2, 5)], **changes)
    return tier


def planned(tier: Tier, *, live: bool = False, configs: dict[str, Any] = CONFIGS, **more: Any) -> RestorePlan:
    listing = TierListing(tier.store, LAYOUT)
    found = read_partition(tier.store, LAYOUT, listing, TIP, **more)
    return plan_restore([found], RestoreRequest(configs, live_copies=live), 0)


def restored(tier: Tier, folder: Path, plan: RestorePlan | None = None, **more: Any) -> Restored:
    return Restorer(tier.store, LAYOUT, plan or planned(tier), CONFIGS, **more).run(folder)


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_writes_what_a_broker_keeps(folder: Path) -> None:
    tier = two_segments(open_transactions=[(40, 5), (41, -1)])
    said: list[str] = []
    done = restored(tier, folder, say=said.append)
    logs = [tier.store.objects[LAYOUT.object_key(one, ObjectKind.LOG)] for one in tier.cache.list_all_remote_log_segments()]
    snapshot = tier.store.objects[LAYOUT.object_key(tier.cache.list_all_remote_log_segments()[1], ObjectKind.PRODUCER_SNAPSHOT)]
    assert files(folder / NAME) == {
        "00000000000000000000.log": logs[0],
        "00000000000000000005.log": logs[1],
        "00000000000000000011.log": b"",
        "00000000000000000011.snapshot": snapshot,
        "leader-epoch-checkpoint": b"0\n2\n0 0\n2 5\n",
        "partition.metadata": f"version: 0\ntopic_id: {planned(tier).partitions[0].as_json()['topic_id']}".encode(),
    }
    assert (folder / "log-start-offset-checkpoint").read_bytes() == b"0\n0\n"
    assert has_topics((folder / BOOTSTRAP).read_bytes())
    assert not (folder / WORK).exists()
    assert done == Restored(
        {TopicPartition(*NAME.rsplit("-", 1)[:1], TIP.partition): (AbortedTransaction(40, 5),)},
        42 + PRODUCER_ID_MARGIN,
        sum(map(len, logs)),
    )
    assert said == [f"{NAME}: 2 segments, offsets to 11"]


@pytest.mark.parametrize("damaged", [False, True])
def test_finds_hanging_transactions_without_a_snapshot(folder: Path, damaged: bool) -> None:
    tier = Tier()
    tier.add([batch(0, 2, producer_id=7), batch(2, producer_id=8), batch(3, producer_id=7, marker="commit")], number=1)
    last = tier.add([batch(4, producer_id=9), batch(5, producer_id=9, marker="abort"), batch(6, producer_id=7)], number=2)
    if damaged:
        tier.put(last, ObjectKind.PRODUCER_SNAPSHOT, b"\0")
    else:
        tier.remove(last, ObjectKind.PRODUCER_SNAPSHOT)
    plan = planned(tier)
    assert plan.partitions[0].hanging is None
    done = restored(tier, folder, plan)
    assert list(done.hanging.values()) == [(AbortedTransaction(8, 2), AbortedTransaction(7, 6))]
    assert done.next_producer_id == 10 + PRODUCER_ID_MARGIN
    assert not list((folder / NAME).glob("*.snapshot"))


def test_cuts_copies_that_overlap_between_batches(folder: Path) -> None:
    tier = Tier()
    tier.add([batch(0, 3), batch(3, 2)], number=1)
    tier.add([batch(3, 2), batch(5, 5)], number=2)
    with pytest.raises(RestoreError, match=r"the plan is refused: .*several segments hold offsets within 0 to 9"):
        restored(tier, folder)
    plan = planned(tier, live=True)
    assert [(one.start, one.end) for one in plan.partitions[0].segments] == [(0, 5), (5, 10)]
    restored(tier, folder, plan)
    found = files(folder / NAME)
    assert found["00000000000000000000.log"] == batch(0, 3) + batch(3, 2)
    assert found["00000000000000000005.log"] == batch(5, 5)


def test_refuses_to_cut_through_a_batch(folder: Path) -> None:
    tier = Tier()
    tier.add([batch(0, 5)], number=1)
    tier.add([batch(3, 5), batch(8)], number=2)
    with pytest.raises(RestoreError, match="at offset 5: a batch holds offsets on both sides; choose another copy"):
        restored(tier, folder, planned(tier, live=True))
    assert not has_topics((folder / BOOTSTRAP).read_bytes())


def test_cuts_the_end_that_another_leader_replaced(folder: Path) -> None:
    tier = Tier()
    tier.add([batch(0, 3), batch(3, 2)], number=1, lineage=[(0, 0)])
    tier.add([batch(3, 4, epoch=2)], number=2, epochs=[(2, 3)], lineage=[(0, 0), (2, 3)])
    plan = planned(tier)
    assert plan.refusals == ()
    restored(tier, folder, plan)
    assert files(folder / NAME)["00000000000000000000.log"] == batch(0, 3)


def test_a_segment_that_is_cut_at_its_end_has_no_snapshot() -> None:
    tier = two_segments()
    first, _ = planned(tier).partitions[0].segments
    assert read_snapshot(tier.store, LAYOUT, first) is not None
    assert read_snapshot(tier.store, LAYOUT, attrs.evolve(first, end=3)) is None


def test_leaves_a_segment_out(folder: Path) -> None:
    tier = two_segments()
    plan = planned(tier, without=[UUID(int=2)])
    assert plan.partitions[0].end == 5
    restored(tier, folder, plan)
    assert "00000000000000000005.log" in files(folder / NAME)
    with pytest.raises(ConfigurationError, match="has no readable segment: all are left out"):
        planned(tier, without=[UUID(int=1), UUID(int=2)])


def test_needs_a_segment_of_the_newest_lineage() -> None:
    tier = Tier()
    segment = tier.add([batch(0, 3)], number=1)
    listing = TierListing(tier.store, LAYOUT)
    listing.cache(TIP)
    tier.put(segment, ObjectKind.LEADER_EPOCH, checkpoint((4, 0)))
    with pytest.raises(ConfigurationError, match="no segment agrees with the leader epochs of the newest one"):
        read_partition(tier.store, LAYOUT, listing, TIP)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda log: log[:70] + b"\xff" + log[71:], "is damaged at byte 0"),
        (lambda log: log[:-1], "bytes, expected"),
        (lambda log: log[: len(batch(0, 3))] + b"\0" * len(batch(3, 2)), "is damaged"),
    ],
)
def test_puts_nothing_damaged_in_place(folder: Path, damage: Any, said: str) -> None:
    tier = two_segments()
    plan = planned(tier)
    key = LAYOUT.object_key(tier.cache.list_all_remote_log_segments()[0], ObjectKind.LOG)
    sound = tier.store.objects[key]
    tier.store.objects[key] = damage(sound)
    with pytest.raises(RestoreError, match=said):
        restored(tier, folder, plan)
    assert not (folder / NAME).exists()
    assert (folder / BOOTSTRAP).read_bytes() == FORMATTED
    tier.store.objects[key] = sound
    restored(tier, folder, plan)


def test_refuses_a_log_that_ends_before_its_metadata(folder: Path) -> None:
    tier = two_segments()
    plan = planned(tier)
    last = plan.partitions[0].segments[1]
    longer = attrs.evolve(last, metadata=attrs.evolve(last.metadata, end_offset=20), end=21)
    partition = attrs.evolve(plan.partitions[0], segments=(plan.partitions[0].segments[0], longer))
    with pytest.raises(RestoreError, match="ends at offset 11, expected 21"):
        restored(tier, folder, attrs.evolve(plan, partitions=(partition,)))


def test_refuses_batches_of_another_epoch(folder: Path) -> None:
    tier = Tier()
    tier.add([batch(0, 3, epoch=1)], number=1)
    with pytest.raises(RestoreError, match="epoch 0 for offset 0, whose batch has 1"):
        restored(tier, folder)


class StoppedError(Exception):
    """A restore that is killed at a step."""


def steps(monkeypatch: pytest.MonkeyPatch, stop_at: int) -> Iterator[None]:
    """Ends the process, in effect, at the ``stop_at``-th sync of a file."""
    count = iter(range(stop_at))
    sync = node_folder.os.fsync

    def fsync(descriptor: int) -> None:
        if next(count, None) is None:
            raise StoppedError
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(node_folder.os, "fsync", fsync)
        yield


def test_continues_after_a_stop_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step that is synced is a point where a kill leaves the folder."""
    tier = two_segments(open_transactions=[(40, 5)])
    ends = []
    for stop_at in range(40):
        place = tmp_path / str(stop_at)
        place.mkdir()
        (place / "meta.properties").write_text(META)
        (place / BOOTSTRAP).write_bytes(FORMATTED)
        for _ in steps(monkeypatch, stop_at):
            try:
                restored(tier, place, jobs=1)
            except StoppedError:
                ends.append(stop_at)
                assert (place / BOOTSTRAP).read_bytes() == FORMATTED or (place / WORK).exists()
        if (place / WORK).exists() or stop_at in ends:
            restored(tier, place)
        assert (place / NAME / "00000000000000000011.snapshot").is_file()
        assert has_topics((place / BOOTSTRAP).read_bytes())
        assert not (place / WORK).exists()
    assert ends == list(range(len(ends)))
    assert 8 < len(ends) < 40


def test_copies_nothing_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()
    plan = planned(tier)
    with monkeypatch.context() as patched:
        patched.setattr("kafka_remote_client.restore.restorer.metadata_records", _stopped)
        with pytest.raises(StoppedError):
            restored(tier, folder, plan)
    assert (folder / NAME).is_dir()
    assert restored(tier, folder, plan).copied_bytes == 0


def _stopped(*_: object) -> None:
    raise StoppedError


def test_refuses_another_plan_in_an_unfinished_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()
    with monkeypatch.context() as patched:
        patched.setattr("kafka_remote_client.restore.restorer.metadata_records", _stopped)
        with pytest.raises(StoppedError):
            restored(tier, folder)
    with pytest.raises(RestoreError, match="has an unfinished restore of another plan"):
        restored(tier, folder, planned(tier, without=[UUID(int=2)]))


def test_refuses_a_folder_that_was_not_formatted(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match=r"has no meta\.properties or no bootstrap\.checkpoint: format it"):
        restored(two_segments(), tmp_path)


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
    with pytest.raises(RestoreError, match="a node has started in it; format a new folder"):
        restored(two_segments(), folder)


@pytest.mark.parametrize("name", [NAME, "log-start-offset-checkpoint"])
def test_refuses_a_folder_with_files_of_its_own(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    with pytest.raises(RestoreError, match=f"is in use: it has {name}"):
        restored(two_segments(), folder)


def test_refuses_a_second_restore(folder: Path) -> None:
    restored(two_segments(), folder)
    with pytest.raises(RestoreError, match="has restored topics already"):
        restored(two_segments(), folder)


def test_refuses_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(folder)._replace(free=10)
    monkeypatch.setattr(node_folder.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(RestoreError, match="has 10 bytes free, the logs have"):
        restored(two_segments(), folder)


def test_reports_what_the_file_system_refuses(folder: Path) -> None:
    (folder / WORK).write_text("")  # a file in the way
    with pytest.raises(RestoreError, match=f"cannot write .*{WORK}"):
        restored(two_segments(), folder)


def test_names_topics_with_their_partitions(folder: Path) -> None:
    """A partition without a tier is created empty, in epoch 0."""
    tier = two_segments()
    found = read_partition(tier.store, LAYOUT, TierListing(tier.store, LAYOUT), TIP)
    count = TIP.partition + 2
    plan = plan_restore([found], RestoreRequest(CONFIGS, partition_counts={TIP.topic: count}), 0)
    restorer = Restorer(tier.store, LAYOUT, plan, CONFIGS)
    (topic,) = restorer._topics()
    assert [(one.number, one.leader_epoch) for one in topic.partitions] == [
        (number, 3 if number == TIP.partition else 0) for number in range(count)
    ]
    assert topic.topic_id == TIP.topic_id
