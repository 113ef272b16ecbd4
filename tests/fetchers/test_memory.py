from __future__ import annotations

import pytest
from kafka_remote_fetchers.memory import MemoryFetcher

from kafka_remote_client.errors import RemoteStorageError, RemoteStorageUnavailableError
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.testing import read_all, segment_metadata

METADATA = segment_metadata(LocationMetadata(object_key="key").encode())


def test_an_instance_made_by_name_reads_the_shared_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryFetcher, "shared", {"key": b"shared"})
    fetcher = MemoryFetcher()
    fetcher.configure({"remote.storage.fetcher.anything": 1})
    assert read_all(fetcher.fetch_log_segment(METADATA, 0, -1)) == b"shared"


def test_an_instance_with_its_own_objects_shares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryFetcher, "shared", {"key": b"shared"})
    assert read_all(MemoryFetcher({"key": b"own"}).fetch_log_segment(METADATA, 0, 3)) == b"own"


def test_an_object_put_later_is_found() -> None:
    objects: dict[str, bytes] = {}
    fetcher = MemoryFetcher(objects)
    objects["key"] = b"later"
    assert read_all(fetcher.fetch_log_segment(METADATA, 1, 3)) == b"at"


def test_a_location_without_a_key_is_refused() -> None:
    with pytest.raises(RemoteStorageError, match="has no object key"):
        MemoryFetcher({}).fetch_log_segment(segment_metadata(None), 0, 1)


def test_reading_a_closed_stream_is_refused() -> None:
    stream = MemoryFetcher({"key": b"bytes"}).fetch_log_segment(METADATA, 0, -1)
    stream.close()
    with pytest.raises(RemoteStorageUnavailableError):
        stream.readinto(bytearray(1))
