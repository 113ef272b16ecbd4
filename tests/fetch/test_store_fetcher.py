import pytest

from kafka_remote_client.errors import ObjectNotFoundError, RemoteStorageError, SegmentNotFoundError
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.plugin import LocationMetadata, RemoteStorageFetcher
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
