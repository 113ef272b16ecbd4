"""A real broker's cleaner and the model's leave the same of the same logs, round by round.

A broker writes the logs and cleans them three times, with new records before each round. The model appends the same batches and
cleans with the broker's time, which is in the delete horizons. Equal are: segments, all fields of the batches that stay, their
records, indexes, and byte for byte all batches without compression. What differs:

- a compressed batch that was written again: batchLength, crc and the compressed records, because compressors make different
  bytes of the same records. Decompressed they are equal.
- the offset and time indexes of such segments, for the positions in them.

References: Kafka's Cleaner, CleanedTransactionMetadata.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import attrs
import pytest
from confluent_kafka import Producer

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.tiered_cluster.batches import Batch, Codec, parse_batches, records_of
from kafka_remote_client.tiered_cluster.cleaner import cleaned
from kafka_remote_client.tiered_cluster.log import PartitionLog, Segment, TopicConfig
from kafka_remote_client.tiered_cluster.segment_files import FileKind, segment_files
from tests.support.compacted_topic import change_topics, wait_until_cleaned
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

SEGMENT_BYTES, INDEX_INTERVAL = 2_500, 1024
ROUNDS, KEYS = 3, 40
NEVER_MS = 9_000_000_000_000
"""A min.compaction.lag.ms above any time: nothing is cleaned."""
PATIENCE_SECONDS = 120
LOGS = {
    "plain": ({"delete_retention_ms": "0"}, ("none",)),
    "codecs": ({"delete_retention_ms": "0"}, ("gzip", "snappy", "lz4", "zstd")),
    "append-time": ({"delete_retention_ms": "3600000", "message_timestamp_type": "LogAppendTime"}, ("none", "lz4")),
}
"""Settings of a topic under Kafka's names, with ``_`` for ``.``, and the codecs of its producers."""


class Writer:
    """Two transactional producers, an idempotent one and one without an id. Keys are far apart, some records are tombstones.

    In the first round alone, the last transaction of a producer aborts, and the idempotent producer writes.
    """

    def __init__(self, broker: KafkaBroker, topic: str, codecs: tuple[str, ...], seed: int) -> None:
        self._topic = topic
        self._random = random.Random(seed)
        self._number = 0
        self._now_ms = SystemClock().time_ms()  # of producers that the broker has not forgotten
        names = {"transactional.id": f"{topic}-0"}, {"transactional.id": f"{topic}-1"}, {"enable.idempotence": True}, {}
        shared = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "log_level": 0}
        self._transactional, self._aborting, self._idempotent, self._simple = (
            Producer({**shared, **name, "compression.type": codecs[number % len(codecs)]}) for number, name in enumerate(names)
        )
        for producer in (self._transactional, self._aborting):
            producer.init_transactions(PATIENCE_SECONDS)

    def write(self, turn: int) -> None:
        if turn == 0:
            self._records(self._idempotent, range(0, KEYS, 3))
            self._transaction(self._aborting, range(5), commit=False)
        for part in range(4):
            self._transaction(self._transactional, range(part, KEYS, 2 + part), commit=part % 2 == 0)
            self._records(self._simple, range(part, KEYS, 3))

    def _transaction(self, producer: Producer, keys: range, *, commit: bool) -> None:
        producer.begin_transaction()
        self._records(producer, keys)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_SECONDS)

    def _records(self, producer: Producer, keys: range) -> None:
        for key in keys:
            self._number += 1
            name = b"once-%d" % self._number if self._number % 17 == 0 else b"key-%d" % key
            value = None if self._random.random() < 0.2 else self._random.randbytes(self._random.randrange(100))
            at = self._now_ms + self._random.randrange(1000)
            producer.produce(self._topic, value, name, 0, timestamp=at, headers={"n": b"%d" % self._number})
            if self._random.random() < 0.1:
                assert producer.flush(PATIENCE_SECONDS) == 0  # ends the batch
        assert producer.flush(PATIENCE_SECONDS) == 0


@attrs.frozen
class Capture:
    """The files of a partition on the broker's disk, by base offset and kind. Indexes of the active segment are not final."""

    files: Mapping[int, Mapping[FileKind, bytes]]

    @staticmethod
    def of(folder: Path) -> Capture:
        bases = sorted(int(path.stem) for path in folder.glob("*.log"))
        kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
        named = {base: {kind: folder / f"{base:020}{kind.value}" for kind in kinds} for base in bases}
        return Capture(
            {base: {kind: path.read_bytes() for kind, path in found.items() if path.exists()} for base, found in named.items()}
        )

    def batches(self) -> list[Batch]:
        return [batch for found in self.files.values() for batch in parse_batches(found[FileKind.LOG])]


@attrs.frozen
class CleanedLog:
    """``rounds``: before and after each round."""

    delete_retention_ms: int
    log_append_time: bool
    rounds: list[tuple[Capture, Capture]] = attrs.field(factory=list)


