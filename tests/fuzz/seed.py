"""Writes the first inputs of each target's corpus: ``python -m tests.fuzz.seed``."""

from __future__ import annotations

import hashlib
import struct

from tests.fuzz.run import CORPUS
from tests.support.batches import Rec, abort_marker, batch, compress, lz4_frame, record, xerial

RECORDS = b"".join(record(Rec(i, b"k", b"value" * i, [(b"h", b"v"), (b"h", None)])) for i in range(3))
NULLS = record(Rec(0, None, None))


def seeds() -> dict[str, list[bytes]]:
    legacy = struct.pack(">b", 60) + bytes(9) + b"\0" + bytes(8) + struct.pack(">i", 1) + b"k" + struct.pack(">i", -1)
    return {
        "any_bytes": [
            b"",
            bytes(100),
            batch(0, [Rec()]),
            batch(0, [Rec(0), Rec(1)], codec=3) + abort_marker(2, 1),
            b"<Error>" * 9,
        ],
        "batch_v2": [batch(0, [Rec(0), Rec(1)]), batch(3, [Rec()], codec=1, attributes=8), abort_marker(0, 5), batch(0, [])],
        "record": [b"\3" + RECORDS, b"\1" + NULLS, b"\0", b"\1\x80\x80\x80\x80\x80\x80"],
        "legacy_set": [legacy, legacy * 3, bytes([61]) + legacy[1:]],
        "legacy_inner": [b"\1" + legacy, b"\3" + legacy * 2, b"\4" + legacy, b"\x81" + legacy],
        "gzip": [
            compress(1, NULLS),
            compress(1, RECORDS[:50]) + compress(1, RECORDS[50:]),
            compress(1, bytes(10**6)),
            b"\x1f\x8b",
        ],
        "snappy": [
            compress(2, NULLS),
            xerial(NULLS),
            xerial(RECORDS, 20),
            xerial(RECORDS[:9]) + xerial(RECORDS[9:]),
            b"\x82SNAPPY\0",
        ],
        "lz4": [lz4_frame(NULLS), lz4_frame(RECORDS, linked=True, checksum=True), lz4_frame(bytes(10**6)), b"\x04\x22\x4d\x18"],
        "zstd": [compress(4, NULLS), compress(4, RECORDS) + compress(4, b""), compress(4, bytes(10**6)), b"\x28\xb5\x2f\xfd"],
        "control_record": [b"\2\0\0\0\0", b"\2\0\1\0\1", b"\1\xff\xff\0\0", b"\2\0", record(Rec(key=b"\0\0\0\0"))],
        "aborted_filter": [bytes([1, 5, 1, 9]), bytes(range(64)), b"\x18\x04\x00\x08", b"\x1c\x00\x0c\x04"],
    }


def main() -> None:
    for name, inputs in seeds().items():
        directory = CORPUS / name
        directory.mkdir(parents=True, exist_ok=True)
        for data in inputs:
            (directory / hashlib.sha1(data).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    main()
