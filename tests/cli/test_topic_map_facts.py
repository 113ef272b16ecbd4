"""Maps of golden tiers, each damaged in one way, beside the golden metadata topic."""

from __future__ import annotations

import pytest

from kafka_remote_client.cli.prices import load_prices
from kafka_remote_client.cli.topic_map import PartKind, TopicMap, TopicPart
from kafka_remote_client.cli.topic_map_facts import ClusterFacts, map_topic
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.verify.stored_segment import LOG
from tests.support.damaged_tier import GoldenMetadata, GoldenTier

STORAGE = load_prices(None).of_class("standard")
DAY_MS = 86_400_000


def mapped(tier: GoldenTier, *, metadata: bool = False, says: list[str] | None = None, age_ms: int = DAY_MS) -> TopicMap:
    """The map of the tier's topic. The clock is ``age_ms`` after the newest event."""
    newest = max(
        segment.event_timestamp_ms
        for tip in tier.metadata.partitions()
        if (cache := tier.metadata.cache(tip)) is not None
        for segment in cache.list_all_remote_log_segments()
    )
    facts = ClusterFacts((), tier.metadata, newest + age_ms, 900_000)
    remarks: list[str] = [] if says is None else says
    layout, (topic,) = tier.inspector.layout, tier.topics
    return map_topic(tier.store, layout, topic, STORAGE, remarks.append, ask=(lambda: facts) if metadata else None)


def of_kind(found: TopicMap, kind: PartKind) -> list[TopicPart]:
    return [part for part in found.parts if part.kind is kind]


@pytest.fixture
def tier() -> GoldenTier:
    return GoldenTier.of("local", "delrec")


@pytest.mark.parametrize("mode", ["local", "aiven-plain", "aiven-zstd", "aiven-zstd-aes"])
def test_sound_tier_has_no_defects(mode: str) -> None:
    tier = GoldenTier.of(mode, "txn")
    for metadata in (False, True):
        found = mapped(tier, metadata=metadata)
        kinds = {part.kind for part in found.parts}
        assert PartKind.REMOTE in kinds
        assert kinds <= {PartKind.REMOTE, PartKind.UNDECIDED}


def test_encrypted_tier_without_a_key_is_mapped_with_a_remark() -> None:
    says: list[str] = []
    found = mapped(GoldenTier.of("aiven-zstd-aes", "txn", keys=False), says=says)
    assert of_kind(found, PartKind.REMOTE)
    assert any("cannot find undecided transactions" in text for text in says)


def test_undecided_part_begins_where_committed_readers_stop() -> None:
    says: list[str] = []
    found = mapped(GoldenTier.of("local", "txn"), says=says)
    assert says == []
    (part,) = of_kind(found, PartKind.UNDECIDED)
    assert (part.start_offset, part.end_offset) == (2455, of_kind(found, PartKind.REMOTE)[-1].end_offset)


def test_objects_without_metadata_are_orphans(tier: GoldenTier) -> None:
    kept, tier.metadata = tier.metadata, GoldenMetadata()
    empty = ClusterFacts((), tier.metadata, DAY_MS, 0)
    found = map_topic(tier.store, tier.inspector.layout, "delrec", STORAGE, print, ask=lambda: empty)
    assert kept.partitions()
    orphans = of_kind(found, PartKind.ORPHAN)
    assert len(orphans) == len(tier.segments()) > 0
    assert {part.note for part in orphans} == {"the metadata topic has no record of it"}


def test_metadata_without_objects_is_a_missing_segment(tier: GoldenTier) -> None:
    gone = tier.segments()[0]
    for key in gone.keys.values():
        tier.store.objects.pop(key, None)
    (part,) = of_kind(mapped(tier, metadata=True), PartKind.MISSING)
    assert (part.start_offset, part.stored_bytes, part.bytes) == (gone.listed.start_offset, 0, gone.sizes[LOG])
    assert of_kind(mapped(tier, metadata=True, age_ms=0), PartKind.MISSING) == [], "it may have come after the listing"
    assert of_kind(mapped(tier), PartKind.MISSING) == [], "a store alone does not say so"


