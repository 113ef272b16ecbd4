"""What is lost when a tier's logs are planted in a topic of a running cluster, which the restore refuses to do.

The topic is new, so its leader begins in epoch 0. The planted batches have the epochs of the lost cluster, and the broker drops
all entries of its epoch checkpoint that conflict. See docs/decisions/0016-restore-copies-to-new-nodes.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.restore import files
from tests.support.formatted_broker import formatted_broker
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from tests.tiered_cluster.golden_logs import segment_paths
from tests.tiered_kafka.clients import plain, produce

pytestmark = pytest.mark.broker

PARTITION, TOPIC = "epochs-0", "epochs"
END_OFFSET = 1020
"""Of the golden tier. Its epochs 0, 2 and 4 begin at the offsets 0, 370 and 740."""
LINEAGE = (EpochEntry(0, 0), EpochEntry(2, 370), EpochEntry(4, 740))


def plant(folder: Path) -> None:
    """Replaces the empty log of a partition; its ``partition.metadata`` stays, with the topic's new id."""
    for path in folder.iterdir():
        if path.name != files.PARTITION_METADATA:
            path.unlink()
    for path in segment_paths(PARTITION):
        (folder / f"{path.name[:20]}.log").write_bytes(path.read_bytes())
    (folder / files.LEADER_EPOCHS).write_bytes(files.leader_epoch_checkpoint(LINEAGE))


def epochs(broker: KafkaBroker) -> tuple[EpochEntry, ...]:
    lines = (broker.local_log(TOPIC) / files.LEADER_EPOCHS).read_text().splitlines()[2:]
    return tuple(EpochEntry(*map(int, line.split())) for line in lines)


def test_a_running_cluster_drops_the_epochs_of_a_planted_log(tmp_path: Path) -> None:
    with formatted_broker(tmp_path / "broker") as broker:
        broker.start()
        broker.create_topic(TOPIC, retention_ms="-1", tiered=False)
        broker.stop(patience=60)
        plant(broker.local_log(TOPIC))
        broker.start()

        def leads() -> bool:
            try:
                return broker.offsets(TOPIC).high_watermark == END_OFFSET
            except RuntimeError:  # metadata may name the leader shortly before it leads the partition
                return False

        wait_until(leads, "the planted log to have a leader", seconds=120)
        rows = plain(broker, TOPIC)
        assert [row[2] for row in rows if row[0] in {0, 370, 740}] == [0, 2, 4], "the batches keep their epochs"
        assert (len(rows), rows[-1][0]) == (END_OFFSET, END_OFFSET - 1), "the records are there"
        produce(broker, TOPIC, 1)
        first, leader = epochs(broker)
        # All planted records count as epoch 0. The next one has an epoch below that of the record before it.
        assert (first, leader.start_offset) == (LINEAGE[0], END_OFFSET)
        assert plain(broker, TOPIC)[-1][:3:2] == (END_OFFSET, leader.epoch)
        assert leader.epoch < LINEAGE[-1].epoch
