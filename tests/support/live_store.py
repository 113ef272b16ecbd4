"""A store model in real time: in front of an object origin (``OriginFaults.store``), and of an object store."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteStorageThrottledError, RemoteStorageUnavailableError
from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore, VersionedObjectStore
from kafka_remote_client.testing import AnswerKind, FixedLatency, LognormalLatency, StoreModel, StoreSampler

__all__ = ["LiveStoreModel", "ModelledStore", "model_of_text", "modelled", "text_of_model"]

_FOREVER_SECONDS = 1e6


def text_of_model(model: StoreModel) -> str:
    """The model as a line of eight numbers, which tests/java/StoreModel.java reads as well; 0 = no bound."""
    latency = model.latency
    fixed = isinstance(latency, FixedLatency)
    times = (latency.seconds, latency.seconds) if fixed else (latency.p50, latency.p99)  # type: ignore[union-attr] # see above
    rates = (model.connection_bytes_per_second or 0, model.total_bytes_per_second or 0)
    late = (model.late_share, model.late_seconds, model.lost_share, model.requests_per_second or 0)
    return " ".join(repr(float(number)) for number in (*times, *rates, *late))


def model_of_text(text: str) -> StoreModel:
    """The inverse of :func:`text_of_model`."""
    p50, p99, connection, total, late_share, late_seconds, lost_share, rate = map(float, text.split())
    latency = FixedLatency(p50) if p50 == p99 else LognormalLatency(p50, p99)
    return StoreModel(latency, connection or None, total or None, late_share, late_seconds, lost_share, rate or None)


class LiveStoreModel:
    """Delays each request like a store of ``model``. Thread safe."""

    def __init__(self, model: StoreModel, seed: int = 0, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._ends: list[float] = []  # when the answers in progress will have been sent
        self._seed = seed
        self._sampler = StoreSampler(model, seed)

    def use(self, model: StoreModel) -> None:
        """Changes the model for later requests."""
        with self._lock:
            self._sampler = StoreSampler(model, self._seed)

    def answers(self, size: int, ended: threading.Event) -> float | None:
        """Waits until the first byte would have arrived. Returns the seconds to the last; ``None`` if the store answers 503.

        A lost request waits until ``ended`` is set.
        """
        with self._lock:
            now = self._clock.monotonic()
            self._ends = [end for end in self._ends if end > now]
            answer = self._sampler.answer(size, len(self._ends) + 1, now)
            if answer.kind is not AnswerKind.LOST:
                self._ends.append(now + answer.seconds)
        if answer.first_byte_seconds:
            self._clock.wait(ended, min(answer.first_byte_seconds, _FOREVER_SECONDS))
        return None if answer.kind is AnswerKind.THROTTLED else answer.transfer_seconds

    def admits(self, size: int, ended: threading.Event) -> bool:
        """Waits until the last byte would have arrived; False if the store answers 503."""
        seconds = self.answers(size, ended)
        if seconds:
            self._clock.wait(ended, seconds)
        return seconds is not None


class ModelledStore:
    """Wraps a real store. Each ``get``, ``get_range`` and ``size`` is a request to the model.

    A lost request raises RemoteStorageUnavailableError once the store is closed. Listings are not delayed.
    """

    def __init__(self, inner: RemoteObjectStore, live: LiveStoreModel) -> None:
        self._inner = inner
        self._live = live
        self._closed = threading.Event()

    def get(self, key: str) -> bytes:
        self._request(key, self._inner.size(key))
        return self._inner.get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._request(key, end - start)
        return self._inner.get_range(key, start, end)

    def size(self, key: str) -> int:
        self._request(key, 0)
        return self._inner.size(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._inner.list(prefix)

    def close(self) -> None:
        self._closed.set()
        self._inner.close()

    def _request(self, key: str, size: int) -> None:
        admitted = self._live.admits(size, self._closed)
        if self._closed.is_set():
            raise RemoteStorageUnavailableError(f"cannot read {key!r}: the store is closed")
        if not admitted:
            raise RemoteStorageThrottledError(f"cannot read {key!r}: the model's request rate is exceeded")


class _ModelledVersions(ModelledStore):
    """The same for a store with versions; each version query is also a request."""

    def __init__(self, inner: RemoteObjectStore, versions: VersionedObjectStore, live: LiveStoreModel) -> None:
        super().__init__(inner, live)
        self._versions = versions

    def etag(self, key: str) -> str | None:
        self._request(key, 0)
        return self._versions.etag(key)


def modelled(inner: RemoteObjectStore, live: LiveStoreModel) -> ModelledStore:
    """``inner`` behind the model, also for :class:`VersionedObjectStore`."""
    return _ModelledVersions(inner, inner, live) if isinstance(inner, VersionedObjectStore) else ModelledStore(inner, live)
