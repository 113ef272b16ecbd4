"""A store model in real time waits according to the model. No test measures a time: the clock is a recorder."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import RemoteStorageThrottledError
from kafka_remote_client.plugin import VersionedObjectStore
from kafka_remote_client.testing import FixedLatency, LognormalLatency, StoreModel
from tests.support.closing import check_closing_refuses
from tests.support.live_store import LiveStoreModel, ModelledStore, model_of_text, modelled, text_of_model


class Recorder(SystemClock):
    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        return event.is_set()


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryStore:
    (tmp_path / "object").write_bytes(b"0123456789")
    return DirectoryStore(tmp_path)


def test_each_request_waits_for_its_latency_and_its_bytes(directory: DirectoryStore) -> None:
    clock = Recorder()
    store = ModelledStore(directory, LiveStoreModel(StoreModel(FixedLatency(1.0), connection_bytes_per_second=10), 0, clock))
    assert (store.get("object"), store.get_range("object", 2, 7), store.size("object")) == (b"0123456789", b"23456", 10)
    assert [one.key for one in store.list("")] == ["object"]
    assert clock.waits == [1.0, 1.0, 1.0, 0.5, 1.0]


def test_another_model_applies_to_later_requests(directory: DirectoryStore) -> None:
    clock = Recorder()
    live = LiveStoreModel(StoreModel(FixedLatency(0.0)), 0, clock)
    store = ModelledStore(directory, live)
    store.size("object")
    live.use(StoreModel(FixedLatency(0.05)))
    store.size("object")
    assert clock.waits == [0.05]


def test_a_throttled_request_is_refused(directory: DirectoryStore) -> None:
    store = ModelledStore(directory, LiveStoreModel(StoreModel(FixedLatency(0.0), requests_per_second=1), 0, Recorder()))
    store.size("object")
    with pytest.raises(RemoteStorageThrottledError):
        store.size("object")


def test_closing_ends_a_lost_request(directory: DirectoryStore) -> None:
    store = ModelledStore(directory, LiveStoreModel(StoreModel(FixedLatency(0.0), lost_share=1.0)))
    check_closing_refuses(lambda: store.size("object"), store.close)


MODELS = [
    StoreModel(),
    StoreModel(FixedLatency(0.05), 1e6, 2e6),
    StoreModel(LognormalLatency(0.02, 0.08), late_share=0.1, late_seconds=1.5, lost_share=0.05, requests_per_second=500),
]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_survives_its_text_form(model: StoreModel) -> None:
    assert model_of_text(text_of_model(model)) == model


class VersionedDirectory(DirectoryStore):
    def etag(self, key: str) -> str:
        return f"version of {key}"


def test_the_version_of_an_object_is_a_request_too(tmp_path: Path, directory: DirectoryStore) -> None:
    clock = Recorder()
    live = LiveStoreModel(StoreModel(FixedLatency(0.05)), clock=clock)
    assert not isinstance(modelled(directory, live), VersionedObjectStore)
    versioned = modelled(VersionedDirectory(tmp_path), live)
    assert isinstance(versioned, VersionedObjectStore)
    assert versioned.etag("object") == "version of object"
    assert clock.waits == [0.05]
