"""How a shim's follower starts and restarts with a metadata topic of up to 1,000,000 segments on a real broker.

    python -m tests.benchmarks.metadata_follower [--json FILE] [--segments 10000 100000 1000000] [--partitions 100 10000]

Each cell has a topic of 50 partitions on one broker, with two records for each segment in the order in which brokers write:
segment n of all partitions before segment n + 1 of any. A process follows it from the start and writes a snapshot; another
process restarts from that.

=================== =================================================================================================
figure              is
=================== =================================================================================================
``start_seconds``   wall time from the start of the follower until all is read, without a snapshot
``start_cpu``       CPU seconds of the process meanwhile, of all its threads
``start_bytes``     resident memory for each segment then, above that before the follower
``snapshot_bytes``  size of the snapshot for each segment
``restart_seconds`` wall time from the start of the follower until all is read, with the snapshot
``restart_bytes``   resident memory for each segment after the look-ups that follow
``look_up_us``      median microseconds to find the segment of an offset, after the start
``restart_look_up`` the same after the restart; each partition was looked up before
``first_look_up``   median microseconds of the first look-up of a partition after the restart
=================== =================================================================================================

Prints JSON. The exit status is 1 with one line for each missed target of the largest cell.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

from confluent_kafka import Producer

from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.follower import RemoteLogMetadataFollower
from kafka_remote_client.remote_log.metadata_snapshots import MetadataSnapshots
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.remote_log.snapshot_folder import SNAPSHOT_FILE
from tests.benchmarks.engine_reading import memory
from tests.benchmarks.metadata_topics import EPOCH, RECORDS, generated_partition, look_up, missed_targets
from tests.benchmarks.running import ROOT, machine
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

__all__ = ["TARGETS", "missed", "templates"]

TARGETS = {
    "start_seconds": 60.0,
    "start_bytes": 1_536.0,
    "restart_seconds": 10.0,
    "restart_bytes": 1_536.0,
    "look_up_us": 50.0,
    "restart_look_up": 50.0,
}
"""At most, at 1,000,000 segments in 10,000 partitions."""
_SEGMENTS = [10_000, 100_000, 1_000_000]
_PARTITIONS = [100, 10_000]
_METADATA_PARTITIONS = 50
_LOOK_UPS = 5_000
_PATIENCE_SECONDS = 1_800.0
_QUEUED = 100_000
_ID, _OFFSETS, _EPOCH_OFFSET = struct.Struct(">16s"), struct.Struct(">qq"), struct.Struct(">q")


def missed(figures: dict[str, float]) -> list[str]:
    """One line for each figure above its target."""
    return missed_targets(figures, TARGETS)


class Template:
    """The two records of a copied segment of one partition, for any number and id of the segment."""

    def __init__(self, tip: TopicIdPartition) -> None:
        serde, mark = RemoteLogMetadataSerde(), UUID(int=0xA5A5_A5A5_A5A5_A5A5_5A5A_5A5A_5A5A_5A5A)
        segment = RemoteLogSegmentId(tip, mark)
        first = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=0,
            end_offset=0,
            max_timestamp_ms=1_700_000_000_000,
            broker_id=1,
            event_timestamp_ms=1_700_000_000_000,
            segment_leader_epochs=(EpochEntry(EPOCH, 0),),
            segment_size_in_bytes=1 << 29,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        )
        second = RemoteLogSegmentMetadataUpdate(segment, 1, 1_700_000_000_001, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        self.place = metadata_partition(tip, _METADATA_PARTITIONS)
        self._started, self._finished = bytearray(serde.serialize(first)), bytearray(serde.serialize(second))
        self._first, self._second = self._started.index(mark.bytes), self._finished.index(mark.bytes)

    def records(self, number: int, segment_id: bytes) -> tuple[bytes, bytes]:
        """Of segment ``number``, which has the offsets ``[10000 number, 10000 number + 9999]``."""
        start, at = number * RECORDS, self._first
        _ID.pack_into(self._started, at, segment_id)
        _OFFSETS.pack_into(self._started, at + 17, start, start + RECORDS - 1)
        _EPOCH_OFFSET.pack_into(self._started, at + 17 + 16 + 4 + 16 + 1 + 4, start)
        _ID.pack_into(self._finished, self._second, segment_id)
        return bytes(self._started), bytes(self._finished)


def templates(partitions: int) -> list[Template]:
    return [Template(generated_partition(number)) for number in range(partitions)]


def _fill(broker: KafkaBroker, topic: str, segments: int, partitions: int) -> None:
    broker.create_topic(topic, partitions=_METADATA_PARTITIONS, tiered=False, segment_bytes=1 << 30)
    config = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "queue.buffering.max.messages": 2 * _QUEUED}
    producer, dice = Producer({**config, "batch.size": 1 << 20, "log_level": 0}), random.Random(segments)
    made = templates(partitions)
    for number in range(segments // partitions):
        for template in made:
            for value in template.records(number, dice.randbytes(16)):
                producer.produce(topic, value, partition=template.place)
            if len(producer) > _QUEUED:
                producer.poll(0.01)
        producer.poll(0)
    if producer.flush(_PATIENCE_SECONDS):
        raise RuntimeError(f"the records of {topic} were not all produced")


def _followed(servers: str, topic: str, folder: Path, segments: int, partitions: int) -> dict[str, float]:
    """The figures of this process, which begins at the snapshot in ``folder``, if there is one."""
    config = {"bootstrap.servers": servers, "log_level": 0}
    store = RemoteLogMetadataStore()
    snapshots = MetadataSnapshots(folder, config, topic, interval=1.0)
    follower = RemoteLogMetadataFollower(config, store, topic=topic, snapshots=snapshots)
    gc.collect()
    before, began, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
    follower.start()
    if not follower.wait_settled(_PATIENCE_SECONDS) or follower.distrusted():
        raise RuntimeError("the topic was not read")
    figures = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    loaded = snapshots.metrics()["metadata_snapshot_segments_loaded"]
    if not loaded:
        wait_until(lambda: snapshots.metrics()["metadata_snapshot_writes"], "the snapshot", seconds=_PATIENCE_SECONDS)
    elif loaded != segments:
        raise RuntimeError(f"the snapshot has {loaded} segments, not {segments}")
    dice = random.Random(1)
    asked = [
        (generated_partition(number), dice.randrange(segments // partitions * RECORDS))
        for number in (dice.randrange(partitions) for _ in range(_LOOK_UPS))
    ]
    firsts = dict(reversed(asked))
    figures["first"] = statistics.median(look_up(store, tip, offset) for tip, offset in firsts.items())
    figures["look_up"] = statistics.median(look_up(store, tip, offset) for tip, offset in asked)
    gc.collect()
    figures["bytes"] = (memory("VmRSS") - before) / segments
    follower.close()
    return figures


def _measured(broker: KafkaBroker, segments: int, partitions: int) -> dict[str, float]:
    topic = f"metadata-{segments}-{partitions}"
    _fill(broker, topic, segments, partitions)
    with tempfile.TemporaryDirectory(prefix="snapshot-") as folder:
        command = [sys.executable, "-m", "tests.benchmarks.metadata_follower", "--follow"]
        command += [broker.bootstrap_servers, topic, folder, str(segments), str(partitions)]
        runs = []
        for _ in range(2):
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout))
        size = (Path(folder) / SNAPSHOT_FILE).stat().st_size
    broker.admin.delete_topics([topic])[topic].result(60)
    start, restart = runs
    return {
        "start_seconds": start["seconds"],
        "start_cpu": start["cpu"],
        "start_bytes": start["bytes"],
        "snapshot_bytes": size / segments,
        "restart_seconds": restart["seconds"],
        "restart_bytes": restart["bytes"],
        "look_up_us": start["look_up"],
        "restart_look_up": restart["look_up"],
        "first_look_up": restart["first"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file to write the JSON to as well")
    parser.add_argument("--segments", type=int, nargs="+", default=_SEGMENTS)
    parser.add_argument("--partitions", type=int, nargs="+", default=_PARTITIONS)
    parser.add_argument("--follow", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.follow:
        servers, topic, folder, segments, partitions = given.follow
        print(json.dumps(_followed(servers, topic, Path(folder), int(segments), int(partitions))))
        return 0
    figures: dict[str, dict[str, float]] = {}
    last: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="metadata-") as directory:
        broker = KafkaBroker(Path(directory) / "broker")
        try:
            broker.start()
            for segments in sorted(given.segments):
                for partitions in sorted(given.partitions):
                    last = figures[f"{segments} segments in {partitions} partitions"] = _measured(broker, segments, partitions)
        finally:
            broker.destroy()
    lines = missed(last)
    text = json.dumps({"machine": machine("confluent-kafka"), "figures": figures, "missed": lines}, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")
    print(*lines, sep="\n", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