def test_deletion_that_never_finished_leaves_an_orphan(tier: GoldenTier) -> None:
    identity = tier.segments()[0].listed.remote_log_segment_id
    state = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
    tier.metadata.apply(RemoteLogSegmentMetadataUpdate(identity, 0, 0, state))
    (part,) = of_kind(mapped(tier, metadata=True), PartKind.ORPHAN)
    assert part.note == "its deletion began and never finished"


def test_segment_without_an_index_is_incomplete(tier: GoldenTier) -> None:
    first = tier.segments()[0]
    del tier.store.objects[first.keys["offset index"]]
    for metadata in (False, True):
        (part,) = of_kind(mapped(tier, metadata=metadata), PartKind.INCOMPLETE)
        assert part.start_offset == first.listed.start_offset
        assert "offset index" in (part.note or "")


def copy_first(tier: GoldenTier, name: str) -> None:
    """Copies all objects of the first segment to another segment id."""
    first = tier.segments()[0]
    for role in first.sizes:
        key = first.keys[role]
        identity = key.rpartition("/")[2][21:43]
        tier.store.objects[key.replace(identity, name)] = tier.store.objects[key]


@pytest.mark.parametrize("name", ["A" * 21 + "Q", "_" * 21 + "w"])
def test_copy_without_metadata_never_hides_the_segment(tier: GoldenTier, name: str) -> None:
    before = of_kind(mapped(tier, metadata=True), PartKind.REMOTE)
    copy_first(tier, name)
    found = mapped(tier, metadata=True)
    assert of_kind(found, PartKind.REMOTE) == before
    assert [part.segment_id for part in of_kind(found, PartKind.ORPHAN)] == [name]
    assert of_kind(found, PartKind.GAP) + of_kind(found, PartKind.DUPLICATE) == []


def test_second_copy_of_a_segment_is_a_duplicate(tier: GoldenTier) -> None:
    first = tier.segments()[0]
    copy_first(tier, "A" * 21 + "Q")
    duplicates = of_kind(mapped(tier), PartKind.DUPLICATE)
    assert [part.start_offset for part in duplicates] == [first.listed.start_offset]


def test_deleted_middle_is_a_gap() -> None:
    tier = GoldenTier.of("local", "epochs")
    segment = tier.segments(partition=1)[1]
    for key in segment.keys.values():
        tier.store.objects.pop(key, None)
    (gap,) = of_kind(mapped(tier), PartKind.GAP)
    assert (gap.partition, gap.start_offset) == (1, segment.listed.start_offset)


def test_object_of_no_segment_is_foreign(tier: GoldenTier) -> None:
    directory = tier.segments()[0].keys["log"].rpartition("/")[0]
    tier.store.objects[f"{directory}/notes.txt"] = b"12345"
    (part,) = of_kind(mapped(tier), PartKind.FOREIGN)
    assert (part.partition, part.stored_bytes, part.note) == (None, 5, f"{directory}/notes.txt")


def test_inconsistent_metadata_are_left_out_with_a_remark(tier: GoldenTier) -> None:
    class Unready(GoldenMetadata):
        def ready(self, topic_id_partition: TopicIdPartition) -> bool:
            return False

    tier_facts = ClusterFacts((), Unready(), DAY_MS, 0)
    says: list[str] = []
    found = map_topic(tier.store, tier.inspector.layout, "delrec", STORAGE, says.append, ask=lambda: tier_facts)
    assert says[0] == "delrec-0: the metadata topic is inconsistent for it"
    assert of_kind(found, PartKind.ORPHAN) == []


def test_topic_without_segments_is_an_error(tier: GoldenTier) -> None:
    with pytest.raises(ConfigurationError, match="found no segments of delrce"):
        map_topic(tier.store, tier.inspector.layout, "delrce", STORAGE, print)
