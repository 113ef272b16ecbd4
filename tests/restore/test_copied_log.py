"""The checks of copied logs, and where they are cut."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from kafka_remote_client.errors import RestoreError
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP, has_topics
from tests.support.new_node import NAME, formatted, planned, restored, two_segments
from tests.support.tier import Tier, batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A formatted folder."""
    return formatted(tmp_path / "node")


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


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
