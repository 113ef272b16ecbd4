import pytest

from kafka_remote_client.errors import ObjectNotFoundError, RemoteStorageError, SegmentNotFoundError
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, RemoteStorageFetcher, WritableBuffer
from tests.support.locations import segment
from tests.support.tier import MemoryStore

WHERE = LocationMetadata(object_key="a/log").encode()


@pytest.fixture
def fetcher() -> StoreFetcher:
    store = MemoryStore()
    store.objects["a/log"] = bytes(range(100))
    return StoreFetcher(store)


def read(fetcher: StoreFetcher, start: int, end: int, where: bytes | None = WHERE) -> bytes:
    stream = fetcher.fetch_log_segment(segment(segment_size_in_bytes=100, custom_metadata=where), start, end)
    out = bytearray()
    piece = bytearray(30)
    while count := stream.readinto(piece):
        out += piece[:count]
    stream.close()
    assert stream.readinto(piece) == 0
    return bytes(out)


def test_reads_ranges_of_the_segment(fetcher: StoreFetcher) -> None:
    assert isinstance(fetcher, RemoteStorageFetcher)
    fetcher.configure({})
    assert read(fetcher, 10, 90) == bytes(range(10, 90))
    assert read(fetcher, 95, -1) == bytes(range(95, 100))
    fetcher.close()


def test_a_missing_object_is_a_missing_segment(fetcher: StoreFetcher) -> None:
    with pytest.raises(SegmentNotFoundError):
        read(fetcher, 0, 1, LocationMetadata(object_key="b/log").encode())


def test_a_location_without_a_key_is_refused(fetcher: StoreFetcher) -> None:
    with pytest.raises(RemoteStorageError, match="object key"):
        read(fetcher, 0, 1, None)


def test_object_not_found_stays_an_error_of_the_store() -> None:
    assert not issubclass(ObjectNotFoundError, RemoteStorageError)


class StreamingStore(MemoryStore):
    """It writes into the memory of the reader; ``received`` lists these buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[WritableBuffer] = []

    def open_range(self, key: str, start: int, end: int) -> ReadableStream:
        data, received = memoryview(self._object(key))[start:end], self.received

        class Stream:
            def readinto(self, buffer: WritableBuffer, /) -> int:
                nonlocal data
                received.append(buffer)
                count = min(len(buffer), len(data))
                buffer[:count], data = data[:count], data[count:]
                return count

            def close(self) -> None:
                nonlocal data
                data = data[:0]

        return Stream()


def test_a_store_with_streams_writes_into_the_readers_memory() -> None:
    store = StreamingStore()
    store.objects["a/log"] = bytes(range(100))
    fetcher = StoreFetcher(store)
    assert read(fetcher, 10, 90) == bytes(range(10, 90))
    assert read(fetcher, 95, -1) == bytes(range(95, 100))
    buffer = bytearray(10)
    stream = fetcher.fetch_log_segment(segment(segment_size_in_bytes=100, custom_metadata=WHERE), 0, 10)
    assert stream.readinto(buffer) == 10
    assert store.received[-1] is buffer
    assert store.calls == [], "no range was read as a whole"
    with pytest.raises(SegmentNotFoundError):
        read(fetcher, 0, 1, LocationMetadata(object_key="b/log").encode())
