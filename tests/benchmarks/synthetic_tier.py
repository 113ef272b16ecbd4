"""Segments of equal batches on disk, and the process that serves them as a store of a model would.

All batches have 64 KiB and one record, and their offsets rise by one. So where an offset lies follows by arithmetic, and a
tier of any shape costs the time to write its bytes.

Started as a module with the directory and the model as JSON, it prints the origin's URL.
The end of standard input stops it.
"""

from __future__ import annotations

import itertools
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Self

import attrs

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import (
    ByteRange,
    GrantedRange,
    RemoteLogSegmentId,
    SegmentLocation,
    TopicIdPartition,
)
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.remote_log.window import range_size
from kafka_remote_client.shim.origin import ObjectOrigin, OriginFaults
from kafka_remote_client.shim.signing import UrlSigner
from kafka_remote_client.testing import FixedLatency, StoreModel
from tests.benchmarks.running import ROOT
from tests.support.batches import Rec, batch
from tests.support.live_store import LiveStoreModel
from tests.support.locations import SEGMENT_ID, TOPIC_ID, location, segment

__all__ = ["BATCH_BYTES", "TOPIC", "StoreProcess", "SyntheticTier", "signer_of", "write_tier"]

TOPIC = "synthetic"
BATCH_BYTES = 64 << 10
_SECRET = b"only for benchmarks"
_LARGEST_RANGE = 8 << 20
_URL_SECONDS = 3600.0


@attrs.frozen
class SyntheticTier:
    """Each of ``partitions`` partitions has the same ``segments`` segments of ``batches`` batches. Partitions share objects."""

    partitions: int
    segments: int
    batches: int

    @property
    def nbytes(self) -> int:
        """Bytes that a reader of all partitions gets."""
        return self.partitions * self.segments * self.batches * BATCH_BYTES

    def locate(self, partition: int, offset: int, window: int, range_bytes: int, signer: UrlSigner) -> SegmentLocation | None:
        """The window of at most ``window`` bytes at an offset, in ranges of ``range_bytes``; ``None`` behind the end."""
        number, first = divmod(offset, self.batches)
        if number >= self.segments:
            return None
        last = min(self.batches, first + max(1, window // BATCH_BYTES))
        step = max(1, range_size(window, range_bytes, _LARGEST_RANGE) // BATCH_BYTES)
        cuts = [*range(first, last, step), last]
        base = number * self.batches
        ranges = [ByteRange(one * BATCH_BYTES, two * BATCH_BYTES) for one, two in itertools.pairwise(cuts)]
        return location(
            metadata=segment(
                remote_log_segment_id=RemoteLogSegmentId(TopicIdPartition(TOPIC_ID, TOPIC, partition), SEGMENT_ID),
                start_offset=base,
                end_offset=base + self.batches - 1,
                segment_size_in_bytes=self.batches * BATCH_BYTES,
            ),
            fetch_offset=offset,
            ranges=tuple(GrantedRange(one, _signed(_key(number), one, signer)) for one in ranges),
            next_offset=base + last,
        )


def write_tier(directory: Path, tier: SyntheticTier) -> None:
    """Writes the objects of a tier below ``directory``."""
    size = BATCH_BYTES - len(batch(0, [Rec(value=bytes(BATCH_BYTES // 2))])) + BATCH_BYTES // 2
    template = bytearray(batch(0, [Rec(value=bytes(size))]))
    assert len(template) == BATCH_BYTES, len(template)
    for number in range(tier.segments):
        with (directory / _key(number)).open("wb") as log:
            for offset in range(number * tier.batches, (number + 1) * tier.batches):
                struct.pack_into(">q", template, 0, offset)  # the checksum does not cover the offset
                log.write(template)


class StoreProcess:
    """An object origin over ``directory`` that answers as a store of ``latency`` seconds and that bandwidth would."""

    def __init__(self, directory: Path, latency: float, connection_bytes_per_second: float | None = None) -> None:
        model = json.dumps({"latency": latency, "connection_bytes_per_second": connection_bytes_per_second})
        command = [sys.executable, "-m", __name__, str(directory), model]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("the store did not start")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def signer_of(url: str) -> UrlSigner:
    """What signs URLs of a :class:`StoreProcess`."""
    return UrlSigner(_SECRET, url, SystemClock())


def _key(number: int) -> str:
    return f"segment-{number:05d}.log"


def _signed(key: str, wanted: ByteRange, signer: UrlSigner) -> bytes:
    signed = signer.sign(key, wanted, _URL_SECONDS)
    return LocationMetadata(object_key=key, url=signed.url, signed_headers=signed.headers).encode()


def main() -> None:
    given = json.loads(sys.argv[2])
    live = LiveStoreModel(StoreModel(FixedLatency(given["latency"]), given["connection_bytes_per_second"]))
    origin = ObjectOrigin(Path(sys.argv[1]), _SECRET, faults=OriginFaults(store=live))
    origin.start()
    try:
        print(origin.url, flush=True)
        sys.stdin.read()
    finally:
        origin.stop()


if __name__ == "__main__":
    main()
