"""The copy into a folder of a node, from tiers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_remote_client.errors import RestoreError
from kafka_remote_client.model import AbortedTransaction, TopicPartition
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.tier_listing import TierListing
from kafka_remote_client.restore import node_folder
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP, has_topics
from kafka_remote_client.restore.partition_tier import read_partition
from kafka_remote_client.restore.restore_plan import RestoreRequest, plan_restore
from kafka_remote_client.restore.restorer import PRODUCER_ID_MARGIN, Restored, Restorer
from tests.support.new_node import CONFIGS, FORMATTED, NAME, WORK, formatted, planned, restored, two_segments
from tests.support.tier import LAYOUT, TIP, Tier, batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A formatted folder."""
    return formatted(tmp_path / "node")


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


def test_leaves_a_segment_out(folder: Path) -> None:
    tier = two_segments()
    plan = planned(tier, without=[UUID(int=2)])
    assert plan.partitions[0].end == 5
    restored(tier, folder, plan)
    assert "00000000000000000005.log" in files(folder / NAME)
    assert planned(tier, without=[UUID(int=1), UUID(int=2)]).refusals == (f"{TIP.topic}: the tier has no segment to restore",)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda log: log[:70] + b"\xff" + log[71:],
            r"is damaged at byte 0: .*; --without-segment AAAAAAAAAAAAAAAAAAAAAQ leaves it out",
        ),
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
        formatted(place)
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
        patched.setattr("kafka_remote_client.restore.restorer.with_records", _stopped)
        with pytest.raises(StoppedError):
            restored(tier, folder, plan)
    assert (folder / NAME).is_dir()
    assert restored(tier, folder, plan).copied_bytes == 0


def _stopped(*_: object) -> None:
    raise StoppedError


def test_names_topics_with_their_partitions(folder: Path) -> None:
    """A partition without a tier is created empty, in epoch 0."""
    tier = two_segments()
    found = read_partition(tier.store, LAYOUT, TierListing(tier.store, LAYOUT), TIP)
    count = TIP.partition + 2
    plan = plan_restore([found], RestoreRequest(CONFIGS, partition_counts={TIP.topic: count}), 0)
    restorer = Restorer(tier.store, LAYOUT, plan, CONFIGS)
    (topic,) = restorer._topics({TopicPartition(TIP.topic, number): (1,) for number in range(count)})
    assert [(one.number, one.leader_epoch) for one in topic.partitions] == [
        (number, 3 if number == TIP.partition else 0) for number in range(count)
    ]
    assert topic.topic_id == TIP.topic_id
