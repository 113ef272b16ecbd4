"""Streams that the embedded cluster serves as a tier: batches written byte by byte, in segments, with their transactions.

The broker gets them as a follower gets them, whatever they are, and copies them to the tier. A few records after them are its
local log. The plain consumer reads the stream through the broker, the consumer under test from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.records.input_stream import RemoteLogInputStream
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.tiered_cluster import epochs
from kafka_remote_client.tiered_cluster.indexes import AbortedEntry
from kafka_remote_client.tiered_cluster.log import Segment as ModelSegment
from kafka_remote_client.tiered_cluster.producers import ProducerEntry, ProducerState
from kafka_remote_client.tiered_cluster.stored_batches import stored_batches
from kafka_remote_client.tiered_kafka.topics import Topics
from tests.support.batches import CODECS, Rec, abort_marker, batch, commit_marker
from tests.support.embedded_topics import tiered_segments
from tests.support.history import History, Outcome, Produced

__all__ = ["LOCAL_RECORDS", "Segment", "Stream", "Transactions", "Written", "mixed_segments", "write_stream"]

LOCAL_RECORDS = 20
_TRANSACTIONAL = 0x10
_LOG_APPEND_TIME = 0x08
_START_MS = 1_700_000_000_000


@attrs.define
class Written:
    """A record as it was written, and the end of its transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    outcome: Outcome = Outcome.PLAIN


@attrs.frozen
class Segment:
    """Batches, and the transactions whose ABORT marker is among them: producer, first offset, marker's offset, LSO.

    ``still_open``: producers with an open transaction at the segment's end, with its first offset. ``written``: the records,
    without those of batches that the caller made.
    """

    batches: tuple[bytes, ...]
    aborted: tuple[tuple[int, int, int, int], ...] = ()
    still_open: tuple[tuple[int, int], ...] = ()
    written: tuple[Written, ...] = attrs.field(default=(), repr=False)


@attrs.frozen
class Stream:
    """A partition as it was written: its topic, the keys of its segments' logs with their bytes, the tier's end, records."""

    topic: str
    logs: dict[str, bytes] = attrs.field(repr=False)
    tiered_end: int
    written: tuple[Written, ...] = attrs.field(default=(), repr=False)

    def note(self, history: History) -> None:
        """Adds what was produced."""
        for one in self.written:
            history.add(Produced, topic=self.topic, partition=0, **attrs.asdict(one))

    def batches(self, key: str) -> list[bytes]:
        """The batches of one log."""
        log = self.logs[key]
        return [log[header.position : header.end] for header in RemoteLogInputStream(log)]

    @property
    def keys(self) -> list[str]:
        """The logs' keys, in the order of their offsets."""
        return list(self.logs)


