"""The same batches give byte for byte the files that a real broker wrote.

Fields that differ, each asserted below:

- A compressed batch: batchLength, crc and the compressed records, because compressors make different bytes of the same records.
  Decompressed they are equal. Snappy of the Java client is equal as it is.
- The offset index of a segment that was active at a restart lacks one entry in the broker's file: a broker that starts counts
  ``index.interval.bytes`` from zero again.
"""

from __future__ import annotations

import pytest

from kafka_remote_client.tiered_cluster.batches import (
    Batch,
    Codec,
    Producer,
    decompress,
    marker_of,
    new_batch,
    new_marker,
    placed,
    records_of,
    stamped,
)
from kafka_remote_client.tiered_cluster.segment_files import FileKind, segment_files
from tests.tiered_cluster.golden_logs import TOPICS, batches_of, replayed, segment_paths

ACTIVE_AT_RESTART = {("epochs-0", 220), ("epochs-1", 380), ("epochs-1", 720)}
CHECKSUM, RECORDS = slice(17, 21), 61


def written_again(batch: Batch) -> Batch:
    """The batch that the model's producer, coordinator and leader make of its records."""
    records = records_of(batch)
    producer = Producer(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.transactional)
    if batch.control:
        kind, coordinator_epoch = marker_of(batch)
        made = new_marker(kind, producer, records[0].timestamp, coordinator_epoch=coordinator_epoch)
    else:
        made = new_batch(records, codec=batch.codec, producer=producer, base_timestamp=batch.base_timestamp)
    made = stamped(made, batch.max_timestamp) if batch.log_append_time else made
    return placed(made, batch.base_offset, batch.leader_epoch)


@pytest.mark.parametrize("partition", TOPICS)
def test_writes_the_batches_of_real_producers(partition: str) -> None:
    for batch in batches_of(partition):
        made = written_again(batch)
        if batch.codec is Codec.NONE or partition == "codec-snappy-java-0":
            assert made.data == batch.data
        else:
            assert (made.data[:8], made.data[12:17]) == (batch.data[:8], batch.data[12:17])
            assert made.data[CHECKSUM.stop : RECORDS] == batch.data[CHECKSUM.stop : RECORDS]
            assert decompress(made.codec, made.payload) == decompress(batch.codec, batch.payload)


@pytest.mark.parametrize("partition", TOPICS)
def test_rolls_and_writes_the_files_of_a_real_broker(partition: str) -> None:
    log = replayed(partition)
    paths = segment_paths(partition)
    assert [segment.base_offset for segment in log.segments][: len(paths)] == [int(path.name[:20]) for path in paths]
    for number, path in enumerate(paths):
        files = segment_files(log, number)
        found = {kind: path.with_suffix(kind.value) for kind in FileKind}
        assert set(files) == {kind for kind, path in found.items() if path.exists()}
        for kind, content in files.items():
            expected = found[kind].read_bytes()
            if kind is FileKind.OFFSET_INDEX and (partition, log.segments[number].base_offset) in ACTIVE_AT_RESTART:
                assert len(content) == len(expected) + 8
            else:
                assert content == expected, f"{path.name}{kind}"
