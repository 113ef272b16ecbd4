from __future__ import annotations

import pytest

from kafka_remote_client.errors import RemoteStorageError
from kafka_remote_client.fetch.range_place import located, store_host
from kafka_remote_client.model import ByteRange, GrantedRange
from kafka_remote_client.plugin import LocationMetadata
from tests.support.locations import location


@pytest.mark.parametrize(
    ("metadata", "host"),
    [
        (LocationMetadata(url="https://store.example:9000/a?signature=s").encode(), "store.example:9000"),
        (LocationMetadata(url="https://user:secret@store.example/a").encode(), "store.example"),
        (LocationMetadata(url="https://[broken/a").encode(), "store"),
        (LocationMetadata(object_key="a").encode(), "store"),
        (b"\xff\xff", "store"),
        (None, "store"),
    ],
)
def test_health_is_counted_by_host(metadata: bytes | None, host: str) -> None:
    assert store_host(GrantedRange(ByteRange(0, 1), metadata)) == host


def test_an_error_shows_the_path_of_a_url_without_its_signature() -> None:
    metadata = LocationMetadata(url="https://store/tier/a.log?X-Amz-Signature=hush").encode()
    error = located(RemoteStorageError("reset"), location(), GrantedRange(ByteRange(3, 9), metadata))
    assert (error.topic, error.partition, error.host, error.byte_range) == ("orders", 0, "store", (3, 9))
    assert error.context.object_key == "tier/a.log"
    assert "hush" not in f"{error} {error.context!r} {vars(error)}"
