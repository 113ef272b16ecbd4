import threading
from collections.abc import Iterator

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError, ObjectNotFoundError, RemoteStorageUnavailableError
from kafka_remote_client.model import RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.records import RemoteLogInputStream
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.layout_inspectors import PlainInspector
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.segment import check_segment
from kafka_remote_client.verify.stored_segment import LOG
from kafka_remote_client.verify.verifier import TierVerifier, VerifyRequest
from tests.support.batches import legacy_message
from tests.support.damaged_tier import GoldenTier
from tests.support.golden import AIVEN_MODES
from tests.support.tier import Tier, change_segment

MODES = ("local", *AIVEN_MODES)


@pytest.mark.parametrize("quick", [False, True], ids=["all", "quick"])
@pytest.mark.parametrize("metadata", [False, True], ids=["listing", "metadata"])
@pytest.mark.parametrize("mode", MODES)
def test_a_tier_written_by_a_broker_has_no_finding(mode: str, metadata: bool, quick: bool) -> None:
    tier = GoldenTier.of(mode)
    verdict = tier.verify(metadata=metadata and mode == "local", quick=quick)
    assert verdict.findings == []
    assert verdict.unchecked == []
    summary = verdict.summary
    assert summary.exit_status == 0
    assert summary.segments_checked == summary.segments == len(list(tier.inspector.segments(tier.store)))
    assert summary.bytes_stored == sum(map(len, tier.store.objects.values()))


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_segments_of_aivens_plugin_agree_with_the_metadata_topic(mode: str) -> None:
    tier = GoldenTier.of(mode, "epochs", "txn", "codec-none-rdk")
    verdict = tier.verify(metadata=True)
    assert verdict.findings == []
    assert verdict.summary.segments_checked == verdict.summary.segments


@pytest.mark.parametrize("mode", MODES)
def test_quick_reads_no_log_and_estimates_its_reads_first(mode: str) -> None:
    tier = GoldenTier.of(mode, "epochs")
    verdict = tier.verify(quick=True)
    assert verdict.summary.bytes_read == verdict.summary.bytes_estimated
    assert not any(key.endswith(".log") for _, key, _, _ in tier.store.calls)
    logs = sum(segment.sizes[LOG] for partition in (0, 1) for segment in tier.segments(partition=partition))
    assert verdict.summary.bytes_estimated == sum(map(len, tier.store.objects.values())) - logs


@pytest.mark.parametrize("mode", MODES)
def test_the_estimate_equals_the_bytes_read(mode: str) -> None:
    tier = GoldenTier.of(mode, "txn")
    summary = tier.verify().summary
    assert summary.bytes_estimated == summary.bytes_stored
    assert summary.bytes_read == summary.bytes_estimated


