"""Golden tiers in memory. A test damages one in one way, and ``verify`` checks it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import attrs

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.records import BatchHeader, RemoteLogInputStream
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.verify.finding import Finding, Unchecked
from kafka_remote_client.verify.known_metadata import DeletionTrackingStore
from kafka_remote_client.verify.layout_inspectors import inspector_of
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.stored_segment import LayoutInspector, StoredSegment
from kafka_remote_client.verify.verifier import Summary, TierVerifier, VerifyRequest
from tests.support.golden import golden_aiven, golden_local, read_jsonl
from tests.support.locations import ManualClock
from tests.support.tier import MemoryStore

__all__ = ["GoldenMetadata", "GoldenTier", "Verdict", "headers", "replace"]


class GoldenMetadata(DeletionTrackingStore):
    """The golden metadata topic, all of it, trusted."""

    def ready(self, topic_id_partition: TopicIdPartition) -> bool:
        return True


@attrs.frozen
class Verdict:
    """The result of a check."""

    findings: list[Finding]
    unchecked: list[Unchecked]
    summary: Summary

    @property
    def kinds(self) -> set[str]:
        return {finding.kind.label for finding in self.findings}


@attrs.define
class GoldenTier:
    """Topics of one golden tier: the objects in ``store.objects``, and their records in the metadata topic."""

    store: MemoryStore
    metadata: GoldenMetadata
    inspector: LayoutInspector
    topics: tuple[str, ...]

    @classmethod
    def of(cls, mode: str, *topics: str, keys: bool = True) -> GoldenTier:
        """``mode``: "local" or one of AIVEN_MODES."""
        root = golden_local() if mode == "local" else golden_aiven(mode)
        options = LayoutOptions()
        if mode == "aiven-zstd-aes":
            files = {"key1": str(root / "keys" / "key1.private.der")} if keys else {}
            options = LayoutOptions("some-prefix/", files)
        tier = cls(
            MemoryStore(),
            GoldenMetadata(),
            inspector_of(layout_named("local-tiered-storage" if mode == "local" else "aiven", options)),
            topics,
        )
        for key, data in _objects(root).items():
            if tier.inspector.topic_of(key) in topics or not topics:
                tier.store.objects[key] = data
        for line in read_jsonl(root / "remote_log_metadata.jsonl.gz"):
            event = RemoteLogMetadataSerde().deserialize(bytes.fromhex(line["value"]))
            if not topics or event.topic_id_partition.topic in topics:
                tier.metadata.apply(event)
        return tier

    def segments(self, topic: str | None = None, partition: int = 0) -> list[StoredSegment]:
        """The segments of a partition (default: of the first topic), by start offset."""
        found = self.inspector.segments(self.store, topic or self.topics[0])
        return [one for one in found if one.listed.topic_id_partition.partition == partition]

    def key(self, start: int, role: str = "log") -> str:
        """The key of an object of the segment of the first topic that starts there."""
        return next(one.keys[role] for one in self.segments() if one.listed.start_offset == start)

    def change(self, start: int, role: str, how: Callable[[bytes], bytes]) -> None:
        """Replaces an object."""
        key = self.key(start, role)
        self.store.objects[key] = how(self.store.objects[key])

    def cache(self, start: int) -> tuple[RemoteLogMetadataCache, RemoteLogSegmentId]:
        """Returns the metadata of a segment's partition, and the segment's id."""
        segment_id = next(one.listed.remote_log_segment_id for one in self.segments() if one.listed.start_offset == start)
        found = self.metadata.cache(segment_id.topic_id_partition)
        assert found is not None
        return found, segment_id

    def verify(
        self, *, metadata: bool = False, compacted: Callable[[TopicIdPartition], bool] = lambda _: False, **request: object
    ) -> Verdict:
        """Runs ``verify``; ``request`` are fields of VerifyRequest. The clock is a day after the golden run."""
        newest = max((m.event_timestamp_ms for tip in self.metadata.partitions() for m in self._all(tip)), default=0)
        clock = ManualClock(newest / 1000 + 86_400)
        verifier = TierVerifier(
            SeenStore(self.store, [self.inspector.prefix]),
            self.inspector,
            VerifyRequest(**{"topics": self.topics, "jobs": 2, **request}),
            self.metadata if metadata else None,
            compacted=compacted,
            clock=clock,
        )
        found = list(verifier.run())
        findings = [item for item in found if isinstance(item, Finding)]
        return Verdict(findings, [item for item in found if isinstance(item, Unchecked)], verifier.summary)

    def _all(self, tip: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        found = self.metadata.cache(tip)
        return found.list_all_remote_log_segments() if found else []


def headers(log: bytes) -> list[BatchHeader]:
    """The batches of a sound log."""
    return list(RemoteLogInputStream(log))


def replace(data: bytes, at: int, new: bytes) -> bytes:
    """``data`` with other bytes at ``at``; negative counts from the end."""
    at %= len(data)
    return data[:at] + new + data[at + len(new) :]


@cache
def _objects(root: Path) -> dict[str, bytes]:
    base = root / "remote"
    return {str(path.relative_to(base)): path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}
