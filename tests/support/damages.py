"""Ways to damage a golden tier, each a function of it."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections.abc import Callable
from uuid import UUID

import attrs
import crc32c

from kafka_remote_client.model import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    uuid_to_text,
)
from kafka_remote_client.remote_log.aiven.chunk_index import chunk_count, decode_sizes
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.tiered_kafka.aiven_files import encode_sizes
from tests.support.damaged_tier import GoldenTier, headers, replace
from tests.support.tier import change_segment

TXN, EPOCHS = 259, 550  # segments with many batches: of transactions, and between others of one epoch
OTHER = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)


def batch_at(tier: GoldenTier, start: int, number: int) -> tuple[str, int, int]:
    """Key of the log, position and size of a batch."""
    key = tier.key(start)
    header = headers(tier.store.objects[key])[number]
    return key, header.position, header.size


def flip(start: int, number: int, at: int, mask: int = 1, *, fix: bool = False) -> Callable[[GoldenTier], None]:
    """Flips bits of a byte of a batch; ``fix`` corrects its checksum."""

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
    """Removes a batch, and all index entries after it."""
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
    """Returns the start offset of the first segment of the first partition with enough chunks."""
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
    """A segment of an older leader that an unclean election truncated: another epoch at the same offsets."""
    segment_id = copy_segment(tier, EPOCHS)
    key = tier.key(EPOCHS).replace(uuid_to_text(tier.cache(EPOCHS)[1].id), uuid_to_text(OTHER))
    log = bytearray(tier.store.objects[key])
    for header in headers(bytes(log)):
        log[header.position + 12 : header.position + 16] = struct.pack(">i", 1)
    tier.store.objects[key] = bytes(log)
    checkpoint = key.removesuffix(".log") + ".leader_epoch_checkpoint"
    tier.store.objects[checkpoint] = b"0\n2\n0 0\n1 230\n"
    assert segment_id.id == OTHER


def told_otherwise(at: int = EPOCHS, /, **changes: object) -> Callable[[GoldenTier], None]:
    """Changes the metadata of a segment."""

    def damage(tier: GoldenTier) -> None:
        cache, segment_id = tier.cache(at)
        change_segment(cache, segment_id, **changes)

    return damage


def shift_index(position: int, by: int) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        value = int.from_bytes(data[position : position + 4], "big") + by
        return replace(data, position, value.to_bytes(4, "big"))

    return changed


def swap_chunks(tier: GoldenTier) -> None:
    """Swaps chunks 1 and 2; the manifest follows, so that every tag and size is correct."""
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


def every_index(tier: GoldenTier) -> None:
    """A bit of each encrypted index, while the log stays as it is."""
    start = first(tier)
    for piece in json.loads(tier.store.objects[tier.key(start, "manifest")])["segmentIndexes"].values():
        if piece and piece["size"]:
            at = piece["position"] + 14
            tier.change(start, "indexes", lambda data, at=at: replace(data, at, bytes([data[at] ^ 1])))


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
