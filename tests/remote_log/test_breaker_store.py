"""The breaker of a store: after failures, no request is sent for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from kafka_remote_client.errors import (
    ObjectNotFoundError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore, VersionedObjectStore
from kafka_remote_client.remote_log.breaker_store import guarded_store
from tests.support.locations import ManualClock
from tests.support.waiting import wait_until

FAILURES, RESET = 3, 10.0
TIMEOUT = RemoteStorageTimeoutError("the store did not answer")


class Objects:
    """A store with prepared answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.error: Exception | None = None
        self.closed = False

    def get(self, key: str) -> bytes:
        return self._answer("get", key) or b"object"

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._answer("get_range", key, start, end) or b"range"

    def size(self, key: str) -> int:
        self._answer("size", key)
        return 6

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._answer("list", prefix)
        return iter(())

    def close(self) -> None:
        self.closed = True

    def _answer(self, *call: object) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error


class VersionedObjects(Objects):
    def etag(self, key: str) -> str | None:
        self._answer("etag", key)
        return "v1"


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(objects: Objects, clock: ManualClock) -> RemoteObjectStore:
    return guarded_store(objects, clock, failures=FAILURES, reset_seconds=RESET)


def fail(store: RemoteObjectStore, objects: Objects, error: Exception, times: int = FAILURES) -> None:
    objects.error = error
    for _ in range(times):
        with pytest.raises(type(error)):
            store.get("a")
    objects.error = None


def refused(store: RemoteObjectStore, objects: Objects) -> bool:
    """Returns whether a read is refused without a call of the store."""
    before = len(objects.calls)
    with suppress(RemoteStorageUnavailableError):
        store.get("a")
    return len(objects.calls) == before


def test_all_requests_reach_a_store_that_answers(store: RemoteObjectStore, objects: Objects) -> None:
    assert (store.get("a"), store.get_range("a", 1, 2), store.size("a"), list(store.list("p"))) == (b"object", b"range", 6, [])
    assert objects.calls == [("get", "a"), ("get_range", "a", 1, 2), ("size", "a"), ("list", "p")]
    store.close()
    assert objects.closed


def test_etag_is_guarded_if_the_store_has_it(objects: Objects, clock: ManualClock) -> None:
    assert not isinstance(guarded_store(objects, clock), VersionedObjectStore)
    versioned = VersionedObjects()
    store = guarded_store(versioned, clock, failures=1)
    assert isinstance(store, VersionedObjectStore)
    assert store.etag("a") == "v1"
    versioned.error = TIMEOUT
    with pytest.raises(RemoteStorageTimeoutError):
        store.etag("a")
    versioned.error = None
    assert refused(store, versioned)


@pytest.mark.parametrize("error", [TIMEOUT, RemoteStorageUnavailableError("cut")])
def test_consecutive_failures_open_the_breaker(
    store: RemoteObjectStore, objects: Objects, clock: ManualClock, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        fail(store, objects, error, FAILURES - 1)
        assert not caplog.records
        fail(store, objects, error, 1)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("a"),
        lambda: store.get_range("a", 0, 1),
        lambda: store.size("a"),
    )
    for call in calls:
        with pytest.raises(RemoteStorageUnavailableError, match="recent requests to the store failed"):
            call()
    assert len(objects.calls) == FAILURES
    assert list(store.list("p")) == [], "a listing is no look-up"
    clock.now += RESET
    assert store.get("a") == b"object"
    assert not refused(store, objects)


def test_one_read_probes_a_store_that_failed(store: RemoteObjectStore, objects: Objects, clock: ManualClock) -> None:
    fail(store, objects, TIMEOUT)
    clock.now += RESET
    fail(store, objects, TIMEOUT, 1)
    assert refused(store, objects)


@pytest.mark.parametrize("error", [ObjectNotFoundError("404"), RemoteStorageThrottledError("503", retry_after=None)])
def test_not_found_and_503_do_not_open_the_breaker(store: RemoteObjectStore, objects: Objects, error: Exception) -> None:
    fail(store, objects, error, 2 * FAILURES)
    assert not refused(store, objects)


def test_an_answer_resets_the_count_of_failures_and_a_503_does_not(store: RemoteObjectStore, objects: Objects) -> None:
    for answer in (lambda: store.get("a"), lambda: fail(store, objects, ObjectNotFoundError("404"), 1)):
        fail(store, objects, TIMEOUT, FAILURES - 1)
        answer()
        fail(store, objects, TIMEOUT, FAILURES - 1)
        assert not refused(store, objects)
    fail(store, objects, TIMEOUT, FAILURES - 1)
    fail(store, objects, RemoteStorageThrottledError("503", retry_after=None), 1)
    fail(store, objects, TIMEOUT, 1)
    assert refused(store, objects)


def test_hung_reads_count_as_failures(clock: ManualClock) -> None:
    release, begun = threading.Event(), threading.Semaphore(0)

    class Hanging(Objects):
        def size(self, key: str) -> int:
            begun.release()
            assert release.wait(60)
            return super().size(key)

    objects = Hanging()
    store = guarded_store(objects, clock, failures=FAILURES, reset_seconds=RESET, hang_seconds=5.0)
    threads = [threading.Thread(target=store.size, args=("a",)) for _ in range(FAILURES)]
    try:
        for thread in threads:
            thread.start()
            assert begun.acquire(timeout=60)
        clock.now += 4.9
        assert not refused(store, objects)
        clock.now += 0.1
        assert refused(store, objects)
    finally:
        release.set()
        for thread in threads:
            thread.join(60)
    wait_until(lambda: len(objects.calls) == FAILURES + 1, "the reads to end")
    assert refused(store, objects), "what began before the breaker opened says nothing of the store"
    clock.now += RESET
    assert not refused(store, objects)


def test_a_read_that_hung_and_failed_counts_once(clock: ManualClock) -> None:
    release, begun = threading.Event(), threading.Event()

    class Hanging(Objects):
        def size(self, key: str) -> int:
            begun.set()
            assert release.wait(60)
            raise TIMEOUT

    objects = Hanging()
    store = guarded_store(objects, clock, failures=2, reset_seconds=RESET, hang_seconds=5.0)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            store.size("a")
        except RemoteStorageTimeoutError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert begun.wait(60)
        clock.now += 5.0
        fail(store, objects, RemoteStorageThrottledError("503", retry_after=None), 1)  # looks for hung reads
    finally:
        release.set()
        thread.join(60)
    assert errors == [TIMEOUT]
    assert not refused(store, objects)
