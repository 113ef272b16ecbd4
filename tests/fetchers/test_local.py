from __future__ import annotations

import os
from pathlib import Path

import pytest
from kafka_remote_fetchers.local import LocalFetcher

from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_client.testing import read_all, segment_metadata, texts_of
from tests.support.descriptors import open_below


@pytest.fixture
def fetcher(tmp_path: Path) -> LocalFetcher:
    (tmp_path / "segment.log").write_bytes(bytes(1000))
    made = LocalFetcher()
    made.configure({"remote.storage.fetcher.local.root": str(tmp_path)})
    return made


def open_key(fetcher: LocalFetcher, key: str | None, start: int = 0, end: int = 10) -> ReadableStream:
    return fetcher.fetch_log_segment(segment_metadata(LocationMetadata(object_key=key).encode()), start, end)


def test_needs_a_root() -> None:
    with pytest.raises(ConfigurationError, match=r"needs remote\.storage\.fetcher\.local\.root"):
        LocalFetcher().configure({})


def test_the_root_is_the_stores_directory_unless_it_is_set(fetcher: LocalFetcher, tmp_path: Path) -> None:
    of_the_store = LocalFetcher()
    of_the_store.configure({"remote.storage.store.url": tmp_path.as_uri()})
    assert len(read_all(open_key(of_the_store, "segment.log"))) == 10
    with pytest.raises(ConfigurationError, match="needs"):
        LocalFetcher().configure({"remote.storage.store.url": "s3://bucket"})


def test_an_unconfigured_or_closed_fetcher_reads_nothing(fetcher: LocalFetcher) -> None:
    fetcher.close()
    for unusable in (fetcher, LocalFetcher()):
        with pytest.raises(RemoteStorageUnavailableError, match="not configured"):
            open_key(unusable, "segment.log")


@pytest.mark.parametrize("key", ["../segment.log", "/etc/passwd", "a\0", "", "proc", "link"])
def test_s17_keys_outside_the_root_are_refused(fetcher: LocalFetcher, tmp_path: Path, key: str) -> None:
    (tmp_path / "proc").symlink_to("/proc/self/environ")
    (tmp_path / "link").symlink_to("segment.log")
    with pytest.raises(ForbiddenLocationError):
        open_key(fetcher, key)


def test_errors_do_not_show_the_path(fetcher: LocalFetcher, tmp_path: Path) -> None:
    with pytest.raises(SegmentNotFoundError) as caught:
        open_key(fetcher, "absent.log")
    texts = "".join(texts_of(caught.value))
    assert "absent.log" not in texts
    assert str(tmp_path) not in texts


def test_a_location_without_a_key_is_refused(fetcher: LocalFetcher) -> None:
    with pytest.raises(RemoteStorageError, match="has no object key"):
        open_key(fetcher, None)


def test_a_file_that_shrinks_during_a_read_is_unavailable(fetcher: LocalFetcher, tmp_path: Path) -> None:
    stream = open_key(fetcher, "segment.log", 0, 1000)
    assert stream.readinto(bytearray(100)) == 100
    os.truncate(tmp_path / "segment.log", 50)
    with pytest.raises(RemoteStorageUnavailableError, match="ended before the range"):
        stream.readinto(bytearray(100))
    stream.close()


def test_reading_a_closed_stream_is_refused(fetcher: LocalFetcher) -> None:
    stream = open_key(fetcher, "segment.log")
    stream.close()
    with pytest.raises(RemoteStorageUnavailableError):
        stream.readinto(bytearray(10))


def test_streams_outlive_the_fetcher(fetcher: LocalFetcher) -> None:
    stream = open_key(fetcher, "segment.log", 0, -1)
    fetcher.close()
    assert read_all(stream) == bytes(1000)


def test_a_refused_range_leaves_no_file_open(fetcher: LocalFetcher, tmp_path: Path) -> None:
    with pytest.raises(RemoteStorageError):
        open_key(fetcher, "segment.log", 0, 1001)
    assert open_below(tmp_path) == []
