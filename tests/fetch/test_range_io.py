from collections.abc import Callable
from typing import Any

import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import (
    ErrorContext,
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.range_io import Transfer, attempt, discard_range, read_range
from kafka_remote_client.model import ByteRange, GrantedRange, RemoteLogSegmentMetadata, uuid_to_text
from kafka_remote_client.plugin import LocationMetadata, WritableBuffer
from tests.support.locations import SEGMENT_ID, ManualClock, location

DATA = bytes(range(100))


class Stream:
    def __init__(self, read: Callable[[WritableBuffer], int]) -> None:
        self._read = read
        self.closed = 0

    def readinto(self, buffer: WritableBuffer, /) -> int:
        return self._read(buffer)

    def close(self) -> None:
        self.closed += 1


class Fetcher:
    def __init__(self, stream: Stream | Exception) -> None:
        self.stream = stream
        self.asked: list[tuple[bytes | None, int, int]] = []

    def configure(self, configs: object) -> None:
        raise AssertionError

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> Stream:
        self.asked.append((metadata.custom_metadata, start, end))
        if isinstance(self.stream, Exception):
            raise self.stream
        return self.stream

    def close(self) -> None:
        raise AssertionError


def pieces(*sizes: int) -> Stream:
    state = {"at": 0, "sizes": list(sizes)}

    def read(buffer: WritableBuffer) -> int:
        size = state["sizes"].pop(0) if state["sizes"] else 0
        buffer[:size] = DATA[state["at"] : state["at"] + size]
        state["at"] += size
        return size

    return Stream(read)


def run(stream: Stream | Exception, seconds: float = 5.0) -> tuple[Transfer, Fetcher]:
    grant = location(ranges=(GrantedRange(ByteRange(0, 100), b"mine"),))
    transfer, fetcher = Transfer(lambda: bytearray(128)), Fetcher(stream)
    try:
        read_range(fetcher, grant, grant.ranges[0], transfer, Deadline(ManualClock(), seconds))
    finally:
        if isinstance(stream, Stream):
            assert stream.closed == 1
    return transfer, fetcher


def test_the_buffer_is_filled_by_any_number_of_pieces() -> None:
    transfer, fetcher = run(pieces(1, 60, 39))
    assert (transfer.filled, bytes(transfer.buffer[:100])) == (100, DATA)
    assert fetcher.asked == [(b"mine", 0, 100)]


def test_a_short_range_is_an_unavailable_store() -> None:
    with pytest.raises(RemoteStorageUnavailableError, match="60 of 100"):
        run(pieces(60))


def test_slow_pieces_end_at_the_total_deadline() -> None:
    with pytest.raises(RemoteStorageTimeoutError):
        run(pieces(60, 39, 1), seconds=0.0)


def test_a_range_complete_at_the_deadline_is_used() -> None:
    assert run(pieces(100), seconds=0.0)[0].filled == 100


@pytest.mark.parametrize("count", [-1, 101])
def test_an_impossible_count_of_bytes_is_refused(count: int) -> None:
    with pytest.raises(InvalidStorageResponseError):
        run(Stream(lambda _: count))


def test_a_plugins_exception_is_wrapped_without_its_text() -> None:
    with pytest.raises(RemoteStorageError, match="KeyError") as wrapped:
        run(KeyError("https://host/?signature=hush"))
    assert "hush" not in str(wrapped.value)
    assert wrapped.value.__cause__ is None
    assert wrapped.value.__suppress_context__


class KeepingFetcher(Fetcher):
    """A fetcher that keeps what it read and records which ranges it gets to discard."""

    def __init__(self, stream: Stream | Exception) -> None:
        super().__init__(stream)
        self.discarded: list[tuple[bytes | None, int, int]] = []

    def discard(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        self.discarded.append((metadata.custom_metadata, start, end))
        raise InvalidStorageResponseError("the location does not parse")


def test_wrong_ranges_are_discarded_by_a_fetcher_that_keeps_ranges() -> None:
    granted = GrantedRange(ByteRange(10, 20), b"where")
    for error in (InvalidStorageResponseError("not the chunk"), RemoteStorageUnavailableError("refused")):
        fetcher = KeepingFetcher(error)
        with pytest.raises(type(error)):
            read_range(fetcher, location(), granted, Transfer(lambda: bytearray(100)), Deadline(ManualClock(), 1.0))
        assert fetcher.discarded == ([(b"where", 10, 20)] if isinstance(error, InvalidStorageResponseError) else [])


def test_a_fetcher_that_keeps_nothing_gets_no_discard() -> None:
    discard_range(Fetcher(ValueError()), location(), GrantedRange(ByteRange(10, 20)))


def test_an_unrelated_discard_method_of_a_plugin_is_harmless() -> None:
    class Other(Fetcher):
        def discard(self) -> None:
            raise AssertionError("never reached: the arguments are others")

    discard_range(Other(ValueError()), location(), GrantedRange(ByteRange(10, 20)))


def test_an_attempt_reports_received_bytes_and_its_error() -> None:
    grant, buffer = location(ranges=(GrantedRange(ByteRange(0, 100), b"mine"),)), bytearray(128)
    granted, deadline = grant.ranges[0], Deadline(ManualClock(), 5.0)
    transfer, error = attempt(Fetcher(pieces(100)), grant, granted, lambda: buffer, deadline)
    assert (transfer.filled, transfer.buffer is buffer, error) == (100, True, None)
    transfer, error = attempt(Fetcher(pieces(60)), grant, granted, lambda: buffer, deadline)
    assert (transfer.filled, type(error)) == (60, RemoteStorageUnavailableError)


@pytest.mark.parametrize(
    ("metadata", "host", "key"),
    [
        (LocationMetadata(url="https://store:9000/tier/a%20b.log?X-Amz-Signature=hush"), "store:9000", "tier/a b.log"),
        (LocationMetadata(object_key="a.log"), "store", "a.log"),
        (None, "store", None),
        (b"\xff\xff", "store", None),
    ],
    ids=["url", "key", "nothing", "malformed"],
)
def test_a_failed_attempt_names_the_place_without_a_signature(metadata: Any, host: str, key: str | None) -> None:
    encoded = metadata.encode() if isinstance(metadata, LocationMetadata) else metadata
    grant = location(ranges=(GrantedRange(ByteRange(0, 100), encoded),))
    _, error = attempt(Fetcher(pieces(60)), grant, grant.ranges[0], lambda: bytearray(100), Deadline(ManualClock(), 5.0))
    assert error is not None
    assert error.context == ErrorContext("orders", 0, None, uuid_to_text(SEGMENT_ID), key, host, (0, 100))
    assert "hush" not in f"{error} {error.context!r} {error.context} {vars(error)}"


@pytest.mark.parametrize("refusal", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_an_attempt_without_memory_fails(refusal: Exception) -> None:
    def take() -> WritableBuffer:
        raise refusal

    grant = location(ranges=(GrantedRange(ByteRange(0, 100), b"mine"),))
    transfer, error = attempt(Fetcher(pieces(100)), grant, grant.ranges[0], take, Deadline(ManualClock(), 5.0))
    assert transfer.filled == 0
    assert isinstance(error, RemoteStorageError)
    assert str(error) == "not enough memory for bytes [0, 100)"