@pytest.mark.parametrize(("mode", "form"), [("local", "layout_inspectors"), ("aiven-plain", "aiven_layout")])
def test_an_index_that_is_too_large_is_not_read(mode: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = GoldenTier.of(mode, "epochs")
    sizes = sorted(segment.sizes.get("offset index", 72) for segment in tier.segments())
    monkeypatch.setattr(f"kafka_remote_client.verify.{form}.MAX_INDEX_BYTES", max(sizes) + 23)
    verdict = tier.verify()
    assert verdict.kinds == {"time-index-unreadable"}
    assert "more than" in verdict.findings[0].message


def test_a_log_is_never_read_whole() -> None:
    tier = GoldenTier.of("local", "epochs")
    tier.verify()
    assert not any(method == "get" and key.endswith(".log") for method, key, _, _ in tier.store.calls)


def test_encrypted_segments_without_a_key_are_not_a_finding() -> None:
    verdict = GoldenTier.of("aiven-zstd-aes", "epochs", keys=False).verify()
    assert verdict.findings == []
    assert len(verdict.unchecked) == verdict.summary.segments
    assert "--encryption-key" in verdict.unchecked[0].reason
    assert verdict.summary.exit_status == 2


def test_wrong_objects_are_found_without_a_key() -> None:
    tier = GoldenTier.of("aiven-zstd-aes", "epochs", keys=False)
    tier.change(0, LOG, lambda log: log[:-1])
    verdict = tier.verify()
    assert verdict.kinds == {"log-size"}
    assert verdict.summary.exit_status == 1


@pytest.mark.parametrize(("metadata", "place"), [(False, "the store"), (True, "the store or the metadata topic")])
def test_an_unknown_topic_is_refused(metadata: bool, place: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^found no topic nope in {place}$"):
        GoldenTier.of("local", "epochs").verify(metadata=metadata, topics=("nope",))


def test_only_the_requested_topics_are_checked() -> None:
    tier = GoldenTier.of("local", "epochs", "txn")
    tier.change(0, LOG, lambda log: log[:-1])
    key = tier.segments("txn")[0].keys[LOG].rpartition("/")[0]
    tier.store.objects[f"{key}/stray"] = b""
    verdict = tier.verify(topics=("txn",))
    assert verdict.kinds == {"foreign-object"}
    assert verdict.summary.topics == 1


def test_an_unreadable_object_leaves_only_its_segment_unchecked() -> None:
    tier = GoldenTier.of("local", "epochs")
    tier.store = _FailingStore(tier.store, tier.key(550), RemoteStorageUnavailableError("the store is gone"))
    verdict = tier.verify()
    assert [item.reason for item in verdict.unchecked] == ["the store is gone"]
    assert verdict.findings == []
    assert verdict.summary.segments_checked == verdict.summary.segments - 1
    assert verdict.summary.exit_status == 2


def test_an_object_removed_by_retention_meanwhile_is_not_a_finding() -> None:
    tier = GoldenTier.of("local", "epochs")
    key = tier.key(0)
    tier.store = _FailingStore(tier.store, key, ObjectNotFoundError(key))
    verdict = tier.verify()
    assert verdict.findings == []
    assert verdict.summary.segments_busy == 1


def test_a_removed_object_of_a_finished_segment_is_missing() -> None:
    tier = GoldenTier.of("local", "epochs")
    key = tier.key(0)
    tier.store = _FailingStore(tier.store, key, ObjectNotFoundError(key))
    assert tier.verify(metadata=True).kinds == {"missing-object"}


def test_a_segment_being_copied_is_not_a_finding() -> None:
    tier = GoldenTier.of("local", "epochs")
    cache, segment_id = tier.cache(880)
    started = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    change_segment(cache, segment_id, state=started)
    del tier.store.objects[tier.key(880, "producer snapshot")]
    assert tier.verify(metadata=True).kinds == {"half-copied"}
    verdict = tier.verify(metadata=True, grace_ms=10**12)
    assert verdict.findings == []
    assert verdict.summary.segments_busy == 1


def test_objects_added_after_the_listing_are_not_missing() -> None:
    tier = GoldenTier.of("local", "epochs")
    whole = tier.segments()[-1]
    index = whole.keys["time index"]
    tier.store = _LateStore(tier.store, {index})
    verdict = tier.verify(metadata=True)
    assert (verdict.findings, verdict.summary.segments_busy) == ([], 1)
    tier.store = _LateStore(tier.store._store, set(whole.keys.values()))
    verdict = tier.verify(metadata=True)
    assert (verdict.findings, verdict.summary.segments_busy) == ([], 1)


def test_objects_deleted_after_the_listing_are_not_a_finding() -> None:
    tier = GoldenTier.of("local", "epochs")
    _, segment_id = tier.cache(0)
    seen = SeenStore(tier.store)
    for key in tier.segments()[0].keys.values():
        tier.store.objects.pop(key, None)
    for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
        assert tier.metadata.apply(RemoteLogSegmentMetadataUpdate(segment_id, 1, 0, state))
    verifier = TierVerifier(seen, tier.inspector, VerifyRequest(), tier.metadata)
    assert list(verifier.run()) == []
    assert verifier.summary.segments_busy == 1


def test_a_segment_deleted_during_the_check_is_not_missing() -> None:
    tier = GoldenTier.of("local", "epochs")
    _, segment_id = tier.cache(0)
    keys = tier.segments()[0].keys.values()
    for key in keys:
        tier.store.objects.pop(key, None)

    class Deleting(_Wrapped):
        def size(self, key: str) -> int:
            deleting = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
            assert tier.metadata.apply(RemoteLogSegmentMetadataUpdate(segment_id, 1, 0, deleting))
            return self._store.size(key)

    tier.store = Deleting(tier.store)
    verdict = tier.verify(metadata=True)
    assert (verdict.findings, verdict.summary.segments_busy) == ([], 1)


def test_missing_timestamps_are_not_compared_with_metadata() -> None:
    tier = Tier()
    segment = tier.add([legacy_message(0, b"v", magic=0)], number=1, max_timestamp_ms=1_700_000_000_000)
    form = PlainInspector(LocalTieredStorageLayout())
    for kind in ("offset index", "time index"):
        tier.store.objects[next(form.segments(tier.store)).keys[kind]] = b""
    for quick in (False, True):
        (stored,) = form.segments(tier.store)
        assert check_segment(form, tier.store, stored, segment, quick=quick).findings == ()


def test_objects_under_another_prefix_are_reported_as_unchecked() -> None:
    tier = GoldenTier.of("aiven-plain", "epochs")
    tier.inspector.prefix = "elsewhere/"
    verdict = tier.verify(metadata=True)
    assert verdict.findings == []
    assert {"another prefix" in item.reason for item in verdict.unchecked} == {True}


def test_custom_metadata_without_an_object_are_a_finding() -> None:
    tier = GoldenTier.of("aiven-plain", "epochs")
    cache, segment_id = tier.cache(0)
    for key in tier.segments()[0].keys.values():
        del tier.store.objects[key]
    change_segment(cache, segment_id, custom_metadata=b"\xff")
    assert tier.verify(metadata=True).kinds == {"metadata-mismatch"}
    empty = AivenCustomMetadata().encode()
    change_segment(cache, segment_id, custom_metadata=empty)
    assert tier.verify(metadata=True).kinds == {"missing-segment"}


def test_a_partition_with_distrusted_metadata_is_checked_by_listing() -> None:
    tier = GoldenTier.of("local", "epochs")
    tier.metadata.ready = lambda tip: False
    verdict = tier.verify(metadata=True)
    assert verdict.findings == []
    assert {item.reason for item in verdict.unchecked} == {"the metadata topic is inconsistent for it"}
    assert verdict.summary.segments_checked == verdict.summary.segments


def test_segments_are_checked_in_parallel() -> None:
    tier = GoldenTier.of("local", "epochs")
    tier.store = _MeetingStore(tier.store, parties=2)
    assert tier.verify(jobs=2).findings == []
    assert tier.store.met


def test_a_cancelled_check_leaves_no_thread() -> None:
    tier = GoldenTier.of("local", "epochs")
    tier.change(0, LOG, lambda log: log[:-1])
    verifier = TierVerifier(SeenStore(tier.store), tier.inspector, VerifyRequest(jobs=3))
    found = verifier.run()
    next(found)
    found.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("verify")]


def test_deleted_segments_of_an_earlier_topic_are_not_a_finding() -> None:
    tier = GoldenTier.of("local", "deleted")
    gone = [tip for tip in tier.metadata.partitions() if not tier.metadata.cache(tip).list_all_remote_log_segments()]
    assert len(gone) == 1
    assert tier.verify(metadata=True).findings == []


def test_gaps_are_allowed_in_a_compacted_topic() -> None:
    tier = GoldenTier.of("local", "epochs")
    for key in tier.segments()[2].keys.values():
        tier.store.objects.pop(key, None)
    assert tier.verify().kinds == {FindingKind.OFFSET_GAP.label}
    assert tier.verify(allow_offset_gaps=True).findings == []


@pytest.mark.parametrize("compacted", [False, True])
def test_a_hole_in_a_segment_is_normal_if_the_topic_is_compacted(compacted: bool) -> None:
    tier = GoldenTier.of("local", "epochs")
    asked: list[int] = []

    def ask(partition: TopicIdPartition) -> bool:
        asked.append(partition.partition)
        return compacted

    assert FindingKind.BATCH_CHAIN.label not in tier.verify(compacted=ask).kinds
    assert asked == []
    for stored in tier.segments()[:3]:  # without their second batches
        log = tier.store.objects[stored.keys[LOG]]
        _, second, third, *_ = RemoteLogInputStream(log).batches
        tier.store.objects[stored.keys[LOG]] = log[: second.position] + log[third.position :]
    found = tier.verify(compacted=ask, jobs=1)
    assert (FindingKind.BATCH_CHAIN.label in found.kinds) is not compacted
    assert len(asked) == (1 if compacted else 3)


def test_a_missing_segment_is_never_compaction() -> None:
    tier = GoldenTier.of("local", "epochs")
    for key in tier.segments()[2].keys.values():
        tier.store.objects.pop(key, None)
    assert tier.verify(compacted=lambda _: True).kinds == {FindingKind.OFFSET_GAP.label}


def test_an_update_of_an_unknown_segment_is_not_a_deletion() -> None:
    tier = GoldenTier.of("local", "epochs")
    _, segment_id = tier.cache(0)
    foreign = attrs.evolve(segment_id, topic_id_partition=TopicIdPartition(segment_id.id, "epochs", 9))
    gone = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
    assert not tier.metadata.apply(RemoteLogSegmentMetadataUpdate(foreign, 1, 0, gone))
    assert not tier.metadata.deleted(foreign)


class _Wrapped:
    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


class _FailingStore(_Wrapped):
    """A store in which reads of one object fail."""

    def __init__(self, store: object, key: str, error: Exception) -> None:
        super().__init__(store)
        self._key, self._error = key, error

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if key == self._key:
            raise self._error
        return self._store.get_range(key, start, end)


class _LateStore(_Wrapped):
    """A store that does not list some objects yet."""

    def __init__(self, store: object, late: set[str]) -> None:
        super().__init__(store)
        self._late = late

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (info for info in self._store.list(prefix) if info.key not in self._late)


class _MeetingStore(_Wrapped):
    """A store in which the first reads of logs wait for each other."""

    def __init__(self, store: object, parties: int) -> None:
        super().__init__(store)
        self._barrier = threading.Barrier(parties)
        self._left = parties
        self._lock = threading.Lock()
        self.met = False

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with self._lock:
            waits = self._left > 0
            self._left -= 1
        if waits:
            self._barrier.wait(60)
            self.met = True
        return self._store.get_range(key, start, end)
