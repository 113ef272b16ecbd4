"""What the broker of the tests finds on its own disk and in its tier."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.kafka_broker import KafkaBroker

OLD, NEW = "-Q1QnPbcQ6CgRNLjOoJYZQ", "e8Pz-Xk1TuaV2GkWv4pM9w"


def test_a_recreated_topic_has_only_its_own_segments(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker", owner=os.getpid())
    for topic_id in (OLD, NEW):
        (directory := broker.store_directory / "kafka-tiered-storage" / f"t-0-{topic_id}").mkdir(parents=True)
        (directory / f"{topic_id}.log").touch()
    assert len(broker.remote_segments("t")) == 2
    broker.local_log("t").mkdir(parents=True)
    (broker.local_log("t") / "partition.metadata").write_text(f"version: 0\ntopic_id: {NEW}")
    assert [segment.stem for segment in broker.remote_segments("t")] == [NEW]
    assert [path.name for path in broker.copy_of_tier("t", tmp_path / "copy").iterdir()] == [f"{NEW}.log"]
