"""What a shim needs to know a metadata topic of up to 1,000,000 segments: time to read it, memory, and the time of a look-up.

    python -m tests.benchmarks.metadata_scale [--json FILE] [--segments 10000 100000 1000000] [--keys segment]

``--keys`` says what keys the records have: ``none``, as today, or those of one of the schemas of KIP-1266.

A generator encodes the records of the topic, two for each segment, in the order in which brokers write them: segment n of all
partitions before segment n + 1 of any. They go through the follower's decoder and store, without a broker and without
librdkafka. There are 100 segments in each partition and 100 partitions in each topic. Each size has a process of its own.

=================== =================================================================================================
figure              is
=================== =================================================================================================
``seconds``         CPU time to decode and apply all records; generating them does not count
``bytes``           resident memory for each segment, above that of a process without any
``look_up_us``      median microseconds to find the segment of an offset by topic id, partition and epoch
=================== =================================================================================================

Prints JSON. The exit status is 1 with one line for each missed target of the largest size.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import attrs

from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.metadata_keys import EndOffsetKey, SegmentKey
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.benchmarks.engine_reading import memory
from tests.benchmarks.metadata_topics import EPOCH, RECORDS, generated_partition, look_up, missed_targets
from tests.benchmarks.running import ROOT, machine
from tests.support.metadata_keys import write_key

__all__ = ["KEYS", "TARGETS", "measured", "missed"]

TARGETS = {"seconds": 20.0, "bytes": 1_536.0, "look_up_us": 50.0}
"""At most, at 1,000,000 segments in 10,000 partitions: 1,000,000 events in 10 s."""
KEYS = ("none", "segment", "end-offset")
"""The schemas of ``metadata_keys``."""
_SIZES = [10_000, 100_000, 1_000_000]
_PER_PARTITION = 100
_LOOK_UPS = 5_000


def missed(figures: dict[str, float]) -> list[str]:
    """One line for each figure above its target."""
    return missed_targets(figures, TARGETS)


def _key(keys: str, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> bytes | None:
    tip, segment = event.topic_id_partition, event.remote_log_segment_id.id
    if keys == "segment":
        return write_key(SegmentKey(tip.topic_id, tip.partition, segment, event.state))
    if keys == "end-offset":
        update = isinstance(event, RemoteLogSegmentMetadataUpdate)
        epoch = event.broker_leader_epoch
        return write_key(EndOffsetKey(tip.topic_id, tip.topic, tip.partition, event.end_offset, epoch, update))
    return None


def _records(partitions: int, number: int, dice: random.Random, keys: str) -> Iterator[tuple[bytes | None, bytes]]:
    """The records of one segment of each partition, key and value."""
    serde, start, now = RemoteLogMetadataSerde(), number * RECORDS, 1_700_000_000_000 + number
    for partition in range(partitions):
        segment = RemoteLogSegmentId(generated_partition(partition), UUID(int=dice.getrandbits(128)))
        end, epoch = start + RECORDS - 1, EPOCH if keys == "end-offset" else UNKNOWN_EPOCH
        started = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=start,
            end_offset=end,
            max_timestamp_ms=now,
            broker_id=1,
            event_timestamp_ms=now,
            segment_leader_epochs=(EpochEntry(EPOCH, start),),
            segment_size_in_bytes=1 << 29,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            broker_leader_epoch=epoch,
        )
        yield _key(keys, started), serde.serialize(started)
        finished = RemoteLogSegmentMetadataUpdate(segment, 1, now, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        if keys == "end-offset":
            finished = attrs.evolve(finished, broker_leader_epoch=epoch, end_offset=end)
        yield _key(keys, finished), serde.serialize(finished)


def measured(segments: int, keys: str = "none") -> dict[str, float]:
    """The figures of this process. ``segments``: a multiple of 100. ``keys``: one of KEYS."""
    dice, serde, store = random.Random(segments), RemoteLogMetadataSerde(), RemoteLogMetadataStore()
    partitions = segments // _PER_PARTITION
    before, seconds = memory("VmRSS"), 0.0
    for number in range(_PER_PARTITION):
        records = list(_records(partitions, number, dice, keys))
        began = time.process_time()
        for key, value in records:
            event = serde.read(key, value)
            if isinstance(event, SegmentKey | EndOffsetKey):
                raise RuntimeError(f"the record of {event} has no value")
            store.apply(event, keyed=key is not None)
        seconds += time.process_time() - began
        del records
    gc.collect()
    nbytes = (memory("VmRSS") - before) / segments
    took = []
    for _ in range(_LOOK_UPS):
        tip, offset = generated_partition(dice.randrange(partitions)), dice.randrange(_PER_PARTITION * RECORDS)
        took.append(look_up(store, tip, offset))
    return {"seconds": seconds, "bytes": nbytes, "look_up_us": statistics.median(took)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file to write the JSON to as well")
    parser.add_argument("--segments", type=int, nargs="+", default=_SIZES)
    parser.add_argument("--keys", choices=KEYS, default="none")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, given.keys)))
        return 0
    figures: dict[str, dict[str, float]] = {}
    for size in given.segments:
        command = [sys.executable, "-m", "tests.benchmarks.metadata_scale", "--one", str(size), "--keys", given.keys]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        figures[str(size)] = json.loads(done.stdout)
    lines = missed(figures[str(max(given.segments))])
    text = json.dumps({"machine": machine(), "keys": given.keys, "figures": figures, "missed": lines}, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")
    print(*lines, sep="\n", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
