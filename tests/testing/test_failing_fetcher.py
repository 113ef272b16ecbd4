from __future__ import annotations

import pytest
from kafka_remote_fetchers.memory import MemoryFetcher

from kafka_remote_client.errors import RemoteStorageTimeoutError, RemoteStorageUnavailableError
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.testing import FailingFetcher, Failure, read_all, segment_metadata

METADATA = segment_metadata(LocationMetadata(object_key="key").encode())
DATA = bytes(range(100))


@pytest.fixture
def fetcher() -> FailingFetcher:
    return FailingFetcher(MemoryFetcher({"key": DATA}))


def test_fetches_until_it_is_set_to_fail(fetcher: FailingFetcher) -> None:
    fetcher.configure({})
    assert read_all(fetcher.fetch_log_segment(METADATA, 0, -1)) == DATA
    fetcher.fail(Failure(RemoteStorageTimeoutError("scripted")), None)
    with pytest.raises(RemoteStorageTimeoutError, match="scripted"):
        fetcher.fetch_log_segment(METADATA, 0, 10)
    assert read_all(fetcher.fetch_log_segment(METADATA, 5, 10)) == DATA[5:10]
    assert read_all(fetcher.fetch_log_segment(METADATA, 5, 11)) == DATA[5:11]
    assert fetcher.fetches == [(0, -1), (0, 10), (5, 10), (5, 11)]
    fetcher.close()


@pytest.mark.parametrize("piece", [1, 7, 30, 31, 1000])
def test_fails_in_the_middle_of_a_range(fetcher: FailingFetcher, piece: int) -> None:
    fetcher.fail(Failure(RemoteStorageUnavailableError("scripted"), after=30))
    stream = fetcher.fetch_log_segment(METADATA, 0, 100)
    buffer, received = bytearray(piece), b""
    while len(received) < 30:
        received += buffer[: stream.readinto(buffer)]
    assert received == DATA[:30]
    with pytest.raises(RemoteStorageUnavailableError):
        stream.readinto(buffer)
    stream.close()


def test_a_short_range_ends_without_an_error() -> None:
    fetcher = FailingFetcher(MemoryFetcher({"key": DATA}), Failure(None, after=30), Failure(None))
    assert read_all(fetcher.fetch_log_segment(METADATA, 0, 100)) == DATA[:30]
    assert read_all(fetcher.fetch_log_segment(METADATA, 0, 100)) == b""
