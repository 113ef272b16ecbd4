"""The conformance suite of fetchers: what a consumer relies on in every plugin. Needs pytest.

Subclass it in a test module, say how to make a fetcher and how to put an object where it will look::

    class TestTapeFetcher(RemoteStorageFetcherTests):
        @pytest.fixture
        def fetcher(self, tmp_path):
            self.root = tmp_path
            fetcher = TapeFetcher()
            fetcher.configure({"remote.storage.fetcher.tape.root": str(tmp_path)})
            yield fetcher
            fetcher.close()

        def put(self, key, data):
            (self.root / key).write_bytes(data)
            return LocationMetadata(object_key=key).encode()

        def absent(self, key):
            return LocationMetadata(object_key=key).encode()

Every test of this class then runs against it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from kafka_remote_client.errors import DirectFetchError, RangeNotSatisfiableError, RemoteStorageError, SegmentNotFoundError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, RemoteStorageFetcher

__all__ = ["RemoteStorageFetcherTests", "read_all", "segment_metadata", "texts_of"]

_SEED = 1254
_SEGMENT = RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "topic", 0), UUID(int=2))
_SMALL = bytes(range(256)) * 4
_SIZE = len(_SMALL)
_END = -1
_PIECE = 64 * 1024


def segment_metadata(custom_metadata: bytes | None, size: int = _SIZE) -> RemoteLogSegmentMetadata:
    """Metadata of a segment of ``size`` bytes with this custom metadata; the other fields are arbitrary."""
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=_SEGMENT,
        start_offset=0,
        end_offset=99,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=0,
        segment_leader_epochs=(EpochEntry(0, 0),),
        segment_size_in_bytes=size,
        custom_metadata=custom_metadata,
    )


def read_all(stream: ReadableStream, piece: int = _PIECE) -> bytes:
    """Reads the stream to its end, ``piece`` bytes at a time, and closes it."""
    buffer = bytearray(piece)
    collected = bytearray()
    try:
        while count := stream.readinto(buffer):
            collected += buffer[:count]
    finally:
        stream.close()
    return bytes(collected)


def texts_of(error: BaseException) -> Iterator[str]:
    """All texts of an error and of the errors in its chain."""
    chain: BaseException | None = error
    while chain is not None:
        yield from (str(chain), repr(chain), repr(chain.args), repr(getattr(chain, "__dict__", None)))
        chain = chain.__cause__ or chain.__context__


class RemoteStorageFetcherTests:
    """Subclasses define ``fetcher``, ``put`` and ``absent``, and ``locate`` if a location opens only one range.

    ``open_ended`` False: such a location cannot open a range to the segment's end, and the suite asks for none.
    """

    open_ended: bool = True

    @pytest.fixture
    def fetcher(self) -> Iterator[RemoteStorageFetcher]:
        """A configured fetcher, closed afterwards."""
        raise NotImplementedError("give a fixture 'fetcher'")

    def put(self, key: str, data: bytes) -> bytes:
        """Stores an object. Returns the custom metadata by which the fetcher finds it. Called after ``fetcher`` is set up."""
        raise NotImplementedError("store the object, return its custom metadata")

    def absent(self, key: str) -> bytes:
        """The custom metadata of an object that is not in the store."""
        raise NotImplementedError("return the custom metadata of an object that does not exist")

    def locate(self, custom_metadata: bytes, start: int, end: int) -> bytes:
        """The custom metadata for one range of an object that was put."""
        return custom_metadata

    def open(self, fetcher: RemoteStorageFetcher, custom_metadata: bytes, start: int, end: int) -> ReadableStream:
        """Opens a range as a consumer does."""
        if end == _END and not self.open_ended:
            end = max(start + 1, _SIZE)
        located = self.locate(custom_metadata, start, end)
        return fetcher.fetch_log_segment(segment_metadata(located), start, end)

    def fails(self, fetcher: RemoteStorageFetcher, custom_metadata: bytes, start: int, end: int) -> RemoteStorageError:
        """Returns the error of a fetch that must fail, on opening or on reading."""
        with pytest.raises(RemoteStorageError) as caught:
            read_all(self.open(fetcher, custom_metadata, start, end))
        return caught.value

    def test_is_a_fetcher(self, fetcher: RemoteStorageFetcher) -> None:
        assert isinstance(fetcher, RemoteStorageFetcher)

    def test_reads_to_the_end_of_the_segment(self, fetcher: RemoteStorageFetcher) -> None:
        found = self.put("whole.log", _SMALL)
        assert read_all(self.open(fetcher, found, 0, _END)) == _SMALL
        assert read_all(self.open(fetcher, found, 1000, _END)) == _SMALL[1000:]
        assert read_all(self.open(fetcher, found, _SIZE - 1, _END)) == _SMALL[-1:]

    @pytest.mark.parametrize(
        ("start", "end"), [(0, _SIZE), (0, 1), (1, 2), (0, 100), (255, 257), (7, 1000), (_SIZE - 1, _SIZE), (100, _SIZE)]
    )
    def test_reads_start_inclusive_to_end_exclusive(self, fetcher: RemoteStorageFetcher, start: int, end: int) -> None:
        found = self.put("range.log", _SMALL)
        assert read_all(self.open(fetcher, found, start, end)) == _SMALL[start:end]

    @pytest.mark.parametrize("piece", [1, 3, 255, 256, 257, _SIZE - 1, _SIZE, _SIZE + 1])
    def test_reads_in_pieces_of_any_size(self, fetcher: RemoteStorageFetcher, piece: int) -> None:
        found = self.put("pieces.log", _SMALL)
        assert read_all(self.open(fetcher, found, 0, _SIZE), piece) == _SMALL

    def test_reads_ranges_larger_than_any_internal_buffer(self, fetcher: RemoteStorageFetcher) -> None:
        data = _dice().randbytes(5 * 1024 * 1024)
        found = self.put("large.log", data)
        assert read_all(self.open(fetcher, found, 1, len(data) - 1), 1024 * 1024) == data[1:-1]

    def test_a_larger_buffer_keeps_its_remaining_bytes(self, fetcher: RemoteStorageFetcher) -> None:
        found = self.put("short.log", _SMALL)
        stream = self.open(fetcher, found, 0, 10)
        buffer = bytearray(b"\xee" * 100)
        with memoryview(buffer) as view:
            filled = 0
            while count := stream.readinto(view[filled:]):
                filled += count
        stream.close()
        assert (filled, bytes(buffer)) == (10, _SMALL[:10] + b"\xee" * 90)

    def test_a_read_into_an_empty_buffer_loses_no_bytes(self, fetcher: RemoteStorageFetcher) -> None:
        stream = self.open(fetcher, self.put("empty-read.log", _SMALL), 0, 100)
        assert stream.readinto(bytearray()) == 0
        assert read_all(stream) == _SMALL[:100]

    def test_a_read_at_the_end_returns_zero_repeatedly(self, fetcher: RemoteStorageFetcher) -> None:
        stream = self.open(fetcher, self.put("end.log", _SMALL), 0, 10)
        buffer = bytearray(100)
        while stream.readinto(buffer):
            pass
        assert [stream.readinto(buffer) for _ in range(3)] == [0, 0, 0]
        stream.close()

    def test_a_read_does_not_keep_the_callers_buffer(self, fetcher: RemoteStorageFetcher) -> None:
        stream = self.open(fetcher, self.put("free.log", _SMALL), 0, 100)
        buffer = bytearray(10)
        assert stream.readinto(buffer) > 0
        buffer.extend(b"a bytearray cannot grow while a view of it exists")
        stream.close()

    def test_a_missing_object_is_not_found(self, fetcher: RemoteStorageFetcher) -> None:
        assert isinstance(self.fails(fetcher, self.absent("absent.log"), 0, 10), SegmentNotFoundError)

    @pytest.mark.parametrize(
        ("start", "end"), [(_SIZE, _SIZE + 1), (_SIZE, _END), (_SIZE + 1000, _END), (_SIZE - 1, _SIZE + 1)]
    )
    def test_a_range_past_the_end_is_not_satisfiable(self, fetcher: RemoteStorageFetcher, start: int, end: int) -> None:
        found = self.put("past.log", _SMALL)
        assert isinstance(self.fails(fetcher, found, start, end), RangeNotSatisfiableError)

    @pytest.mark.parametrize(("start", "end"), [(10, 10), (10, 9), (-1, 10), (-5, -1), (0, -2)])
    def test_an_invalid_range_is_refused(self, fetcher: RemoteStorageFetcher, start: int, end: int) -> None:
        found = self.put("no-range.log", _SMALL)
        with pytest.raises(RemoteStorageError):
            read_all(fetcher.fetch_log_segment(segment_metadata(found), start, end))

    def test_malformed_custom_metadata_is_refused(self, fetcher: RemoteStorageFetcher) -> None:
        dice = _dice()
        for custom_metadata in [None, b"", b"\x00", b"\xff" * 40, *(dice.randbytes(dice.randrange(60)) for _ in range(50))]:
            with pytest.raises(RemoteStorageError):
                read_all(fetcher.fetch_log_segment(segment_metadata(custom_metadata), 0, 10))

    def test_errors_redact_the_location(self, fetcher: RemoteStorageFetcher) -> None:
        missing = self.absent("secret.log")
        present = self.put("present.log", _SMALL)
        for found, start, end in [(missing, 0, 10), (present, _SIZE, _SIZE + 1)]:
            secrets = _secrets_in(self.locate(found, start, end))
            error = self.fails(fetcher, found, start, end)
            assert not [text for text in texts_of(error) for secret in secrets if secret in text]

    def test_a_partly_read_stream_closes_more_than_once(self, fetcher: RemoteStorageFetcher) -> None:
        found = self.put("close.log", _SMALL)
        for read in (0, 1, 100):
            stream = self.open(fetcher, found, 0, 100)
            if read:
                assert stream.readinto(bytearray(read)) > 0
            stream.close()
            stream.close()
        assert read_all(self.open(fetcher, found, 0, 100)) == _SMALL[:100]

    def test_abandoned_streams_do_not_block_later_reads(self, fetcher: RemoteStorageFetcher) -> None:
        found = self.put("abandoned.log", _SMALL)
        streams = [self.open(fetcher, found, 0, _SIZE) for _ in range(20)]
        assert read_all(self.open(fetcher, found, 5, 10)) == _SMALL[5:10]
        for stream in streams:
            stream.close()

    def test_serves_many_threads_at_once(self, fetcher: RemoteStorageFetcher) -> None:
        data = _dice().randbytes(300_000)
        found = self.put("threads.log", data)

        def read_some(seed: int) -> bool:
            dice = _dice(seed)
            ranges = [sorted(dice.sample(range(len(data) + 1), 2)) for _ in range(10)]
            return all(read_all(self.open(fetcher, found, start, end)) == data[start:end] for start, end in ranges)

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(read_some, range(16)))

    def test_a_closed_fetcher_closes_again_and_refuses_reads(self, fetcher: RemoteStorageFetcher) -> None:
        found = self.put("closed.log", _SMALL)
        fetcher.close()
        fetcher.close()
        self.fails(fetcher, found, 0, 10)


def _dice(seed: int = _SEED) -> random.Random:
    return random.Random(seed)  # noqa: S311 - test data, the same in every run


def _secrets_in(custom_metadata: bytes) -> list[str]:
    """The secret parts of a location: its URL, path, query, and the values of its headers."""
    try:
        location = LocationMetadata.decode(custom_metadata)
    except DirectFetchError:
        return []
    parts = urlsplit(location.url or "")
    values = [location.url, parts.query, parts.path.strip("/"), *(value for _, value in location.signed_headers)]
    return [value for value in values if value]
