"""Bad input in Aiven's layout, end to end: the shim grants nothing, a reader delivers valid records, then the broker reads.

Each case has its expected result; docs/aiven.md describes the same table.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import cramjam
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import GrantedRange, IsolationLevel, NotRemote, SegmentLocation
from kafka_remote_client.protocol import fetch
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.signing import UrlSigner
from kafka_remote_client.tiered_kafka.aiven_files import encode_sizes
from tests.support.aiven import AivenWriter, key_ring
from tests.support.questions import question
from tests.support.reading import PATIENT_ENGINE
from tests.support.shim_fakes import FakeAsk, client_request, tagged_fetch
from tests.support.tier import TIP, MemoryStore, Tier, batch

PLAIN, AES = AivenWriter("p/", 100), AivenWriter("p/", 100, encrypted=True)
ZSTD, BOTH = AivenWriter("p/", 100, compressed=True), AivenWriter("p/", 100, compressed=True, encrypted=True)
WRITERS = [PLAIN, AES, ZSTD, BOTH]
Change = Callable[[bytes], bytes | None]


class Laid:
    """Three segments of fifty offsets each in Aiven's layout. Tests damage the second, which begins at 50."""

    def __init__(self, writer: AivenWriter) -> None:
        self.tier = Tier()
        self.store = MemoryStore()
        self.layout = AivenLayout("p/", key_ring())
        aborted = [(7, 60, 69, 70)]
        for number in range(3):
            batches = [batch(number * 50 + n * 10, 10) for n in range(5)]
            segment = self.tier.add(batches, number=number + 1, indexed=[1, 2, 3], aborted=aborted if number == 1 else ())
            self.store.objects |= writer.objects(self.tier.store, segment)
            if number == 1:
                self.main = self.layout.object_key(segment, ObjectKind.LOG).removesuffix("log")

    def damage(self, suffix: str, change: Change) -> None:
        changed = change(self.store.objects.pop(self.main + suffix))
        if changed is not None:
            self.store.objects[self.main + suffix] = changed


def without(_data: bytes) -> None:
    """Removes the object."""


def cut(data: bytes) -> bytes:
    return data[:-1]


