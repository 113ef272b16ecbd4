"""F47-F49: the shim grants the range with unusual facts: lists of aborted transactions, storage formats.

The test changes the shim's answer, so the product reads other bytes than the shim wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS
from kafka_remote_client.model import AbortedTransaction, GrantedRange
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.protocol.dialect import SegmentGrant
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding, ChunkIndex
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from tests.faults.bench import GrantChange, Rig
from tests.faults.scenario import ALL, Inject, Table
from tests.faults.streams import Segment, Transactions
from tests.support.aiven import AAD, stored_chunks

__all__ = ["GRANTED_STREAMS", "STORE_GRANTS"]

_table = Table()
STORE_GRANTS = _table.scenarios

_Aborted: TypeAlias = tuple[AbortedTransaction, ...]
_Answer: TypeAlias = tuple[SegmentGrant, PartitionData]


def _of_grants(change: GrantChange) -> Inject:
    return lambda rig: rig.change_grants(change)


# -- lists of aborted transactions ------------------------------------------------------------------------------------------


def aborted_segments() -> list[Segment]:
    """Overlapping transactions that end in another order than they began, so that each list has several."""
    log = Transactions()
    for _ in range(3):
        producers = range(500, 504)
        for producer in producers:
            log.records(3, producer=producer)
        for producer in reversed(producers):
            log.abort(producer)
        log.records(2)
        log.roll()
    return log.segments


GRANTED_STREAMS = {"aborted": aborted_segments}


def _aborted(change_list: Callable[[_Aborted], _Aborted | None]) -> Inject:
    def change(grant: SegmentGrant, data: PartitionData, _offset: int) -> _Answer:
        return grant, attrs.evolve(data, aborted_transactions=change_list(data.aborted_transactions or ()))

    return _of_grants(change)


def _late(count: int) -> Inject:
    """The first lists are not available yet."""

    def inject(rig: Rig) -> None:
        early = iter(range(count))
        _aborted(lambda found: found if next(early, None) is None else None)(rig)

    return inject


def _covers(ahead: int) -> Inject:
    """The list ends ``ahead`` offsets after the requested one."""

    def change(grant: SegmentGrant, data: PartitionData, offset: int) -> _Answer:
        ranges = tuple(attrs.evolve(one, first_offset=None) for one in grant.ranges)  # some begin after the list's end
        return attrs.evolve(grant, ranges=ranges, next_offset=min(grant.next_offset, offset + ahead)), data

    return _of_grants(change)


# read_uncommitted gets no lists.
_COMMITTED: dict[str, Any] = {"kinds": ALL, "isolation": ("read_committed",), "stream": "aborted"}
_UNKNOWN = "aborted-unknown"
_table.add("aborted-unsorted", "F47", _aborted(lambda found: found[::-1]), heals=True, **_COMMITTED)
_table.add("aborted-repeated", "F47", _aborted(lambda found: found * 3), heals=True, **_COMMITTED)
_table.add("aborted-repeated-unsorted", "F47", _aborted(lambda found: found[::-1] + found), heals=True, **_COMMITTED)
for count in (1, 3):
    _table.add(f"aborted-late-{count}", "F47", _late(count), _UNKNOWN, **_COMMITTED)
_table.add("aborted-never", "F47", _aborted(lambda _: None), _UNKNOWN, **_COMMITTED)
for ahead in (1, 3, 10):
    _table.add(f"aborted-covers-{ahead}", "F48", _covers(ahead), kinds=ALL, heals=True)


# -- storage formats --------------------------------------------------------------------------------------------------------

_CHUNK_SIZE = 400
_CHUNKED = CHUNKED_FORMATS[-1]
_ZSTD, _AES = ChunkEncoding(compressed=True), ChunkEncoding(encrypted=True)


def _format(name: str) -> Inject:
    return _of_grants(lambda grant, data, _offset: (attrs.evolve(grant, format=name), data))


def _chunks(log: bytes, encoding: ChunkEncoding) -> list[bytes]:
    return stored_chunks(log, _CHUNK_SIZE, compressed=encoding.compressed, encrypted=encoding.encrypted)


def _kept_in_chunks(encoding: ChunkEncoding) -> Inject:
    """The object is not in Kafka's format, and the grant does not say so."""
    return lambda rig: rig.replace(1, lambda log: b"".join(_chunks(log, encoding)))


def _granted_in_chunks(encoding: ChunkEncoding, data_key: bytes | None) -> Inject:
    """The second segment is stored in chunks, and the grant says so. ``data_key`` is a wrong one."""

    def inject(rig: Rig) -> None:
        log = rig.stream.logs[rig.stream.keys[1]]
        sizes = [len(chunk) for chunk in _chunks(log, encoding)]
        index = ChunkIndex.of_sizes(encoding, sizes, chunk_size=_CHUNK_SIZE, original_start=0, original_end=len(log))
        table = ChunkTable(index, encoding, AAD if encoding.encrypted else None).encode()

        def described(granted: GrantedRange) -> GrantedRange:
            known = LocationMetadata.decode(granted.custom_metadata)
            return attrs.evolve(granted, custom_metadata=attrs.evolve(known, chunk_table=table, data_key=data_key).encode())

        def change(grant: SegmentGrant, data: PartitionData, _offset: int) -> _Answer:
            if grant.segment_size != len(log):
                return grant, data
            return attrs.evolve(grant, format=_CHUNKED, ranges=tuple(map(described, grant.ranges))), data

        rig.change_grants(change)
        _kept_in_chunks(encoding)(rig)

    return inject


for name in ("Iceberg", "ApacheKafkaV9", ""):
    _table.add(f"format-{name or 'none'}", "F49", _format(name), "unsupported-format", kinds=ALL)
_table.add("said-to-be-in-chunks", "F49", _format(_CHUNKED), kinds=ALL, heals=True)  # without a chunk table: as stored
_table.add("encrypted-without-key", "F49", _granted_in_chunks(_AES, None), "invalid-response", kinds=ALL)
# A URL is signed for the range of the original log, so the store rejects the range of the chunks.
_table.add("encrypted-with-another-key", "F49", _granted_in_chunks(_AES, bytes(32)), "invalid-response", kinds=("s3", "local"))
_table.add("encrypted-and-not-said", "F49", _kept_in_chunks(_AES), "corrupt unsupported-format", kinds=ALL)
_table.add(
    "compressed-and-not-said",
    "F49",
    _kept_in_chunks(_ZSTD),
    "corrupt unsupported-format range-not-satisfiable unavailable invalid-response",
    kinds=ALL,
)
