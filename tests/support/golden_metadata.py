"""The golden metadata records applied, and the golden store."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.model import TopicIdPartition, uuid_to_text
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.remote_log.transaction_index import TransactionIndex
from tests.support.golden import golden_local, read_jsonl


def golden_store() -> DirectoryStore:
    return DirectoryStore(golden_local() / "remote")


@cache
def golden_records() -> tuple[tuple[int, bytes], ...]:
    """(metadata partition, value) in the order of the topic's partitions and offsets."""
    lines = read_jsonl(golden_local() / "remote_log_metadata.jsonl.gz")
    return tuple((line["partition"], bytes.fromhex(line["value"])) for line in lines)


@cache
def golden_metadata() -> RemoteLogMetadataStore:
    """All golden events, applied. Do not change it."""
    store, serde = RemoteLogMetadataStore(), RemoteLogMetadataSerde()
    for _, value in golden_records():
        assert store.apply(serde.deserialize(value))
    return store


@cache
def golden_offsets() -> dict[tuple[str, int], dict]:
    """The lines of offsets.jsonl by topic and partition."""
    return {(line["topic"], line["partition"]): line for line in read_jsonl(golden_local() / "offsets.jsonl")}


def live_partitions() -> list[TopicIdPartition]:
    """The golden partitions that were not deleted."""
    ids = {key: line["topic_id"] for key, line in golden_offsets().items()}
    return [t for t in golden_metadata().partitions() if ids[t.topic, t.partition] == uuid_to_text(t.topic_id)]


def golden_cache(topic: str, partition: int = 0) -> RemoteLogMetadataCache:
    tip = next(t for t in live_partitions() if (t.topic, t.partition) == (topic, partition))
    found = golden_metadata().cache(tip)
    assert found is not None
    return found


def golden_tail(topic: str = "txn", partition: int = 0) -> TransactionIndex:
    """The transaction index of the part that was still on the broker's disk."""
    directory: Path = golden_local() / "local-tail" / f"{topic}-{partition}"
    (path,) = directory.glob("*.txnindex")
    return TransactionIndex.parse(path.read_bytes(), int(path.stem), 2**63 - 1)
