"""Each way to damage a tier gives its own kind of finding and no other."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.verify.finding import FindingKind
from tests.support.damaged_tier import GoldenTier, headers, replace
from tests.support.damages import (
    EPOCHS,
    TXN,
    add,
    both,
    copy_segment,
    deleted,
    deleting,
    drop_batch,
    every_index,
    first,
    flip,
    foreign,
    foreign_manifest,
    in_chunk,
    manifest_of_first,
    on,
    on_first,
    open_transaction,
    other_aad,
    other_wrapped_key,
    put,
    remove_segment,
    set_bytes,
    shift_index,
    superseded,
    swap_chunks,
    told_otherwise,
    truncated_away,
    unfinished,
    without,
)

LOCAL, PLAIN, ZSTD, AES = "local", "aiven-plain", "aiven-zstd", "aiven-zstd-aes"


@attrs.frozen
class Defect:
    """``damage`` changes the ``topic`` of a golden tier; ``found`` has the kinds that a check then reports, and how often."""

    name: str
    mode: str
    topic: str
    damage: Callable[[GoldenTier], None]
    found: dict[FindingKind, int]
    metadata: bool = False
    quick: bool = False


K = FindingKind
DEFECTS = [
    Defect("a bit of a record", LOCAL, "txn", flip(TXN, 10, -1), {K.BATCH_DAMAGED: 1}),
    Defect("a bit of the first batch", LOCAL, "txn", flip(TXN, 0, 70), {K.BATCH_DAMAGED: 1}),
    Defect("a bit of the last batch", LOCAL, "txn", flip(TXN, -1, 70), {K.BATCH_DAMAGED: 1}),
    Defect("a bit of a checksum", LOCAL, "txn", flip(TXN, 10, 18), {K.BATCH_DAMAGED: 1}),
    Defect("a bit of an attribute", LOCAL, "txn", flip(TXN, 10, 22), {K.BATCH_DAMAGED: 1}),
    Defect("a batch that claims fewer bytes", LOCAL, "txn", flip(TXN, 10, 11, 4), {K.BATCH_DAMAGED: 1}),
    Defect("a batch that claims more than the log", LOCAL, "txn", flip(TXN, 10, 9, 8), {K.BATCH_DAMAGED: 1}),
    Defect("the last batch claims more than there is", LOCAL, "txn", flip(TXN, -1, 10, 8), {K.BATCH_DAMAGED: 1}),
    Defect("a batch of negative size", LOCAL, "txn", flip(TXN, 10, 8, 128), {K.BATCH_DAMAGED: 1}),
    Defect(
        "two batches far apart",
        LOCAL,
        "txn",
        both(flip(TXN, 30, -1), lambda tier: tier.change(TXN, "log", lambda log: replace(log, 12_000, b"?"))),
        {K.BATCH_DAMAGED: 2},
    ),
    Defect("records that do not parse, checksum right", LOCAL, "epochs", flip(EPOCHS, 3, 61, fix=True), {K.BATCH_DAMAGED: 1}),
    Defect("a codec that does not exist", LOCAL, "epochs", flip(EPOCHS, 3, 22, 7, fix=True), {K.BATCH_UNSUPPORTED: 1}),
    Defect("a magic of the future", LOCAL, "txn", set_bytes(TXN, 10, 16, b"\x03"), {K.BATCH_UNSUPPORTED: 1}),
    Defect("a base offset one too high", LOCAL, "epochs", flip(EPOCHS, 3, 7), {K.BATCH_CHAIN: 1}),
    Defect("a batch cut out", LOCAL, "epochs", drop_batch, {K.BATCH_CHAIN: 1}),
    Defect("a base offset below the segment", LOCAL, "epochs", set_bytes(EPOCHS, 3, 0, bytes(8)), {K.BATCH_OUTSIDE_SEGMENT: 1}),
    Defect("a negative base offset", LOCAL, "epochs", flip(EPOCHS, 3, 0, 128), {K.BATCH_OUTSIDE_SEGMENT: 1}),
    Defect("a leader epoch", LOCAL, "epochs", flip(EPOCHS, 3, 15), {K.BATCH_LEADER_EPOCH: 1}),
    Defect("a leader epoch, metadata at hand", LOCAL, "epochs", flip(EPOCHS, 3, 12), {K.BATCH_LEADER_EPOCH: 1}, metadata=True),
    Defect("a log cut within a batch", LOCAL, "txn", on(2625, "log", lambda log: log[:-30]), {K.LOG_CUT: 1}),
    Defect("a log cut to half", LOCAL, "txn", on(TXN, "log", lambda log: log[: len(log) // 2]), {K.LOG_CUT: 1}),
    Defect("a log cut between batches", LOCAL, "txn", on(TXN, "log", lambda log: log[: headers(log)[20].end]), {K.LOG_CUT: 1}),
    Defect("an empty log", LOCAL, "epochs", on(EPOCHS, "log", lambda log: b""), {K.LOG_CUT: 1}),
    Defect("a log cut, metadata at hand", LOCAL, "txn", on(TXN, "log", lambda log: log[:-30]), {K.LOG_SIZE: 1}, metadata=True),
    Defect(
        "bytes after the log, metadata at hand",
        LOCAL,
        "txn",
        on(TXN, "log", lambda log: log + b"x" * 99),
        {K.LOG_SIZE: 1},
        True,
    ),
    Defect("a log cut, quick", LOCAL, "txn", on(TXN, "log", lambda log: log[:-30]), {K.LOG_SIZE: 1}, metadata=True, quick=True),
    Defect(
        "an offset index of odd length",
        LOCAL,
        "epochs",
        on(EPOCHS, "offset index", lambda d: d[:-1]),
        {K.OFFSET_INDEX_UNREADABLE: 1},
    ),
    Defect(
        "an offset index that falls",
        LOCAL,
        "epochs",
        on(EPOCHS, "offset index", lambda d: d[8:] + d[:8]),
        {K.OFFSET_INDEX_UNREADABLE: 1},
    ),
    Defect(
        "a position within a batch",
        LOCAL,
        "epochs",
        on(EPOCHS, "offset index", shift_index(20, 1)),
        {K.OFFSET_INDEX_MISMATCH: 1},
    ),
    Defect(
        "an index offset that ends no batch",
        LOCAL,
        "epochs",
        on(EPOCHS, "offset index", shift_index(16, -1)),
        {K.OFFSET_INDEX_MISMATCH: 1},
    ),
    Defect(
        "an index entry behind the log",
        LOCAL,
        "epochs",
        on(EPOCHS, "offset index", lambda d: replace(d, -4, b"\x00\x10\x00\x00")),
        {K.OFFSET_INDEX_MISMATCH: 1},
    ),
    Defect(
        "an index entry behind the log, quick",
        LOCAL,
        "epochs",
        on(EPOCHS, "offset index", lambda d: replace(d, -4, b"\x00\x10\x00\x00")),
        {K.OFFSET_INDEX_MISMATCH: 1},
        metadata=True,
        quick=True,
    ),
    Defect(
        "a time index of odd length",
        LOCAL,
        "epochs",
        on(EPOCHS, "time index", lambda d: d + b"\0"),
        {K.TIME_INDEX_UNREADABLE: 1},
    ),
    Defect(
        "a time index that falls",
        LOCAL,
        "epochs",
        on(EPOCHS, "time index", lambda d: d[12:] + d[:12]),
        {K.TIME_INDEX_UNREADABLE: 1},
    ),
    Defect("a timestamp", LOCAL, "epochs", on(EPOCHS, "time index", shift_index(16, 1)), {K.TIME_INDEX_MISMATCH: 1}),
    Defect(
        "a time index without its last entry",
        LOCAL,
        "epochs",
        on(EPOCHS, "time index", lambda d: d[:-12]),
        {K.TIME_INDEX_MISMATCH: 1},
    ),
    Defect(
        "an empty time index, quick",
        LOCAL,
        "epochs",
        on(EPOCHS, "time index", lambda d: d[:-12]),
        {K.TIME_INDEX_MISMATCH: 1},
        metadata=True,
        quick=True,
    ),
    Defect(
        "a transaction index of odd length",
        LOCAL,
        "txn",
        on(TXN, "transaction index", lambda d: d[:-3]),
        {K.TRANSACTION_INDEX_UNREADABLE: 1},
    ),
    Defect(
        "a transaction index of another version",
        LOCAL,
        "txn",
        on(TXN, "transaction index", lambda d: replace(d, 1, b"\x01")),
        {K.TRANSACTION_INDEX_UNREADABLE: 1},
    ),
    Defect(
        "an aborted transaction that is left out",
        LOCAL,
        "txn",
        on(TXN, "transaction index", lambda d: d[34:]),
        {K.TRANSACTION_INDEX_MISMATCH: 1},
    ),
    Defect(
        "an aborted transaction of another producer",
        LOCAL,
        "txn",
        on(TXN, "transaction index", lambda d: replace(d, 9, b"\x63")),
        {K.TRANSACTION_INDEX_MISMATCH: 1},
    ),
    Defect(
        "a transaction index that is gone", LOCAL, "txn", without(TXN, "transaction index"), {K.TRANSACTION_INDEX_MISMATCH: 1}
    ),
    Defect(
        "a checkpoint that is no text",
        LOCAL,
        "epochs",
        on(EPOCHS, "leader epoch checkpoint", lambda d: d[:-2] + b"\xff\n"),
        {K.LEADER_EPOCHS_UNREADABLE: 1},
    ),
    Defect(
        "a checkpoint with fewer lines than it says",
        LOCAL,
        "epochs",
        on(EPOCHS, "leader epoch checkpoint", lambda d: d[:6]),
        {K.LEADER_EPOCHS_UNREADABLE: 1},
    ),
    Defect(
        "a checkpoint with another epoch",
        LOCAL,
        "epochs",
        on(EPOCHS, "leader epoch checkpoint", lambda d: d.replace(b"\n2 ", b"\n3 ")),
        {K.LEADER_EPOCHS_MISMATCH: 1},
    ),
    Defect(
        "a checkpoint that begins too late",
        LOCAL,
        "epochs",
        on(EPOCHS, "leader epoch checkpoint", lambda d: b"0\n1\n2 60000\n"),
        {K.LEADER_EPOCHS_MISMATCH: 1},
    ),
    Defect(
        "a checkpoint that begins inside its segment, which is not the first",
        LOCAL,
        "epochs",
        on(EPOCHS, "leader epoch checkpoint", lambda d: b"0\n1\n2 600\n"),
        {K.OFFSET_GAP: 1},
    ),
    Defect(
        "a checkpoint, quick",
        LOCAL,
        "epochs",
        on(EPOCHS, "leader epoch checkpoint", lambda d: d.replace(b"\n2 ", b"\n3 ")),
        {K.LEADER_EPOCHS_MISMATCH: 1},
        metadata=True,
        quick=True,
    ),
    Defect(
        "a bit of a snapshot",
        LOCAL,
        "txn",
        on(TXN, "producer snapshot", lambda d: replace(d, 20, bytes([d[20] ^ 1]))),
        {K.PRODUCER_SNAPSHOT_UNREADABLE: 1},
    ),
    Defect(
        "an open transaction that is not",
        LOCAL,
        "txn",
        on(TXN, "producer snapshot", open_transaction),
        {K.PRODUCER_SNAPSHOT_MISMATCH: 1},
    ),
    Defect("a stray file among segments", LOCAL, "epochs", foreign("00000000000000000000.log.tmp"), {K.FOREIGN_OBJECT: 1}),
    Defect("an index that is missing", LOCAL, "epochs", without(EPOCHS, "offset index"), {K.MISSING_OBJECT: 1}),
    Defect(
        "a log that is missing, metadata at hand", LOCAL, "epochs", without(EPOCHS, "log"), {K.MISSING_OBJECT: 1}, metadata=True
    ),
    Defect(
        "a copy that stopped", LOCAL, "epochs", lambda tier: copy_segment(tier, EPOCHS, roles=3) and None, {K.HALF_COPIED: 1}
    ),
    Defect("a copy that stopped, metadata at hand", LOCAL, "epochs", unfinished(3), {K.HALF_COPIED: 1}, metadata=True),
    Defect(
        "the only copy stopped",
        LOCAL,
        "epochs",
        without(EPOCHS, "leader epoch checkpoint", "producer snapshot"),
        {K.HALF_COPIED: 1},
    ),
    Defect("a copy that was never called finished", LOCAL, "epochs", unfinished(9), {K.ORPHAN_UNFINISHED: 1}, metadata=True),
    Defect(
        "a segment nobody names",
        LOCAL,
        "epochs",
        lambda tier: copy_segment(tier, EPOCHS) and None,
        {K.ORPHAN_UNKNOWN: 1},
        metadata=True,
    ),
    Defect("objects of a deleted segment", LOCAL, "epochs", deleted, {K.ORPHAN_DELETED: 1}, metadata=True),
    Defect("a deletion that never finished", LOCAL, "epochs", deleting, {K.ORPHAN_DELETED: 1}, metadata=True),
    Defect("the same segment twice", LOCAL, "epochs", lambda tier: copy_segment(tier, EPOCHS) and None, {K.DUPLICATE: 1}),
    Defect(
        "the same segment twice, quick",
        LOCAL,
        "epochs",
        lambda tier: copy_segment(tier, EPOCHS) and None,
        {K.DUPLICATE: 1},
        quick=True,
    ),
    Defect("a copy that was superseded", LOCAL, "epochs", superseded, {K.DUPLICATE: 1}, metadata=True),
    Defect("a segment of an overthrown leader", LOCAL, "epochs", truncated_away, {K.OUTSIDE_LINEAGE: 1}),
    Defect("a segment that is gone", LOCAL, "epochs", remove_segment(EPOCHS), {K.OFFSET_GAP: 1}),
    Defect(
        "a segment that is gone, metadata at hand",
        LOCAL,
        "epochs",
        remove_segment(EPOCHS),
        {K.MISSING_SEGMENT: 1},
        metadata=True,
    ),
    Defect(
        "metadata with another end", LOCAL, "epochs", told_otherwise(end_offset=745), {K.METADATA_MISMATCH: 1}, metadata=True
    ),
    Defect(
        "metadata with another epoch",
        LOCAL,
        "epochs",
        told_otherwise(segment_leader_epochs=(EpochEntry(2, 550), EpochEntry(3, 560))),
        {K.METADATA_MISMATCH: 1},
        metadata=True,
    ),
    Defect(
        "metadata with another timestamp",
        LOCAL,
        "epochs",
        told_otherwise(max_timestamp_ms=5),
        {K.METADATA_MISMATCH: 1},
        metadata=True,
    ),
    Defect("a manifest that is no JSON", PLAIN, "epochs", on_first("manifest", lambda d: d[:-5]), {K.MANIFEST_UNREADABLE: 1}),
    Defect(
        "a manifest of another version",
        PLAIN,
        "epochs",
        manifest_of_first(put("version", value="2")),
        {K.MANIFEST_UNREADABLE: 1},
    ),
    Defect("a manifest of another segment", PLAIN, "epochs", foreign_manifest, {K.MANIFEST_FOREIGN: 1}),
    Defect(
        "chunks that make another size",
        PLAIN,
        "epochs",
        manifest_of_first(add("chunkIndex", "originalFileSize", by=-1)),
        {K.MANIFEST_UNREADABLE: 1},
    ),
    Defect(
        "index slices that overlap",
        PLAIN,
        "epochs",
        manifest_of_first(add("segmentIndexes", "timestamp", "position", by=-4)),
        {K.MANIFEST_INDEXES: 1},
    ),
    Defect("indexes cut off", PLAIN, "epochs", on_first("indexes", lambda d: d[:-4]), {K.INDEXES_SIZE: 1}),
    Defect("indexes with more behind", PLAIN, "epochs", on_first("indexes", lambda d: d + b"x"), {K.INDEXES_SIZE: 1}),
    Defect("a plain log cut off", PLAIN, "epochs", on_first("log", lambda d: d[:-40]), {K.LOG_SIZE: 1}),
    Defect("a plain log cut off, quick", PLAIN, "epochs", on_first("log", lambda d: d[:-40]), {K.LOG_SIZE: 1}, quick=True),
    Defect("a manifest that is gone", PLAIN, "epochs", lambda tier: without(first(tier), "manifest")(tier), {K.HALF_COPIED: 1}),
    Defect("indexes that are gone", PLAIN, "epochs", lambda tier: without(first(tier), "indexes")(tier), {K.MISSING_OBJECT: 1}),
    Defect("a stray object", PLAIN, "epochs", foreign("notes.txt"), {K.FOREIGN_OBJECT: 1}),
    Defect(
        "a manifest that ends elsewhere",
        PLAIN,
        "epochs",
        manifest_of_first(add("remoteLogSegmentMetadata", "endOffset", by=1)),
        {K.METADATA_MISMATCH: 1},
    ),
    Defect("a compressed chunk", ZSTD, "codec-none-rdk", in_chunk(2, 30), {K.CHUNK_DAMAGED: 1}),
    Defect("a compressed log cut off", ZSTD, "codec-none-rdk", on_first("log", lambda d: d[:-40]), {K.LOG_SIZE: 1}),
    Defect(
        "a compressed log cut to half", ZSTD, "codec-none-rdk", on_first("log", lambda d: d[: len(d) // 2]), {K.LOG_SIZE: 1}
    ),
    Defect("a chunk's tag", AES, "codec-none-rdk", in_chunk(2, -1), {K.CHUNK_DAMAGED: 1}),
    Defect("a chunk's IV", AES, "codec-none-rdk", in_chunk(3, 0), {K.CHUNK_DAMAGED: 1}),
    Defect("the first chunk", AES, "codec-none-rdk", in_chunk(0, 50), {K.CHUNK_DAMAGED: 1}),
    Defect("the last chunk", AES, "codec-none-rdk", in_chunk(-1, 50), {K.CHUNK_DAMAGED: 1}),
    Defect(
        "an encrypted index",
        AES,
        "codec-none-rdk",
        on_first("indexes", lambda d: replace(d, 20, bytes([d[20] ^ 1]))),
        {K.INDEX_ENCRYPTION: 1},
    ),
    Defect(
        "an encrypted index, quick",
        AES,
        "codec-none-rdk",
        on_first("indexes", lambda d: replace(d, 20, bytes([d[20] ^ 1]))),
        {K.INDEX_ENCRYPTION: 1},
        quick=True,
    ),
    Defect("every encrypted index", AES, "codec-none-rdk", every_index, {K.INDEX_ENCRYPTION: 4}),
    Defect(
        "metadata that deny the transaction index",
        LOCAL,
        "txn",
        told_otherwise(TXN, txn_index_empty=True),
        {K.METADATA_MISMATCH: 1},
        metadata=True,
    ),
    Defect(
        "a manifest that ends elsewhere than metadata say",
        PLAIN,
        "epochs",
        manifest_of_first(add("remoteLogSegmentMetadata", "endOffset", by=1)),
        {K.METADATA_MISMATCH: 1},
        metadata=True,
    ),
    Defect(
        "metadata with another size",
        PLAIN,
        "epochs",
        told_otherwise(0, segment_size_in_bytes=5),
        {K.METADATA_MISMATCH: 1},
        metadata=True,
    ),
    Defect("another aad", AES, "codec-none-rdk", manifest_of_first(other_aad), {K.DATA_KEY: 1}),
    Defect("a wrapped data key", AES, "codec-none-rdk", manifest_of_first(other_wrapped_key), {K.DATA_KEY: 1}),
    Defect("chunks that changed places", AES, "codec-none-rdk", swap_chunks, {K.BATCH_DAMAGED: 1}),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_planted_defect_gives_its_own_kind_of_finding(defect: Defect) -> None:
    tier = GoldenTier.of(defect.mode, defect.topic)
    defect.damage(tier)
    verdict = tier.verify(metadata=defect.metadata, quick=defect.quick)
    found = {kind: verdict.summary.findings[kind] for kind in verdict.summary.findings}
    assert found == defect.found, [(finding.kind.label, finding.message) for finding in verdict.findings]
    assert all(isinstance(finding.message, str) and finding.message for finding in verdict.findings)
    assert not verdict.unchecked
    assert verdict.summary.exit_status == 1


def test_every_kind_of_finding_is_planted() -> None:
    planted = {kind for defect in DEFECTS for kind in defect.found}
    assert planted | {FindingKind.OVERLAP} == set(FindingKind)
