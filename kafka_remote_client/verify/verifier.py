"""Checks a tier: plans the check, estimates its size, and yields the findings.

::

    SeenStore (one listing) ─► LayoutInspector.segments ─► judge_copy ─► check_segment, side by side ─┐
    KnownMetadata, read after the listing ─────────────────┘                                     ├─► chain of each partition
                                       cache: of the metadata, else of what the checks gathered ─┘

The listing comes first. The metadata are read later and are newer, so only objects that seem to be missing are requested again.
Memory holds names and sizes of all objects, and for each job one piece and one batch of a log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError, DirectFetchError, ObjectNotFoundError, RemoteLogError
from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.tier_listing import cache_of_uploads
from kafka_remote_client.verify.chain import chain_problems, gaps, lineage_of
from kafka_remote_client.verify.copies import CopyState, Known, judge_copy
from kafka_remote_client.verify.finding import Finding, FindingKind, Problem, Unchecked
from kafka_remote_client.verify.known_metadata import KnownMetadata
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.segment import SegmentReport, check_segment, finding_of
from kafka_remote_client.verify.stored_segment import LOG, LayoutInspector, StoredSegment

__all__ = ["NothingToVerifyError", "Summary", "TierVerifier", "VerifyRequest"]

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_BY_GAPS = {FindingKind.BATCH_CHAIN, FindingKind.METADATA_MISMATCH}
"""What a hole in a segment is, unless its topic is compacted."""


@attrs.frozen
class VerifyRequest:
    """``topics`` empty: all. ``grace_ms``: a younger copy or deletion counts as in progress."""

    topics: tuple[str, ...] = ()
    quick: bool = False
    jobs: int = 4
    allow_offset_gaps: bool = False
    grace_ms: int = 15 * 60 * 1000

    def __attrs_post_init__(self) -> None:
        arguments.whole(self.jobs, "jobs", 1)
        arguments.whole(self.grace_ms, "grace_ms", 0)


@attrs.define
class Summary:
    """Totals. ``bytes_estimated``: bytes to read. ``bytes_stored``: the size of all objects of segments.

    ``segments_checked``: segments whose objects were read. ``segments_busy``: segments with a copy or deletion in progress.
    """

    topics: int = 0
    partitions: int = 0
    segments: int = 0
    segments_checked: int = 0
    segments_busy: int = 0
    objects: int = 0
    bytes_stored: int = 0
    bytes_estimated: int = 0
    bytes_read: int = 0
    unchecked: int = 0
    findings: Counter[FindingKind] = attrs.field(factory=Counter)
    finding_bytes: Counter[FindingKind] = attrs.field(factory=Counter)

    @property
    def exit_status(self) -> int:
        """Returns 0 without findings, 1 with findings, 2 without findings if something could not be checked."""
        return 1 if self.findings else 2 if self.unchecked else 0

    def as_json(self) -> dict[str, object]:
        """The last object of ``--output json``."""
        totals = {f.name: getattr(self, f.name) for f in attrs.fields(Summary) if not f.name.startswith("finding")}
        by_kind = {
            kind.label: {"count": self.findings[kind], "bytes": self.finding_bytes[kind]}
            for kind in FindingKind
            if self.findings[kind]
        }
        verdict = ("sound", "findings", "incomplete")[self.exit_status]
        return {"type": "summary", "verdict": verdict, **totals, "findings": by_kind}


class NothingToVerifyError(ConfigurationError):
    """There is no segment, or none of a given topic. A wrong root, prefix or layout has the same effect."""


@attrs.define
class _Partition:
    """A partition's segments: those to check, and the findings so far."""

    tip: TopicIdPartition
    to_check: list[tuple[StoredSegment, RemoteLogSegmentMetadata | None]] = attrs.field(factory=list)
    findings: list[Finding] = attrs.field(factory=list)
    unchecked: list[Unchecked] = attrs.field(factory=list)
    explained: set[int] = attrs.field(factory=set)
    suspect: set[RemoteLogSegmentId] = attrs.field(factory=set)
    reports: list[SegmentReport] = attrs.field(factory=list)
    stored: dict[RemoteLogSegmentId, StoredSegment] = attrs.field(factory=dict)