def write_and_clean(broker: KafkaBroker, seed: int = 1) -> dict[str, CleanedLog]:
    run, logs, writers = uuid4().hex[:8], {}, {}
    topics = {name: f"cleaner-{name}-{run}" for name in LOGS}
    for name, (config, codecs) in LOGS.items():
        broker.create_topic(
            topics[name],
            segment_bytes=SEGMENT_BYTES,
            tiered=False,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0.001",
            min_compaction_lag_ms=str(NEVER_MS),
            **config,
        )
        writers[name] = Writer(broker, topics[name], codecs, seed)
        logs[name] = CleanedLog(int(config["delete_retention_ms"]), "message_timestamp_type" in config)
    for turn in range(ROUNDS):
        before = {}
        for name, topic in topics.items():
            writers[name].write(turn)
            wait_until(lambda one=topic: _is_decided(broker, one), f"the last marker of {topic}", seconds=PATIENCE_SECONDS)
            before[name] = Capture.of(broker.local_log(topic))
        change_topics(broker, topics.values(), {"min.compaction.lag.ms": "0"})
        for topic in topics.values():
            wait_until_cleaned(broker, topic)
        change_topics(broker, topics.values(), {"min.compaction.lag.ms": str(NEVER_MS)})
        for name, topic in topics.items():
            logs[name].rounds.append((before[name], Capture.of(broker.local_log(topic))))
    for topic in topics.values():
        broker.delete_topic(topic)
    return logs


def _is_decided(broker: KafkaBroker, topic: str) -> bool:
    """Whether all markers are there: a producer's commit returns before they are."""
    offsets = broker.offsets(topic)
    return offsets.last_stable == offsets.high_watermark


@pytest.fixture(scope="module")
def logs(running_broker: KafkaBroker) -> dict[str, CleanedLog]:
    return write_and_clean(running_broker)


def round_time(log: CleanedLog, before: Capture, after: Capture) -> int:
    """When the broker cleaned: the new delete horizons, which are all equal, without delete.retention.ms."""
    horizons = [{batch.delete_horizon for batch in capture.batches()} for capture in (after, before)]
    (new,) = horizons[0] - horizons[1]
    assert new is not None
    return new - log.delete_retention_ms


def compare(mine: Segment, found: Mapping[FileKind, bytes]) -> bool:
    """Whether the segments are equal byte for byte. Fails unless they are equal but for compression."""
    theirs = parse_batches(found[FileKind.LOG])
    assert [attrs.evolve(batch, data=b"") for batch in mine.batches] == [attrs.evolve(batch, data=b"") for batch in theirs]
    for batch, one in zip(mine.batches, theirs, strict=True):
        assert records_of(batch) == records_of(one)
        assert batch.data == one.data or batch.codec is not Codec.NONE
    return mine.log == found[FileKind.LOG]


@pytest.mark.parametrize("name", LOGS)
def test_model_cleans_as_the_broker_does(logs: dict[str, CleanedLog], name: str) -> None:
    captured = logs[name]
    config = TopicConfig(
        SEGMENT_BYTES,
        index_interval_bytes=INDEX_INTERVAL,
        log_append_time=captured.log_append_time,
        delete_retention_ms=captured.delete_retention_ms,
    )
    log = PartitionLog(config).elected(0)
    removed = 0
    for before, after in captured.rounds:
        for batch in before.batches():
            if batch.base_offset >= log.end_offset:
                log = log.appended([batch], batch.max_timestamp)
        log = log.replicated()
        assert [segment.base_offset for segment in log.segments] == [*before.files]
        counted = sum(batch.count for segment in log.segments for batch in segment.batches)
        log = cleaned(log, round_time(captured, before, after))
        removed += counted - sum(batch.count for segment in log.segments for batch in segment.batches)
        assert [segment.base_offset for segment in log.segments] == [*after.files]
        for number, (segment, found) in enumerate(zip(log.segments[:-1], after.files.values(), strict=False)):
            same = compare(segment, found)
            made = segment_files(log, number)
            kinds = [FileKind.TRANSACTION_INDEX, *([FileKind.OFFSET_INDEX, FileKind.TIME_INDEX] if same else [])]
            for kind in kinds:
                assert made.get(kind, b"") == found.get(kind, b""), (segment.base_offset, kind)
        assert log.segments[-1].log == after.files[log.segments[-1].base_offset][FileKind.LOG]
    assert removed > 100


def test_the_rounds_have_what_a_cleaner_treats_apart(logs: dict[str, CleanedLog]) -> None:
    """What the comparison would otherwise not be about."""
    batches = [batch for log in logs.values() for _, after in log.rounds for batch in after.batches()]
    assert any(not batch.count for batch in batches), "no empty batch is kept"
    assert any(batch.delete_horizon is not None and batch.control for batch in batches), "no marker waits for its horizon"
    assert any(0 < batch.count <= batch.last_offset - batch.base_offset for batch in batches), "no batch lost some records"
    for name in ("plain", "codecs"):
        first, last = (sum(batch.control for batch in after.batches()) for _, after in logs[name].rounds[::2])
        assert last < first * ROUNDS, "no marker goes"
    merged = [len(before.files) - len(after.files) for log in logs.values() for before, after in log.rounds]
    assert max(merged) > 0, "no segments are joined"
