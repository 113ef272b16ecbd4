"""Each way to damage a tier is found, as what it is and as nothing else."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections.abc import Callable
from uuid import UUID

import attrs
import crc32c
import pytest

from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    uuid_to_text,
)
from kafka_remote_client.remote_log.aiven.chunk_index import chunk_count, decode_sizes, encode_sizes
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.verify.finding import FindingKind
from tests.support.damaged_tier import GoldenTier, headers, replace

TXN, EPOCHS = 259, 550  # segments with many batches: of transactions, and between others of one epoch
OTHER = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
LOCAL, PLAIN, ZSTD, AES = "local", "aiven-plain", "aiven-zstd", "aiven-zstd-aes"


@attrs.frozen
class Defect:
    """``damage`` is done to the ``topic`` of a golden tier; ``found`` are the kinds that a check lists, each so often."""

    name: str
    mode: str
    topic: str
    damage: Callable[[GoldenTier], None]
    found: dict[FindingKind, int]
    metadata: bool = False
    quick: bool = False


def batch_at(tier: GoldenTier, start: int, number: int) -> tuple[str, int, int]:
    """Key of the log, position and size of a batch."""
    key = tier.key(start)
    header = headers(tier.store.objects[key])[number]
    return key, header.position, header.size


def flip(start: int, number: int, at: int, mask: int = 1, *, fix: bool = False) -> Callable[[GoldenTier], None]:
    """Flips bits of a byte of a batch; ``fix`` makes its checksum right again."""

    def damage(tier: GoldenTier) -> None:
        key, position, size = batch_at(tier, start, number)
        log = bytearray(tier.store.objects[key])
        log[position + (at % size)] ^= mask
        if fix:
            log[position + 17 : position + 21] = crc32c.crc32c(bytes(log[position + 21 : position + size])).to_bytes(4, "big")
        tier.store.objects[key] = bytes(log)

    return damage


def set_bytes(start: int, number: int, at: int, new: bytes) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        key, position, _ = batch_at(tier, start, number)
        tier.store.objects[key] = replace(tier.store.objects[key], position + at, new)

    return damage


def both(*damages: Callable[[GoldenTier], None]) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        for one in damages:
            one(tier)

    return damage


def on(start: int, role: str, how: Callable[[bytes], bytes]) -> Callable[[GoldenTier], None]:
    return lambda tier: tier.change(start, role, how)


def drop_batch(tier: GoldenTier) -> None:
    """A batch is cut out, and the offset index is left with what lies before it."""
    key, position, size = batch_at(tier, EPOCHS, 7)
    log = tier.store.objects[key]
    tier.store.objects[key] = log[:position] + log[position + size :]
    tier.change(
        EPOCHS, "offset index", lambda data: b"".join(e for e in entries(data, 8) if struct.unpack(">ii", e)[1] < position)
    )


def entries(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def without(start: int, *roles: str) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        for role in roles:
            del tier.store.objects[tier.key(start, role)]

    return damage


def remove_segment(start: int) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        (segment,) = [one for one in tier.segments() if one.listed.start_offset == start]
        for key in segment.keys.values():
            tier.store.objects.pop(key, None)

    return damage


def manifest(start: int, change: Callable[[dict], object]) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        def changed(data: bytes) -> bytes:
            parsed = json.loads(data)
            change(parsed)
            return json.dumps(parsed).encode()

        tier.change(start, "manifest", changed)

    return damage


def first(tier: GoldenTier) -> int:
    """The start offset of the first segment of the first partition that has chunks enough."""
    return tier.segments()[0].listed.start_offset


def copy_segment(tier: GoldenTier, start: int, identity: UUID = OTHER, *, roles: int = 9) -> RemoteLogSegmentId:
    """A second upload of a segment: the same bytes under another id."""
    (segment,) = [one for one in tier.segments() if one.listed.start_offset == start]
    known = segment.listed.remote_log_segment_id
    for role, key in list(segment.keys.items())[:roles]:
        if role in segment.sizes:
            tier.store.objects[key.replace(uuid_to_text(known.id), uuid_to_text(identity))] = tier.store.objects[key]
    return RemoteLogSegmentId(known.topic_id_partition, identity)


def known(tier: GoldenTier, start: int) -> RemoteLogSegmentMetadata:
    cache, segment_id = tier.cache(start)
    return next(one for one in cache.list_all_remote_log_segments() if one.remote_log_segment_id == segment_id)


def begin_copy(tier: GoldenTier, start: int, **changes: object) -> RemoteLogSegmentMetadata:
    """The metadata topic says that a second upload of the segment began."""
    state = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    second = RemoteLogSegmentId(known(tier, start).topic_id_partition, OTHER)
    metadata = attrs.evolve(known(tier, start), remote_log_segment_id=second, state=state, **changes)
    assert tier.metadata.apply(metadata)
    return metadata


def enter(tier: GoldenTier, segment_id: RemoteLogSegmentId, *states: RemoteLogSegmentState) -> None:
    for state in states:
        assert tier.metadata.apply(RemoteLogSegmentMetadataUpdate(segment_id, 1, 0, state))


def unfinished(roles: int) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        begin_copy(tier, EPOCHS)
        copy_segment(tier, EPOCHS, roles=roles)

    return damage


def superseded(tier: GoldenTier) -> None:
    """A copy that finished earlier; the one in the store finished later and covers it."""
    begin_copy(tier, EPOCHS)
    enter(tier, copy_segment(tier, EPOCHS), RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


def deleted(tier: GoldenTier) -> None:
    _, segment_id = tier.cache(first(tier))
    enter(tier, segment_id, RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


def deleting(tier: GoldenTier) -> None:
    _, segment_id = tier.cache(first(tier))
    enter(tier, segment_id, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


def truncated_away(tier: GoldenTier) -> None:
    """What an older leader uploaded, and an unclean election cut off: another epoch at the same offsets."""
    segment_id = copy_segment(tier, EPOCHS)
    key = tier.key(EPOCHS).replace(uuid_to_text(tier.cache(EPOCHS)[1].id), uuid_to_text(OTHER))
    log = bytearray(tier.store.objects[key])
    for header in headers(bytes(log)):
        log[header.position + 12 : header.position + 16] = struct.pack(">i", 1)
    tier.store.objects[key] = bytes(log)
    checkpoint = key.removesuffix(".log") + ".leader_epoch_checkpoint"
    tier.store.objects[checkpoint] = b"0\n2\n0 0\n1 230\n"
    assert segment_id.id == OTHER


def told_otherwise(**changes: object) -> Callable[[GoldenTier], None]:
    """The metadata topic says something else of a segment."""

    def damage(tier: GoldenTier) -> None:
        cache, segment_id = tier.cache(EPOCHS)
        cache._segments[segment_id] = attrs.evolve(cache._segments[segment_id], **changes)

    return damage


def shift_index(position: int, by: int) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        value = int.from_bytes(data[position : position + 4], "big") + by
        return replace(data, position, value.to_bytes(4, "big"))

    return changed


def swap_chunks(tier: GoldenTier) -> None:
    """Chunks 1 and 2 change places; the manifest follows, so that every tag and size is right."""
    start = first(tier)
    text = json.loads(tier.store.objects[tier.key(start, "manifest")])
    sizes = chunk_sizes(text)
    log = tier.store.objects[tier.key(start)]
    bounds = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    pieces = [log[a:b] for a, b in itertools.pairwise(bounds)]
    pieces[1], pieces[2] = pieces[2], pieces[1]
    tier.store.objects[tier.key(start)] = b"".join(pieces)
    text["chunkIndex"]["transformedChunks"] = encode_sizes([len(piece) for piece in pieces])
    tier.store.objects[tier.key(start, "manifest")] = json.dumps(text).encode()


def chunk_sizes(text: dict) -> list[int]:
    index = text["chunkIndex"]
    return decode_sizes(index["transformedChunks"], chunk_count(index["originalChunkSize"], index["originalFileSize"]))


def in_chunk(number: int, at: int) -> Callable[[GoldenTier], None]:
    """Flips a bit of a stored chunk."""

    def damage(tier: GoldenTier) -> None:
        start = first(tier)
        sizes = chunk_sizes(json.loads(tier.store.objects[tier.key(start, "manifest")]))
        begin = sum(sizes[:number])
        position = begin + at % sizes[number]
        tier.change(start, "log", lambda log: replace(log, position, bytes([log[position] ^ 1])))

    return damage


def on_first(role: str, how: Callable[[bytes], bytes]) -> Callable[[GoldenTier], None]:
    return lambda tier: tier.change(first(tier), role, how)


def manifest_of_first(change: Callable[[dict], object]) -> Callable[[GoldenTier], None]:
    return lambda tier: manifest(first(tier), change)(tier)


def put(*path: str, value: object) -> Callable[[dict], object]:
    def change(text: dict) -> None:
        for name in path[:-1]:
            text = text[name]
        text[path[-1]] = value

    return change


def add(*path: str, by: int) -> Callable[[dict], object]:
    def change(text: dict) -> None:
        for name in path[:-1]:
            text = text[name]
        text[path[-1]] += by

    return change


def other_aad(text: dict) -> None:
    text["encryption"]["aad"] = base64.b64encode(bytes(32)).decode()


def other_wrapped_key(text: dict) -> None:
    key_id, _, wrapped = text["encryption"]["dataKey"].partition(":")
    raw = base64.b64decode(wrapped)
    text["encryption"]["dataKey"] = f"{key_id}:{base64.b64encode(replace(raw, 100, bytes([raw[100] ^ 1]))).decode()}"


def foreign_manifest(tier: GoldenTier) -> None:
    one, two = tier.segments()[:2]
    tier.store.objects[one.keys["manifest"]] = tier.store.objects[two.keys["manifest"]]


def foreign(tail: str) -> Callable[[GoldenTier], None]:
    def damage(tier: GoldenTier) -> None:
        tier.store.objects[tier.segments()[0].keys["log"].rpartition("/")[0] + "/" + tail] = b"x" * 10

    return damage


def fix_snapshot(data: bytes) -> bytes:
    return data[:2] + crc32c.crc32c(data[6:]).to_bytes(4, "big") + data[6:]


def open_transaction(data: bytes) -> bytes:
    """The first producer of a snapshot has a transaction open that the log does not have."""
    return fix_snapshot(replace(data, 10 + 38, struct.pack(">q", TXN + 3)))


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
        on(EPOCHS, "leader epoch checkpoint", lambda d: b"0\n1\n2 600\n"),
        {K.LEADER_EPOCHS_MISMATCH: 1},
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
    Defect("another aad", AES, "codec-none-rdk", manifest_of_first(other_aad), {K.DATA_KEY: 1}),
    Defect("a wrapped data key", AES, "codec-none-rdk", manifest_of_first(other_wrapped_key), {K.DATA_KEY: 1}),
    Defect("chunks that changed places", AES, "codec-none-rdk", swap_chunks, {K.BATCH_DAMAGED: 1}),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_planted_defect_is_found_as_what_it_is(defect: Defect) -> None:
    tier = GoldenTier.of(defect.mode, defect.topic)
    defect.damage(tier)
    verdict = tier.verify(metadata=defect.metadata, quick=defect.quick)
    found = {kind: verdict.summary.findings[kind] for kind in verdict.summary.findings}
    assert found == defect.found, [(finding.kind.label, finding.message) for finding in verdict.findings]
    assert not verdict.unchecked
    assert verdict.summary.exit_status == 1


def test_every_kind_of_finding_is_planted() -> None:
    planted = {kind for defect in DEFECTS for kind in defect.found}
    assert planted | {FindingKind.OVERLAP} == set(FindingKind)
