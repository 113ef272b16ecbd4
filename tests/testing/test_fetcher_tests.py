"""The conformance suite fails for wrong fetchers: each one has one fault, which the named test must find."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kafka_remote_fetchers.memory import MemoryFetcher

from kafka_remote_client import testing
from kafka_remote_client.errors import RemoteStorageError, RemoteStorageUnavailableError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, WritableBuffer
from kafka_remote_client.testing import RemoteStorageFetcherTests, texts_of


class Stream:
    """A stream whose faults are switched on by name."""

    def __init__(self, inner: ReadableStream, fault: str) -> None:
        self.inner, self.fault, self.closed, self.kept = inner, fault, False, None
        self.ended = False

    def readinto(self, buffer: WritableBuffer, /) -> int:
        if self.fault == "none when full" and len(buffer) == 0:
            raise RemoteStorageUnavailableError("nothing to read into")
        if self.fault == "restarts" and self.ended:
            return 1
        if self.fault == "overruns":
            buffer[-1:] = b"\0"
        if self.fault == "holds":
            self.kept = memoryview(buffer)
        count = self.inner.readinto(buffer)
        self.ended = self.ended or count == 0 < len(buffer)
        if self.fault == "damages" and count:
            buffer[0] ^= 1
        return count

    def close(self) -> None:
        if self.fault == "closes once" and self.closed:
            raise RuntimeError("closed twice")
        self.closed = True
        self.inner.close()


class Faulty(MemoryFetcher):
    def __init__(self, objects: Mapping[str, bytes], fault: str) -> None:
        super().__init__(objects)
        self.fault = fault

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> ReadableStream:
        if self.fault == "inclusive" and end > 0:
            end -= 1
        if self.fault == "ignores the start":
            start = 0
        if self.fault == "minus one is a byte short" and end == -1:
            end = len(self._objects.get("whole.log", b"x")) - 1
        try:
            inner = super().fetch_log_segment(metadata, start, end)
        except RemoteStorageError:
            if self.fault == "other errors":
                raise KeyError("key") from None
            if self.fault == "leaks":
                raise RemoteStorageError(f"cannot read {LocationMetadata.decode(metadata.custom_metadata).url}") from None
            if self.fault == "wrong kind":
                raise RemoteStorageError("something went wrong") from None
            raise
        return Stream(inner, self.fault)

    def close(self) -> None:
        if self.fault != "never closes":
            super().close()


class Suite(RemoteStorageFetcherTests):
    def __init__(self, fault: str) -> None:
        self.objects: dict[str, bytes] = {}
        self.made = Faulty(self.objects, fault)

    def put(self, key: str, data: bytes) -> bytes:
        self.objects[key] = data
        return self.absent(key)

    def absent(self, key: str) -> bytes:
        return LocationMetadata(object_key=key, url=f"https://store/{key}?signature=x").encode()


CASES = [
    ("inclusive", "test_reads_start_inclusive_to_end_exclusive", {"start": 0, "end": 100}),
    ("ignores the start", "test_reads_start_inclusive_to_end_exclusive", {"start": 7, "end": 1000}),
    ("minus one is a byte short", "test_reads_to_the_end_of_the_segment", {}),
    ("damages", "test_reads_in_pieces_of_any_size", {"piece": 3}),
    ("damages", "test_reads_ranges_larger_than_any_internal_buffer", {}),
    ("damages", "test_serves_many_threads_at_once", {}),
    ("overruns", "test_a_larger_buffer_keeps_its_remaining_bytes", {}),
    ("none when full", "test_a_read_into_an_empty_buffer_loses_no_bytes", {}),
    ("restarts", "test_a_read_at_the_end_returns_zero_repeatedly", {}),
    ("holds", "test_a_read_does_not_keep_the_callers_buffer", {}),
    ("wrong kind", "test_a_missing_object_is_not_found", {}),
    ("wrong kind", "test_a_range_past_the_end_is_not_satisfiable", {"start": 1024, "end": 1025}),
    ("other errors", "test_an_invalid_range_is_refused", {"start": 10, "end": 9}),
    ("other errors", "test_malformed_custom_metadata_is_refused", {}),
    ("leaks", "test_errors_redact_the_location", {}),
    ("closes once", "test_a_partly_read_stream_closes_more_than_once", {}),
    ("ignores the start", "test_abandoned_streams_do_not_block_later_reads", {}),
    ("never closes", "test_a_closed_fetcher_closes_again_and_refuses_reads", {}),
]


@pytest.mark.parametrize(("fault", "test", "arguments"), CASES)
def test_the_suite_finds_the_fault(fault: str, test: str, arguments: dict[str, int]) -> None:
    suite = Suite(fault)
    with pytest.raises((AssertionError, KeyError, RemoteStorageError, RuntimeError, BufferError, pytest.fail.Exception)):
        getattr(suite, test)(suite.made, **arguments)
    honest = Suite("no fault")
    getattr(honest, test)(honest.made, **arguments)


def test_every_test_of_the_suite_finds_a_fault() -> None:
    tests = {name for name in dir(RemoteStorageFetcherTests) if name.startswith("test_")}
    assert tests - {test for _, test, _ in CASES} == {"test_is_a_fetcher"}


def test_a_class_without_the_methods_is_not_a_fetcher() -> None:
    with pytest.raises(AssertionError):
        Suite("").test_is_a_fetcher(object())


def test_the_suite_names_what_a_subclass_must_set() -> None:
    bare = RemoteStorageFetcherTests()
    for call in (lambda: bare.put("k", b""), lambda: bare.absent("k")):
        with pytest.raises(NotImplementedError):
            call()


def test_the_texts_of_an_error_include_those_of_its_causes() -> None:
    cause, outer = ValueError("inner"), KeyError("outer")
    outer.__cause__ = cause
    cause.__context__ = TypeError("innermost")
    assert all(any(word in text for text in texts_of(outer)) for word in ("outer", "inner", "innermost"))


def test_all_public_names_are_exported() -> None:
    assert sorted(testing.__all__) == sorted(set(testing.__all__))
    assert all(hasattr(testing, name) for name in testing.__all__)