class Transactions:
    """Writes batches one after the other, and tracks offsets and open transactions."""

    def __init__(self, epoch: int = 0, start: int = 0) -> None:
        self.next_offset = start
        self.epoch = epoch
        self.segments: list[Segment] = []
        self._batches: list[bytes] = []
        self._aborted: list[tuple[int, int, int, int]] = []
        self._open: dict[int, int] = {}
        self._written: list[Written] = []
        self._undecided: dict[int, list[Written]] = {}

    def records(
        self, count: int, *, codec: str = "none", producer: int = -1, size: int = 40, append_time: bool = False, gap: int = 0
    ) -> None:
        """Adds a batch of ``count`` records, with ``producer`` in its transaction. ``gap``: unused offsets at its end."""
        base = self.next_offset
        made = [self._record(base, n, size) for n in range(count)]
        attributes = (_TRANSACTIONAL if producer >= 0 else 0) | (_LOG_APPEND_TIME if append_time else 0)
        self._add(
            batch(
                base,
                made,
                codec=CODECS[codec],
                attributes=attributes,
                producer=producer,
                epoch=self.epoch,
                timestamp=_START_MS + base,
                max_timestamp=_START_MS + base + count,
                last_delta=count - 1 + gap,
            ),
            count + gap,
        )
        self._write(base, made, producer)
        if producer >= 0:
            self._open.setdefault(producer, base)

    def empty(self, offsets: int) -> None:
        """Adds a batch whose records compaction removed; its offsets remain."""
        self._add(batch(self.next_offset, [], last_delta=offsets - 1, epoch=self.epoch, timestamp=_START_MS), offsets)

    def hole(self, offsets: int) -> None:
        """Skips offsets, as compaction does when it removes batches."""
        self.next_offset += offsets

    def raw(self, data: bytes, offsets: int, made: Sequence[Rec] = ()) -> None:
        """Adds the caller's bytes for that many ``offsets``, with the records ``made``."""
        self._write(self.next_offset, made)
        self._add(data, offsets)

    def commit(self, producer: int) -> None:
        """The producer's COMMIT marker."""
        self._open.pop(producer, None)
        self._decide(producer, Outcome.COMMITTED)
        self._add(commit_marker(self.next_offset, producer, epoch=self.epoch, timestamp=_START_MS), 1)

    def abort(self, producer: int) -> None:
        """The producer's ABORT marker, and its entry in the segment's index."""
        first = self._open.pop(producer, None)
        self._decide(producer, Outcome.ABORTED)
        marker = self.next_offset
        self._add(abort_marker(marker, producer, epoch=self.epoch, timestamp=_START_MS), 1)
        if first is not None:
            stable = min(self._open.values(), default=marker + 1)
            self._aborted.append((producer, first, marker, stable))

    def roll(self) -> None:
        """Ends the segment."""
        still_open, written = tuple(self._open.items()), tuple(self._written)
        self.segments.append(Segment(tuple(self._batches), tuple(self._aborted), still_open, written))
        self._batches, self._aborted, self._written = [], [], []

    def _write(self, base: int, made: Sequence[Rec], producer: int = -1) -> None:
        for rec in made:
            headers = tuple((name.decode(), value) for name, value in rec.headers)
            written = Written(base + rec.offset, rec.key, rec.value, headers)
            self._written.append(written)
            if producer >= 0:
                written.outcome = Outcome.OPEN
                self._undecided.setdefault(producer, []).append(written)

    def _decide(self, producer: int, outcome: Outcome) -> None:
        for written in self._undecided.pop(producer, []):
            written.outcome = outcome

    def _add(self, data: bytes, offsets: int) -> None:
        self._batches.append(data)
        self.next_offset += offsets

    def _record(self, base: int, number: int, size: int) -> Rec:
        offset = base + number
        headers = ((b"n", b"%d" % offset), (b"null", None)) if offset % 3 == 0 else ()
        value = None if offset % 7 == 3 else (b"value %d " % offset) * (1 + size // 12)
        return Rec(number, None if offset % 11 == 5 else b"key-%d" % offset, value, headers, number)


def mixed_segments(epoch: int) -> list[Segment]:
    """Every codec, both kinds of time, headers, nulls; committed and aborted transactions, also interleaved across
    batches, ranges and segments; a batch that is larger than a range.
    """
    log = Transactions(epoch)
    for number, codec in enumerate(CODECS):
        log.records(6, codec=codec)
        log.records(5, codec=codec, producer=100)
        log.records(4, append_time=number % 2 == 0)
        if number % 2:
            log.commit(100)
        else:
            log.abort(100)
    log.roll()
    log.records(8, size=60)
    log.records(6, producer=200)
    log.records(5, producer=201, codec="zstd")
    log.records(7, size=60)
    log.roll()  # both are open here
    log.records(6, producer=200)
    log.abort(200)
    log.records(4, producer=201)
    log.records(5, size=60)
    log.commit(201)
    log.records(30, size=100)  # larger than a range
    log.roll()
    for number in range(6):
        log.records(6, size=60, producer=-1 if number % 2 else 300)
    log.abort(300)
    log.roll()
    for _ in range(4):
        log.records(9, size=50)
    log.roll()
    return log.segments


def write_stream(cluster: EmbeddedCluster, topic: str, segments: Sequence[Segment], *, local: int = LOCAL_RECORDS) -> Stream:
    """Creates the topic's partition 0 from these segments, and ``local`` records after them that are not tiered."""
    kafka: Any = cluster.kafka
    kafka.create_topic(topic, settings={"index.interval.bytes": "1"})
    for segment in segments:
        kafka._call(partial(_append, kafka._topics, topic, segment))
        kafka.tier_now(topic)
    found = tiered_segments(cluster, topic)
    layout = LocalTieredStorageLayout()
    logs = {layout.object_key(one, ObjectKind.LOG): b"".join(made.batches) for one, made in zip(found, segments, strict=True)}
    written = [one for segment in segments for one in segment.written]
    tiered_end = found[-1].end_offset + 1
    made = [(b"local-%d" % n, b"%d" % n) for n in range(tiered_end, tiered_end + local)]
    cluster.produce(topic, made)
    written += [Written(tiered_end + n, *record) for n, record in enumerate(made)]
    return Stream(topic, logs, tiered_end, tuple(written))


def _append(topics: Topics, name: str, segment: Segment) -> None:
    """Appends one sealed segment as a follower does: offsets, epochs and bytes stay as they are."""
    topic: Any = topics.named(name)
    batches = tuple(stored_batches(b"".join(segment.batches)))
    start = batches[0].base_offset
    log = topic.partitions[0].log
    if start < log.end_offset:  # the leader of this epoch never had the records from here on
        topics.elect(topic, 0, end_offset=start)
        log = topic.partitions[0].log
    lineage = log.lineage
    for one in batches:
        if one.leader_epoch > lineage[-1].epoch:  # old formats have no epoch
            lineage = epochs.assigned(lineage, one.leader_epoch, one.base_offset)
    aborted = tuple(AbortedEntry(*entry) for entry in segment.aborted)
    entries = tuple(ProducerEntry(producer, 0, 0, first, open_since=first) for producer, first in segment.still_open)
    active = ModelSegment(start, batches, aborted, log.producers)
    log = attrs.evolve(log, segments=(*log.segments[:-1], active), lineage=lineage, producers=ProducerState(entries))
    topics._set_log(topic, 0, log.rolled().replicated())
