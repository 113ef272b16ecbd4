"""Entry points register formats, readable formats are offered, and each location is read by its own format."""

from __future__ import annotations

import logging

import pytest
from kafka_remote_fetchers.memory import MemoryFetcher

from kafka_remote_client.fetch.chunked_fetcher import ChunkedFetcher
from kafka_remote_client.fetch.storage_formats import RestoringFetcher, installed_formats, readable_formats
from kafka_remote_client.plugin import LocationMetadata, RemoteStorageFetcher
from kafka_remote_client.testing import FailingFetcher, read_all, segment_metadata

CHUNKED = "AivenTieredStorageV1"


class Reversed:
    """A format as another package could add it. It fails each fetch, so a test sees which format was used."""

    def __init__(self, missing: str | None = None) -> None:
        self._missing = missing

    def missing(self) -> str | None:
        return self._missing

    def restoring(self, inner: RemoteStorageFetcher) -> RemoteStorageFetcher:
        return FailingFetcher(inner, [])


def test_formats_of_this_distribution_are_installed() -> None:
    assert set(installed_formats()) == {CHUNKED}


def test_an_unreadable_format_is_not_offered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kafka_remote_client"):
        offered = readable_formats({"Here": Reversed(), "Elsewhere": Reversed("pip install reversed")})
    assert offered == ("ApacheKafkaV1", "Here")
    assert caplog.messages == ["the broker serves segments in format Elsewhere; to read them directly: pip install reversed"]


def test_each_format_has_its_own_fetcher_and_others_the_plain_one() -> None:
    plain = MemoryFetcher({"key": b"0123456789"})
    fetcher = RestoringFetcher(plain, {**installed_formats(), "Reversed": Reversed()})
    chunked = fetcher.of_format(CHUNKED)
    assert isinstance(chunked, ChunkedFetcher)
    assert isinstance(fetcher.of_format("Reversed"), FailingFetcher)
    assert fetcher.of_format("ApacheKafkaV1") is plain
    fetcher.configure({})
    found = segment_metadata(LocationMetadata(object_key="key").encode(), 10)
    assert read_all(fetcher.fetch_log_segment(found, 2, 5)) == b"234"
    fetcher.close()
    with pytest.raises(Exception, match="closed"):
        plain.fetch_log_segment(found, 0, 1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        chunked._buffers.restorers.submit(len, "")


def test_a_format_that_fails_to_close_leaves_no_other_one_open() -> None:
    closed: list[str] = []

    class Recorded(MemoryFetcher):
        def __init__(self, name: str) -> None:
            super().__init__({})
            self.name = name

        def close(self) -> None:
            closed.append(self.name)
            if self.name != "plain":
                raise KeyboardInterrupt

    class Format(Reversed):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def restoring(self, inner: RemoteStorageFetcher) -> RemoteStorageFetcher:
            return Recorded(self.name)

    fetcher = RestoringFetcher(Recorded("plain"), {"a": Format("a"), "b": Format("b")})
    with pytest.raises(KeyboardInterrupt):
        fetcher.close()
    assert sorted(closed) == ["a", "b", "plain"]
    assert closed[-1] == "plain", "formats may still use it"