class TierVerifier:
    """One check of one tier. ``store`` has the listing. ``metadata`` are read after it; None = none."""

    def __init__(
        self,
        store: SeenStore,
        inspector: LayoutInspector,
        request: VerifyRequest,
        metadata: KnownMetadata | None = None,
        *,
        compacted: Callable[[TopicIdPartition], bool] = lambda _: False,
        clock: Clock | None = None,
    ) -> None:
        """Plans the check from the listing and the metadata. Raises NothingToVerifyError.

        ``compacted``: whether a topic is, so that holes within its segments are normal; asked only if there are some.
        """
        self._store = store
        self._inspector = inspector
        self._request = request
        self._metadata = metadata
        self._compacted = compacted
        self._compacted_topics: set[UUID] = set()
        self._clock = clock or SystemClock()
        self.summary = Summary()
        self._partitions = self._plan()

    def run(self) -> Iterator[Finding | Unchecked]:
        """Yields all findings, partition by partition. The summary is complete at the end.

        Raises MissingExtraError if a package that decrypts segments is missing.
        """
        for item in self._items():
            if isinstance(item, Finding):
                self.summary.findings[item.kind] += 1
                self.summary.finding_bytes[item.kind] += item.bytes
            else:
                self.summary.unchecked += 1
            yield item
        self.summary.bytes_read = self._store.bytes_read

    def _plan(self) -> list[_Partition]:
        topics = self._request.topics
        found: dict[TopicIdPartition, _Partition] = {}
        for topic in topics or (None,):
            for stored in self._inspector.segments(self._store, topic):
                tip = stored.listed.topic_id_partition
                found.setdefault(tip, _Partition(tip)).stored[stored.listed.remote_log_segment_id] = stored
            for tip in self._metadata.partitions(topic) if self._metadata is not None else ():
                found.setdefault(tip, _Partition(tip))
        place = "the store" if self._metadata is None else "the store or the metadata topic"
        for topic in topics:
            if not any(tip.topic == topic for tip in found):
                raise NothingToVerifyError(f"found no topic {topic} in {place}")
        if not found:
            raise NothingToVerifyError(f"found no segment in {place}")
        partitions = sorted(found.values(), key=lambda one: (one.tip.topic, one.tip.topic_id, one.tip.partition))
        for partition in partitions:
            self._plan_partition(partition)
        summary = self.summary
        segments = [stored for partition in partitions for stored in partition.stored.values()]
        summary.partitions = sum(bool(partition.stored) for partition in partitions)
        summary.topics = len({partition.tip.topic_id for partition in partitions if partition.stored})
        summary.segments = len(segments)
        summary.objects = len(self._store.objects)
        summary.bytes_stored = sum(stored.nbytes for stored in segments)
        summary.bytes_estimated = sum(self._to_read(stored) for partition in partitions for stored, _ in partition.to_check)
        return partitions

    def _to_read(self, stored: StoredSegment) -> int:
        return stored.nbytes - (stored.sizes.get(LOG, 0) if self._request.quick else 0)

    def _plan_partition(self, partition: _Partition) -> None:
        if self._metadata is not None and not self._metadata.ready(partition.tip):
            partition.unchecked.append(Unchecked(str(partition.tip), "the metadata topic is inconsistent for it"))
        cache = self._trusted(partition.tip)
        known_segments = {one.remote_log_segment_id: one for one in cache.list_all_remote_log_segments()} if cache else {}
        for segment_id, stored in partition.stored.items():
            metadata = known_segments.get(segment_id)
            verdict = judge_copy(stored, self._known(segment_id, metadata))
            if isinstance(verdict, Problem) and self._changed_since_listing(stored, verdict.kind):
                verdict = CopyState.BUSY
            if verdict is CopyState.CHECK:
                partition.to_check.append((stored, metadata))
                continue
            partition.explained.add(stored.listed.start_offset)
            partition.suspect.add(segment_id)
            if isinstance(verdict, Problem):
                partition.findings.append(finding_of(stored, None, verdict))
            else:
                self.summary.segments_busy += 1
        for segment_id, known in known_segments.items():
            if segment_id not in partition.stored and known.state is _FINISHED:
                self._plan_missing(partition, known)

    def _plan_missing(self, partition: _Partition, metadata: RemoteLogSegmentMetadata) -> None:
        partition.suspect.add(metadata.remote_log_segment_id)
        try:
            key = self._inspector.layout.object_key(metadata, ObjectKind.LOG)
        except RemoteLogError as error:  # custom metadata that name no object
            partition.findings.append(_of_metadata(metadata, FindingKind.METADATA_MISMATCH, str(error), 0))
            return
        if self._exists(key):
            if key.startswith(self._inspector.prefix):
                self.summary.segments_busy += 1  # it was copied after the listing
            else:
                reason = "its objects are under another prefix (--key-prefix)"
                partition.unchecked.append(Unchecked(str(metadata.remote_log_segment_id), reason))
        elif self._is_finished(metadata.remote_log_segment_id):
            words = f"the metadata topic says that it is finished (offsets {metadata.start_offset} to {metadata.end_offset})"
            partition.findings.append(
                _of_metadata(metadata, FindingKind.MISSING_SEGMENT, words, metadata.segment_size_in_bytes)
            )
        else:
            self.summary.segments_busy += 1  # its deletion began after the listing

    def _is_finished(self, segment_id: RemoteLogSegmentId) -> bool:
        """Returns whether a segment is finished in the current metadata."""
        cache = self._trusted(segment_id.topic_id_partition)
        current = cache.list_all_remote_log_segments() if cache is not None else []
        return any(one.remote_log_segment_id == segment_id and one.state is _FINISHED for one in current)

    def _changed_since_listing(self, stored: StoredSegment, kind: FindingKind) -> bool:
        """Returns whether the brokers have changed the segment after the listing, so that the finding is wrong."""
        if kind is FindingKind.MISSING_OBJECT:
            return all(self._exists(stored.keys[role]) for role in stored.missing)
        if kind is FindingKind.ORPHAN_DELETED:
            return not any(self._exists(stored.keys[role]) for role in stored.sizes)
        return False

    def _exists(self, key: str) -> bool:
        try:
            self._store.size(key)
        except ObjectNotFoundError:
            return False
        return True

    def _trusted(self, tip: TopicIdPartition) -> RemoteLogMetadataCache | None:
        """Returns a partition's metadata; None if they are not available or inconsistent."""
        if self._metadata is None or not self._metadata.ready(tip):
            return None
        return self._metadata.cache(tip) or RemoteLogMetadataCache(tip)

    def _known(self, segment_id: RemoteLogSegmentId, metadata: RemoteLogSegmentMetadata | None) -> Known | None:
        if self._metadata is None or not self._metadata.ready(segment_id.topic_id_partition):
            return None
        return Known(metadata, self._metadata.deleted(segment_id), self._clock.time_ms(), self._request.grace_ms)

    def _items(self) -> Iterator[Finding | Unchecked]:
        yield from self._foreign_objects()
        waiting: deque[tuple[_Partition, StoredSegment, Future[SegmentReport]] | _Partition] = deque()
        pool = ThreadPoolExecutor(self._request.jobs, thread_name_prefix="verify")
        try:
            for partition in self._partitions:
                yield from partition.unchecked
                yield from partition.findings
                for stored, claim in partition.to_check:
                    waiting.append((partition, stored, pool.submit(self._check, stored, claim)))
                    while len(waiting) > 2 * self._request.jobs:
                        yield from self._done(waiting.popleft())
                waiting.append(partition)
            while waiting:
                yield from self._done(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _done(
        self, waited: tuple[_Partition, StoredSegment, Future[SegmentReport]] | _Partition
    ) -> Iterable[Finding | Unchecked]:
        if isinstance(waited, _Partition):
            return self._chain(waited)
        partition, stored, future = waited
        segment_id = stored.listed.remote_log_segment_id
        try:
            report = future.result()
        except ConfigurationError:
            raise
        except ObjectNotFoundError as error:
            return self._deleted_meanwhile(partition, stored, error)
        except DirectFetchError as error:
            report = SegmentReport(stored, closed=str(error))
        partition.reports.append(report)
        if report.closed is None:
            self.summary.segments_checked += 1
        if report.findings or report.closed is not None:
            partition.explained.add(stored.listed.start_offset)
            partition.suspect.add(segment_id)
        closed = [] if report.closed is None else [Unchecked(str(segment_id), report.closed)]
        return [*report.findings, *closed]

    def _deleted_meanwhile(self, partition: _Partition, stored: StoredSegment, error: ObjectNotFoundError) -> list[Finding]:
        """Handles a listed object that was deleted meanwhile: by retention, unless the metadata still have the segment."""
        segment_id = stored.listed.remote_log_segment_id
        partition.explained.add(stored.listed.start_offset)
        partition.suspect.add(segment_id)
        if self._is_finished(segment_id):
            return [finding_of(stored, None, Problem(FindingKind.MISSING_OBJECT, f"deleted after the listing: {error}"))]
        self.summary.segments_busy += 1
        return []

    def _check(self, stored: StoredSegment, claim: RemoteLogSegmentMetadata | None) -> SegmentReport:
        tip = stored.listed.topic_id_partition
        allowed = self._request.allow_offset_gaps or tip.topic_id in self._compacted_topics
        report = self._check_segment(stored, claim, allow_offset_gaps=allowed)
        if not allowed and any(finding.kind in _BY_GAPS for finding in report.findings) and self._compacted(tip):
            self._compacted_topics.add(tip.topic_id)
            report = self._check_segment(stored, claim, allow_offset_gaps=True)
        return report

    def _check_segment(
        self, stored: StoredSegment, claim: RemoteLogSegmentMetadata | None, *, allow_offset_gaps: bool
    ) -> SegmentReport:
        quick = self._request.quick
        return check_segment(self._inspector, self._store, stored, claim, quick=quick, allow_offset_gaps=allow_offset_gaps)

    def _chain(self, partition: _Partition) -> Iterator[Finding]:
        """Yields findings that need all segments of a partition."""
        cache = self._trusted(partition.tip) or _cache_of_reports(partition)
        segments = {one.remote_log_segment_id: one for one in cache.list_all_remote_log_segments() if one.state is _FINISHED}
        sound = [
            (segments[report.stored.listed.remote_log_segment_id], report.lineage)
            for report in partition.reports
            if report.lineage is not None and report.stored.listed.remote_log_segment_id in segments
        ]
        lineage = lineage_of(sound, [one for one in segments.values() if one.remote_log_segment_id not in partition.suspect])
        if lineage is None:
            return
        for metadata, problem in chain_problems(cache, lineage, partition.suspect):
            stored = partition.stored.get(metadata.remote_log_segment_id)
            if stored is not None:
                yield finding_of(stored, None, problem)
        if not self._request.allow_offset_gaps:
            for before, problem in gaps(cache, lineage, partition.explained, partition.suspect):
                yield _of_metadata(before.metadata, problem.kind, problem.message, 0, problem.offset)

    def _foreign_objects(self) -> Iterator[Finding]:
        known = {key for partition in self._partitions for stored in partition.stored.values() for key in stored.keys.values()}
        for info in self._store.objects:
            topic = self._inspector.topic_of(info.key)
            meant = topic in self._request.topics if self._request.topics else topic is not None or bool(self._inspector.prefix)
            if meant and info.key not in known:
                yield Finding(FindingKind.FOREIGN_OBJECT, "it belongs to no segment", info.size, object_key=info.key)


def _cache_of_reports(partition: _Partition) -> RemoteLogMetadataCache:
    """Returns the segments as their objects describe them. One with an unknown end ends where the next one begins."""
    starts = sorted({stored.listed.start_offset for stored in partition.stored.values()})
    uploads = []
    for report in partition.reports:
        following = bisect_right(starts, report.stored.listed.start_offset)
        metadata = report.ending_before(starts[following] if following < len(starts) else None)
        if metadata is not None:
            # The checkpoint of an upload ends where its segment does, so its last epoch is the uploader's
            uploads.append((metadata, metadata.segment_leader_epochs[-1].epoch))
    return cache_of_uploads(partition.tip, uploads)


def _of_metadata(
    metadata: RemoteLogSegmentMetadata, kind: FindingKind, words: str, size: int, offset: int | None = None
) -> Finding:
    return Finding(
        kind=kind,
        message=words,
        bytes=size,
        topic_id_partition=metadata.topic_id_partition,
        segment_id=metadata.remote_log_segment_id,
        start_offset=metadata.start_offset,
        offset=offset,
    )
