"""F30-F46: the store returns the requested number of bytes, but they are not what Kafka wrote, or are hard to decode."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import cramjam

from kafka_remote_client.testing import Answer
from tests.faults.bench import Rig, ranged
from tests.faults.scenario import ALL, HTTP, Table
from tests.faults.streams import Segment, Transactions
from tests.support.batches import Rec, batch, fix_crc, legacy_message, legacy_set, record, varint

__all__ = ["BYTES_STREAMS", "STORE_BYTES"]

_table = Table()
STORE_BYTES = _table.scenarios

_DAMAGED = "corrupt unsupported-format"
_COUNT = 8  # records of the damaged batch, the first of the second segment, which is uncompressed
_FIRST_RECORD = 61
_CAP = 1 << 20


def _damaged(
    name: str, faults: str, change: Callable[[bytes], bytes], *, retried: bool = True, once: bool = True, **more: Any
) -> None:
    """Changes the first batch of the second segment, or one in the middle, in every answer or in one."""
    for place, number in (("front", 0), ("inside", 3)):
        _table.add(
            f"{name}-{place}",
            faults,
            lambda rig, number=number: rig.damage(1, number, change),
            _DAMAGED,
            kinds=ALL,
            **more,
        )
    if once:
        _table.add(
            f"{name}-once",
            faults,
            lambda rig: rig.damage(1, 3, change, times=1),
            _DAMAGED,
            kinds=HTTP,
            heals=retried,
            **more,
        )


def _flipped(at: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]

    return change


def _set(at: int, layout: str, *values: int, crc: bool = True) -> Callable[[bytes], bytes]:
    """Changes header fields, and corrects the checksum if it covers them."""

    def change(data: bytes) -> bytes:
        packed = struct.pack(f">{layout}", *values)
        changed = data[:at] + packed + data[at + len(packed) :]
        return fix_crc(changed) if crc else changed

    return change


def _records(make: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Replaces the first record and keeps the others. The batch's checksum is correct."""

    def change(data: bytes) -> bytes:
        (size, used) = _varint_at(data, _FIRST_RECORD)
        end = _FIRST_RECORD + used + size
        spoilt = make(data[_FIRST_RECORD + used : end])
        rest = data[end:]
        body = (spoilt + rest)[: len(data) - _FIRST_RECORD]
        head = data[:8] + struct.pack(">i", _FIRST_RECORD - 12 + len(body)) + data[12:_FIRST_RECORD]
        return fix_crc(head + body)

    return change


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = used = 0
    while True:
        byte = data[at + used]
        raw |= (byte & 0x7F) << shift
        used += 1
        shift += 7
        if byte < 0x80:
            return raw >> 1, used


def _packed(codec: int, payload: bytes) -> Callable[[bytes], bytes]:
    """Returns a batch with that codec and payload, for the same offsets."""

    def change(data: bytes) -> bytes:
        base, epoch = struct.unpack(">q", data[:8])[0], struct.unpack(">i", data[12:16])[0]
        last, count = struct.unpack(">i", data[23:27])[0], struct.unpack(">i", data[57:61])[0]
        return batch(base, b"", codec=codec, last_delta=last, count=count, epoch=epoch, payload=payload)

    return change


# -- bits and whole batches -------------------------------------------------------------------------------------------------

for place in (17, 21, 30, 57, 61, 200, -1):
    _damaged(f"bit-{place}", "F30", _flipped(place))
for place in (0, 3, 7, 8, 10, 11, 12, 15):
    _damaged(f"uncovered-bit-{place}", "F31", _flipped(place), once=place in (7, 15))
_damaged("zeros", "F32", lambda data: bytes(len(data)))
_damaged("epoch-of-another-lineage", "F33", _set(12, "i", 1, crc=False))
_damaged("epoch-unknown", "F33", _set(12, "i", -1, crc=False), once=False)
_damaged("another-offset", "F33", _set(0, "q", 5, crc=False), once=False)