def cut_in_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped_last(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def other_bytes(data: bytes) -> bytes:
    return bytes(len(data))


def manifest(**changes: object) -> Change:
    """Changes a manifest; ``__`` in a name separates the part from its field."""

    def change(data: bytes) -> bytes:
        told = json.loads(data)
        for name, value in changes.items():
            part, dunder, inner = name.partition("__")
            if dunder:
                told[part][inner] = value
            else:
                told[part] = value
        return json.dumps(told).encode()

    return change


def bomb(data: bytes) -> bytes:
    """A small chunk index that decompresses to 64 MiB."""
    frame = base64.b64encode(bytes(cramjam.zstd.compress(bytes(64 << 20)))).decode()
    return manifest(chunkIndex__transformedChunks=frame)(data)


def bombs(data: bytes) -> bytes:
    """A log of the same size that begins with such a frame."""
    return bytes(cramjam.zstd.compress(bytes(64 << 20)))[: len(data)].ljust(len(data), b"\0")


# -- the shim: segments that it cannot parse are not granted ----------------------------------------------------------------

REFUSED: list[tuple[str, AivenWriter, str, Change, str]] = [
    ("manifest missing, as of an Iceberg table", PLAIN, "rsm-manifest", without, "object-not-found"),
    ("manifest cut", PLAIN, "rsm-manifest", cut, "metadata"),
    ("manifest empty", PLAIN, "rsm-manifest", lambda _: b"", "metadata"),
    ("manifest of another version", ZSTD, "rsm-manifest", manifest(version="2"), "metadata"),
    ("manifest of a wrong type", PLAIN, "rsm-manifest", manifest(compression="yes"), "metadata"),
    ("manifest without indexes", PLAIN, "rsm-manifest", manifest(segmentIndexes=None), "metadata"),
    ("negative size", PLAIN, "rsm-manifest", manifest(chunkIndex__originalFileSize=-1), "metadata"),
    ("overflowing size", PLAIN, "rsm-manifest", manifest(chunkIndex__originalChunkSize=2**31), "metadata"),
    ("size that is no integer", PLAIN, "rsm-manifest", manifest(chunkIndex__transformedChunkSize=1e300), "metadata"),
    ("another size than the metadata's", PLAIN, "rsm-manifest", manifest(chunkIndex__originalChunkSize=1), "metadata"),
    ("fixed chunks that do not tile", AES, "rsm-manifest", manifest(chunkIndex__transformedChunkSize=127), "metadata"),
    (
        "variable chunks that do not tile",
        ZSTD,
        "rsm-manifest",
        manifest(chunkIndex__transformedChunks=encode_sizes([50] * 3)),
        "metadata",
    ),
    ("bomb in a chunk index", ZSTD, "rsm-manifest", bomb, "metadata"),
    ("another key's data key", AES, "rsm-manifest", manifest(encryption__dataKey="key2:AAAA"), "data-key"),
    ("data key that cannot decrypt", AES, "rsm-manifest", manifest(encryption__dataKey="key1:AAAA"), "data-key"),
    ("indexes missing", PLAIN, "indexes", without, "object-not-found"),
    ("indexes cut", PLAIN, "indexes", cut_in_half, "corrupt-index"),
    ("indexes of something else", PLAIN, "indexes", other_bytes, "corrupt-index"),
    ("transaction index cut", BOTH, "indexes", cut, "corrupt-index"),
    ("flipped tag of an index", BOTH, "indexes", flipped_last, "corrupt-index"),
    ("log missing", BOTH, "log", without, "object-not-found"),
    ("log cut where it is looked at", ZSTD, "log", lambda data: data[:1], "corrupt-chunk"),
    ("log of something else", AES, "log", other_bytes, "corrupt-chunk"),
]


class Shimmed:
    """A shim's grants from a tier, with a broker that allows all of them."""

    def __init__(self, laid: Laid, keys: KeyRing | None = None) -> None:
        metadata = RemoteLogMetadataStore()
        laid.tier.publish(metadata)
        signer = UrlSigner(b"0123456789abcdef", "http://origin:1", SystemClock())
        layout = AivenLayout("p/", keys or key_ring())
        self.counters = Counters()
        self._tier = ResolvingTier(metadata, laid.store, layout, signer, url_ttl=60, ready=lambda _tip: True)

    def granted(self, offset: int) -> bool:
        asked = tagged_fetch(offset=offset, formats=CHUNKED_FORMATS)
        (partition,) = asked.topics[0].partitions
        topic = fetch.FetchTopic((attrs.evolve(partition, partition=TIP.partition),), TIP.topic, TIP.topic_id)
        with ThreadPoolExecutor(1) as workers:
            broker = GrantingBroker(self._tier, GrantLimits(plaintext_data_keys=True), self.counters, workers)
            request = client_request(attrs.evolve(asked, topics=(topic,)))
            return asyncio.run(broker.answer(request, FakeAsk())) is not None


@pytest.mark.parametrize(("what", "writer", "suffix", "change", "cause"), REFUSED, ids=[case[0] for case in REFUSED])
def test_the_shim_grants_nothing_of_a_bad_segment_and_all_of_the_next(
    what: str, writer: AivenWriter, suffix: str, change: Change, cause: str
) -> None:
    laid = Laid(writer)
    laid.damage(suffix, change)
    shim = Shimmed(laid)
    assert not shim.granted(62), what
    refused = {name: count for name, count in shim.counters.snapshot().items() if name.startswith("locations_refused.")}
    assert refused == {f"locations_refused.{cause}": 1}
    assert shim.granted(120)


@pytest.mark.parametrize("keys", [KeyRing(), KeyRing({})])
def test_without_its_key_no_encrypted_segment_is_granted(keys: KeyRing) -> None:
    shim = Shimmed(Laid(BOTH), keys)
    assert not shim.granted(62)
    assert shim.counters["locations_refused.data-key"] == 1


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_valid_segments_are_granted(writer: AivenWriter) -> None:
    shim = Shimmed(Laid(writer))
    assert [shim.granted(offset) for offset in (50, 62, 99, 120)] == [True] * 4


# -- the reader: valid records before the damage are delivered, and no others -----------------------------------------------


class Source(ListingLocationSource):
    """Locations of a tier; ``change`` alters each range's metadata as a hostile or broken peer could."""

    change: Callable[[LocationMetadata], LocationMetadata] = staticmethod(lambda told: told)

    def _answer(self, *arguments: Any, **named: Any) -> SegmentLocation | NotRemote:
        found = super()._answer(*arguments, **named)
        if isinstance(found, NotRemote) or not 50 <= found.fetch_offset < 100:
            return found
        changed = (
            GrantedRange(one.range, self.change(LocationMetadata.decode(one.custom_metadata)).encode()) for one in found.ranges
        )
        return attrs.evolve(found, ranges=tuple(changed))


def rows_and_end(laid: Laid, source: Source) -> tuple[list[tuple[Any, ...]], ReadEnd]:
    clock = SystemClock()
    config = attrs.evolve(PATIENT_ENGINE, retries=0)
    fetcher = ChunkedFetcher(StoreFetcher(laid.store))
    engine = FetchEngine(source, fetcher, config, clock=clock, metrics=FetchMetrics(clock), formats=CHUNKED_FORMATS)
    rows: list[tuple[Any, ...]] = []
    try:
        reader = engine.reader(ReadRequest(TIP.topic, TIP.partition, 0, isolation_level=IsolationLevel.READ_UNCOMMITTED))
        for item in reader.blocks(60):
            if isinstance(item, ReadEnd):
                return rows, item
            rows.extend(item.rows())
        raise AssertionError("a reader ends with its end")
    finally:
        engine.close()


def opened(laid: Laid) -> Source:
    """A source that has read everything once, so that a test damages a tier in use."""
    source = Source(laid.store, laid.layout, range_bytes=64)
    deadline = Deadline(SystemClock(), 60)
    for offset in (0, 50, 100):
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        locate_one(source, question(TIP.topic, TIP.partition, offset, isolation_level=uncommitted, max_bytes=1 << 20), deadline)
    return source


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_a_valid_tier_is_read_to_its_end(writer: AivenWriter) -> None:
    laid = Laid(writer)
    rows, end = rows_and_end(laid, opened(laid))
    assert [row[0] for row in rows] == list(range(150))
    assert (end.reason, end.next_offset) == ("local", 150)


def swapped(writer: AivenWriter) -> Change:
    size = 128 if writer.encrypted else 100

    def change(data: bytes) -> bytes:
        return data[:size] + data[2 * size : 3 * size] + data[size : 2 * size] + data[3 * size :]

    return change


def flipped_in_the_middle(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGED: list[tuple[str, AivenWriter, str, Change, set[str]]] = [
    ("log gone", ZSTD, "log", without, {"not-found"}),
    ("log cut", AES, "log", cut, {"unavailable"}),
    ("log cut in half", BOTH, "log", cut_in_half, {"unavailable"}),
    ("flipped bit of an encrypted chunk", AES, "log", flipped_in_the_middle, {"invalid-response"}),
    ("flipped tag of the last chunk", BOTH, "log", flipped_last, {"invalid-response"}),
    ("flipped bit of a compressed chunk", ZSTD, "log", flipped_in_the_middle, {"invalid-response", "corrupt"}),
    ("flipped bit of a plain log", PLAIN, "log", flipped_in_the_middle, {"corrupt"}),
    ("swapped encrypted chunks", AES, "log", swapped(AES), {"corrupt"}),
    ("swapped plain chunks", PLAIN, "log", swapped(PLAIN), {"corrupt"}),
    ("log replaced by another of its size", BOTH, "log", other_bytes, {"invalid-response"}),
    ("log replaced by a bomb", ZSTD, "log", bombs, {"invalid-response"}),
]


@pytest.mark.parametrize(("what", "writer", "suffix", "change", "reasons"), DAMAGED, ids=[case[0] for case in DAMAGED])
def test_a_reader_delivers_the_valid_records_and_ends_at_the_damage(
    what: str, writer: AivenWriter, suffix: str, change: Change, reasons: set[str]
) -> None:
    laid = Laid(writer)
    source = opened(laid)
    laid.damage(suffix, change)
    rows, end = rows_and_end(laid, source)
    assert end.reason in reasons, what
    assert [row[0] for row in rows] == list(range(end.next_offset))
    assert 50 <= end.next_offset < 100


GIGABYTES = bytes.fromhex("01 ffffffff07 00 ffffffff07 00 00 02 ffffffff07")
"""One compressed chunk of 2 GiB, in an object of 2 GiB."""
MEGABYTES = bytes.fromhex("01 80808020 00 80808020 00 00 02 80808020")
"""One compressed chunk of 64 MiB, in an object of 64 MiB."""


def with_table(change: Callable[[ChunkTable], bytes]) -> Callable[[LocationMetadata], LocationMetadata]:
    def changed(told: LocationMetadata) -> LocationMetadata:
        assert told.chunk_table is not None
        return attrs.evolve(told, chunk_table=change(ChunkTable.decode(told.chunk_table)))

    return changed


def shifted(table: ChunkTable) -> bytes:
    """A chunk table that is shifted by one byte."""
    moved = [start + 1 for start in table.chunks.starts]
    return attrs.evolve(table, chunks=attrs.evolve(table.chunks, starts=moved, object_end=table.chunks.object_end + 1)).encode()


LIES: list[tuple[str, AivenWriter, Callable[[LocationMetadata], LocationMetadata], set[str]]] = [
    ("no chunk table", ZSTD, lambda told: attrs.evolve(told, chunk_table=None), {"corrupt"}),
    ("chunk table cut", ZSTD, with_table(lambda table: table.encode()[:-1]), {"invalid-response"}),
    ("chunk table of nothing", ZSTD, with_table(lambda _: b""), {"invalid-response"}),
    ("chunk table of other places", BOTH, with_table(shifted), {"invalid-response", "unavailable"}),
    ("chunk table of gigabytes", ZSTD, with_table(lambda _: GIGABYTES), {"invalid-response"}),
    ("chunk table of more than there is", ZSTD, with_table(lambda _: MEGABYTES), {"unavailable"}),
    ("no data key", BOTH, lambda told: attrs.evolve(told, data_key=None), {"invalid-response"}),
    ("wrong data key", BOTH, lambda told: attrs.evolve(told, data_key=bytes(32)), {"invalid-response"}),
    ("short data key", AES, lambda told: attrs.evolve(told, data_key=bytes(16)), {"invalid-response"}),
]


@pytest.mark.parametrize(("what", "writer", "change", "reasons"), LIES, ids=[case[0] for case in LIES])
def test_a_false_location_costs_speed_only(
    what: str, writer: AivenWriter, change: Callable[[LocationMetadata], LocationMetadata], reasons: set[str]
) -> None:
    laid = Laid(writer)
    source = opened(laid)
    source.change = change
    rows, end = rows_and_end(laid, source)
    assert end.reason in reasons, what
    assert [row[0] for row in rows] == list(range(50))
    assert end.next_offset == 50
