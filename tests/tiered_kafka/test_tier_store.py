"""The store of the tier writes Kafka's file names, and fails when told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_kafka.plain_files import PlainFiles
from kafka_remote_client.tiered_kafka.tier_store import StoreFailedError, TierStore
from tests.tiered_cluster.logs import filled
from tests.tiered_cluster.world import World

OBJECTS = {kind: kind.value.encode() for kind in FileKind}


def segment():
    world = World(filled(3))
    world.copy()
    return world.copied[0]


def test_objects_have_the_names_of_local_tiered_storage(tmp_path: Path) -> None:
    store, copied = TierStore(tmp_path, PlainFiles()), segment()
    assert store.copy(copied, OBJECTS) is None
    layout = LocalTieredStorageLayout()
    assert store.objects() == sorted(layout.object_key(copied, ObjectKind[kind.name]) for kind in FileKind)
    assert store.object(copied, FileKind.TIME_INDEX) == b".timeindex"
    store.remove_part(copied)
    with pytest.raises(FileNotFoundError):
        store.object(copied, FileKind.LOG)
    store.remove(copied)
    assert store.objects() == []
    assert store.url == tmp_path.as_uri()


def test_told_failures_come_in_their_order(tmp_path: Path) -> None:
    store, copied = TierStore(tmp_path, PlainFiles()), segment()
    store.fail(retriable=False)
    store.fail()
    with pytest.raises(StoreFailedError) as first:
        store.copy(copied, OBJECTS)
    assert [Path(key).suffix for key in store.objects()] == [".log"]
    with pytest.raises(StoreFailedError) as second:
        store.remove(copied)
    assert [first.value.retriable, second.value.retriable] == [False, True]
    store.remove(copied)
    with pytest.raises(ConfigurationError, match="times"):
        store.fail(0)
