"""The cluster writes the objects that Aiven's plugin wrote, and this client reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cramjam
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client import Consumer
from kafka_remote_client.cli.main import run
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_kafka import TieredCluster
from kafka_remote_client.tiered_kafka.aiven_files import AivenFiles
from tests.support.golden import golden_aiven
from tests.support.reading import read_to_end, settings, total
from tests.tiered_kafka.clients import plain, produce, values

CHUNK_SIZE = 16384
"""Of the golden data."""


def without_sizes(manifest: bytes) -> dict[str, Any]:
    """zstd's output differs from version to version, and so do the sizes of its frames."""
    found = json.loads(manifest)
    assert isinstance(found["chunkIndex"].pop("transformedChunks"), str)
    return found


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "zstd"])
def test_writes_the_objects_of_the_plugin(compressed: bool) -> None:
    store = DirectoryStore(golden_aiven("aiven-zstd" if compressed else "aiven-plain") / "remote")
    layout, files = AivenLayout(), AivenFiles(CHUNK_SIZE, compressed)
    with_transactions = 0
    for listed in layout.list_segments(store):
        segment = layout.stored_metadata(store, listed)
        assert segment is not None
        original = layout.original_logs(store).get(layout.object_key(segment, ObjectKind.LOG))
        kinds = [kind for kind in FileKind if kind is not FileKind.LOG]
        if segment.txn_index_empty:
            kinds.remove(FileKind.TRANSACTION_INDEX)
        objects = {kind: layout.read_index(store, segment, ObjectKind[kind.name]) for kind in kinds}
        written = files.files(segment, {FileKind.LOG: original, **objects})
        assert tuple(written) == files.keys(segment)
        log, indexes, manifest = ((data, store.get(key)) for key, data in written.items())
        assert indexes[0] == indexes[1]
        if compressed:
            assert cramjam.zstd.decompress(log[0]) == cramjam.zstd.decompress(log[1])
            assert without_sizes(manifest[0]) == without_sizes(manifest[1])
        else:
            assert log[0] == log[1]
            assert manifest[0] == manifest[1]
        with_transactions += not segment.txn_index_empty
    assert with_transactions > 0


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "zstd"])
def test_brokers_and_this_client_read_the_chunks(tmp_path: Path, compressed: bool) -> None:
    with TieredCluster(
        tmp_path, partitions=1, segment_bytes=4096, layout="aiven", chunk_size=1000, chunk_compression=compressed
    ) as cluster:
        produce(cluster, "chunked", 200)
        cluster.tier_now(roll=True)
        produce(cluster, "chunked", 20)
        assert {key.rpartition(".")[2] for key in cluster.store.objects()} == {"log", "indexes", "rsm-manifest"}
        rows = plain(cluster, "chunked")
        assert values(rows) == [*range(200), *range(20)]
        own = {
            "fetch.remote.enabled": True,
            "fetch.remote.location.source": "metadata-topic",
            "fetch.remote.location.timeout.ms": 60_000,
            "remote.storage.store.url": cluster.store.url,
            "remote.storage.store.layout": "aiven",
        }
        with Consumer(settings(cluster.bootstrap_servers, "read_committed", **own)) as consumer:
            consumer.assign([TopicPartition("chunked", 0, OFFSET_BEGINNING)])
            assert read_to_end(consumer) == rows
            assert total(consumer.metrics(), "remote-fetch-records-total") == 200
        with pytest.raises(SystemExit) as stopped:
            run(["verify", "--store", cluster.store.url, "--layout", "aiven"])
        assert stopped.value.code == 0
        cluster.delete_topic("chunked")
        assert cluster.store.objects() == []


def test_index_that_a_segment_lacks_is_not_found(tmp_path: Path) -> None:
    with TieredCluster(tmp_path, partitions=1, layout="aiven") as cluster:
        produce(cluster, "orders", 20)
        cluster.tier_now(roll=True)
    store = DirectoryStore(tmp_path)
    layout, files = AivenLayout(), AivenFiles()
    (listed,) = layout.list_segments(store)
    segment = layout.stored_metadata(store, listed)
    assert segment is not None
    assert files.object(tmp_path, segment, FileKind.LEADER_EPOCH) == b"0\n1\n0 0\n"
    with pytest.raises(FileNotFoundError, match="transaction_index"):
        files.object(tmp_path, segment, FileKind.TRANSACTION_INDEX)