def _swapped(stream: str, segment: int) -> Callable[[Rig], None]:
    """A log has the bytes of another one, cut to the log's size."""

    def inject(rig: Rig) -> None:
        other = rig.bench.stream(stream)
        there = other.logs[other.keys[segment]]
        rig.replace(1, lambda log: (there * (1 + len(log) // len(there)))[: len(log)])

    return inject


for segment in (0, 2):
    _table.add(f"segment-{segment}-in-place-of-another", "F32", _swapped("mixed", segment), _DAMAGED, kinds=ALL)
_table.add("another-topics-segment", "F33", _swapped("sparse", 0), _DAMAGED, kinds=ALL)


def _another_range(rig: Rig) -> None:
    log = rig.stream.logs[rig.stream.keys[3]]
    rig.answers(Answer(transform=lambda data: (log * (1 + len(data) // len(log)))[: len(data)]), times=1, after=2)


_table.add("bytes-of-another-range-once", "F32 F33", _another_range, heals=True)


# -- sizes and counts -------------------------------------------------------------------------------------------------------

for value in (-1, 0, 1, 48, 1 << 20, 2**31 - 1, -(2**31)):
    _damaged(f"batch-length-{value}", "F34", _set(8, "i", value, crc=False), once=value in (-1, 2**31 - 1))
for value in (-1, 10**6, 2**31 - 1, -(2**31)):
    _damaged(f"record-count-{value}", "F35", _set(57, "i", value), once=value == -1)
for value in (0, _COUNT - 2, _COUNT + 1):
    _damaged(f"record-count-{value}", "F36", _set(57, "i", value), once=value == 0)
_damaged("last-offset-below-base", "F36", _set(23, "i", -1), once=False)

_LONG_32, _LONG_64 = b"\xff" * 6 + b"\x01", b"\xff" * 11 + b"\x01"
_TAIL = varint(0) + varint(0)  # timestamp and offset of a first record
_VARINTS: Mapping[str, Callable[[bytes], bytes]] = {
    "size": lambda body: _LONG_32 + body,
    "timestamp": lambda body: varint(len(body) + 11) + b"\0" + _LONG_64 + body[2:],
    "offset": lambda body: varint(len(body) + 6) + b"\0" + varint(0) + _LONG_32 + body[3:],
    "key": lambda body: varint(len(body) + 6) + b"\0" + _TAIL + _LONG_32 + body[4:],
}
for name, make in _VARINTS.items():
    _damaged(f"varint-{name}", "F37", _records(make), once=name == "size")


def _body(key: int, value: int, headers: int, rest: bytes = b"") -> Callable[[bytes], bytes]:
    """A record with false sizes of key, value and headers; its total size is the true one."""

    def make(body: bytes) -> bytes:
        fields = b"\0" + _TAIL + varint(key) + b"k" * max(0, min(key, 3)) + varint(value) + b"v" * max(0, min(value, 3))
        fields += varint(headers) + rest
        return varint(len(body)) + fields.ljust(len(body), b"x")[: len(body)]

    return make


for name, fields in {
    "key": (-2, 3, 0),
    "value": (3, -2, 0),
    "headers": (3, 3, -1),
    "header-key": (3, 3, 1, varint(-1)),
    "header-value": (3, 3, 1, varint(1) + b"h" + varint(-2)),
}.items():
    _damaged(f"negative-{name}", "F38", _records(_body(*fields)), once=name == "key")
for name, fields in {
    "key": (10**6, 3, 0),
    "value": (3, 10**6, 0),
    "headers": (3, 3, 10**6),
    "header-key": (3, 3, 1, varint(10**6)),
    "header-value": (3, 3, 1, varint(1) + b"h" + varint(10**6)),
}.items():
    _damaged(f"too-large-{name}", "F39", _records(_body(*fields)), once=name == "key")
_damaged("too-large-record", "F39", _records(lambda body: varint(10**6) + body), once=False)
_damaged("negative-record", "F38", _records(lambda body: varint(-1) + body), once=False)

# -- formats and codecs -----------------------------------------------------------------------------------------------------

for value in (3, 4, 127, -1):
    _damaged(f"magic-{value}", "F41", _set(16, "b", value, crc=False), retried=False, once=value == 3)
for codec in (5, 6, 7):
    _damaged(f"codec-{codec}", "F44", _set(21, "h", codec), retried=False, once=False)

_ZEROS = bytes(_CAP + 4096)
_BOMBS = {
    "gzip": (1, bytes(cramjam.gzip.compress(_ZEROS))),
    "snappy-preamble": (2, b"\xff\xff\xff\xff\x0f" + b"\0" * 20),
    "lz4": (3, bytes(cramjam.lz4.compress(_ZEROS))),
    "zstd": (4, bytes(cramjam.zstd.compress(_ZEROS))),
}
_SMALL_CAP = {"settings": {"fetch.remote.max.decompressed.bytes": _CAP}}
for name, (codec, payload) in _BOMBS.items():
    room = {**_SMALL_CAP, "stream": "roomy"}
    _damaged(f"bomb-{name}", "F43", _packed(codec, payload), retried=False, once=name == "zstd", **room)


def _bomb_of_many(rig: Rig) -> None:
    """A bomb that is larger than its batch: it overwrites the following batches, and the log keeps its size."""
    _, payload = _BOMBS["gzip"]

    def change(log: bytes) -> bytes:
        first = rig.stream.batches(rig.stream.keys[1])[0]
        return (_packed(1, payload)(first) + log)[: len(log)]

    rig.replace(1, change)


_table.add("bomb-larger-than-its-batch", "F43", _bomb_of_many, _DAMAGED, kinds=ALL, **_SMALL_CAP)
_PLAIN = b"".join(record(Rec(number, b"k", b"v" * 20)) for number in range(_COUNT))
_COMPRESSED = {
    "gzip": (1, bytes(cramjam.gzip.compress(_PLAIN))),
    "snappy": (2, bytes(cramjam.snappy.compress_raw(_PLAIN))),
    "lz4": (3, bytes(cramjam.lz4.compress(_PLAIN))),
    "zstd": (4, bytes(cramjam.zstd.compress(_PLAIN))),
}
for name, (codec, payload) in _COMPRESSED.items():
    _damaged(f"{name}-cut-short", "F44", _packed(codec, payload[: len(payload) // 2]), once=False)
    _damaged(f"{name}-with-a-tail", "F44", _packed(codec, payload + b"tail"), once=False)
    _damaged(f"{name}-garbage", "F44", _packed(codec, b"\x07garbage" * 4), once=False)


# -- valid but rare data -----------------------------------------------------------------------------------------------------


def sparse_segments() -> list[Segment]:
    """Empty batches, one without its last record, transactions with only a marker."""
    log = Transactions()
    for _ in range(2):
        log.records(5)
        log.empty(4)
        log.commit(400)
        log.records(3, gap=3)
        log.abort(401)
        log.empty(1)
        log.roll()
    log.empty(2)
    log.records(4)
    log.roll()
    log.records(20, size=80)
    log.roll()
    return log.segments


def holed_segments() -> list[Segment]:
    """Compacted: batches are missing, in the middle of a segment and at its end."""
    log = Transactions()
    log.records(5)
    log.hole(7)
    log.records(6, codec="gzip")
    log.roll()
    log.records(5)
    log.empty(3)
    log.hole(4)
    log.records(2)
    log.roll()
    log.records(10)
    log.roll()
    return log.segments


def legacy_segments() -> list[Segment]:
    """Message sets of magic 0 and 1, compressed and not, in a separate segment between others of magic 2.

    It is separate because librdkafka gives an old message the leader epoch of the last batch before it in the same answer.
    """
    log = Transactions()
    log.records(4)
    log.roll()
    for magic in (0, 1):
        for _ in range(3):
            log.raw(legacy_message(log.next_offset, b"old %d" % log.next_offset, magic=magic, key=b"k"), 1)
        for codec in (1, 2):
            base = log.next_offset
            inner = b"".join(
                legacy_message(number + (0 if magic else base), b"inner %d" % number, magic=magic) for number in range(3)
            )
            log.raw(legacy_set(base + 2, inner, codec=codec, magic=magic), 3)
    log.raw(legacy_message(log.next_offset, b"appended", magic=1, attributes=0x08, timestamp=7000), 1)
    log.roll()
    log.records(4, append_time=True)
    log.roll()
    log.records(6)
    log.roll()
    return log.segments


def roomy_segments() -> list[Segment]:
    """The second segment's batches are so large that a batch of any other codec fits."""
    log = Transactions()
    log.records(4)
    log.roll()
    for _ in range(4):
        log.records(10, size=900)
    log.roll()
    log.records(6)
    log.roll()
    return log.segments


BYTES_STREAMS = {
    "sparse": sparse_segments,
    "holed": holed_segments,
    "legacy": legacy_segments,
    "roomy": roomy_segments,
}


def _sound(_rig: Rig) -> None:
    """Does not change the store."""


def _larger_than_a_range(rig: Rig) -> None:
    if rig.kind != "local":
        rig.proofs.append(lambda: [e for e in rig.origin.exchanges if ranged(e.request).size > 2000])


_SOUND: dict[str, Any] = {"kinds": ALL, "heals": True}
_table.add("old-formats", "", _sound, about="F40", stream="legacy", **_SOUND)
_table.add("batch-larger-than-a-range", "", _larger_than_a_range, about="F42", **_SOUND)
_table.add("sparse", "", _sound, about="F45", stream="sparse", **_SOUND)
_table.add("holes", "", _sound, "corrupt bad-location not-granted", about="F45", kinds=ALL, stream="holed")
_GAPS = {"settings": {"fetch.remote.allow.offset.gaps": True}}
_table.add("holes-allowed", "", _sound, "not-granted", about="F45", kinds=ALL, stream="holed", may=True, **_GAPS)
_table.add("transactions-everywhere", "", _sound, about="F46", **_SOUND)
_table.add("marker-in-a-later-segment", "", _sound, about="F48", **_SOUND)
