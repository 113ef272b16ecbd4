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
    ("damages", "test_reads_ranges_larger_than_any_buffer_on_the_way", {}),
    ("damages", "test_serves_many_threads_at_once", {}),
    ("overruns", "test_leaves_the_rest_of_a_larger_buffer_alone", {}),
    ("none when full", "test_a_read_into_no_bytes_reads_none_and_loses_none", {}),
    ("restarts", "test_the_end_stays_the_end", {}),
    ("holds", "test_the_callers_buffer_is_free_again_after_a_read", {}),
    ("wrong kind", "test_an_object_that_is_not_there_is_not_found", {}),
    ("wrong kind", "test_a_range_past_the_end_is_not_satisfiable", {"start": 1024, "end": 1025}),
    ("other errors", "test_what_is_no_range_is_refused", {"start": 10, "end": 9}),
    ("other errors", "test_custom_metadata_that_makes_no_sense_is_refused", {}),
    ("leaks", "test_errors_show_nothing_of_the_location", {}),
    ("closes once", "test_a_stream_closes_twice_and_half_read", {}),
    ("ignores the start", "test_abandoned_streams_do_not_stand_in_the_way", {}),
    ("never closes", "test_closes_twice_and_serves_nothing_afterwards", {}),
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
