"""A real broker's tier in the layout of Aiven's plugin: the same segments, and matching metadata records.

The plugin itself is not at hand, so a broker tiers with LocalTieredStorage and the tier is written again: its objects by
AivenWriter, whose bytes are held against the plugin's own, and its events into a metadata topic of their own on the same
broker. They are the broker's events, in its order; only the custom metadata of finished copies is what the plugin would have
given. A shim or a client follows that topic in place of ``__remote_log_metadata``; all else that it asks is the real broker's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.events import RemoteLogMetadata, RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.tiered_kafka.aiven_files import main_path
from tests.support.aiven import AivenWriter
from tests.support.golden import golden_aiven
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS
from tests.support.waiting import wait_until

__all__ = ["MODES", "AivenTier", "aiven_shim", "private_key_files", "write_aiven_tier"]

_PARTITIONS = 3
_QUIET: dict[str, str | int | float | bool] = {"log_level": 0}
_INCLUDED: Mapping[str, tuple[str, ...]] = {
    # custom.metadata.fields.include: nothing by default
    "plain": (),
    "zstd": ("remote_size",),
    "zstd-heuristic": ("remote_size", "object_prefix"),
    "zstd-aes": ("remote_size", "object_prefix", "object_key"),
}
_CHUNK_SIZE = 3001
MODES: Mapping[str, AivenWriter] = {
    "plain": AivenWriter("tier/", _CHUNK_SIZE),
    "zstd": AivenWriter("tier/", _CHUNK_SIZE, compressed=True),
    "zstd-heuristic": AivenWriter("old-", _CHUNK_SIZE, compressed=True, heuristic=True),
    "zstd-aes": AivenWriter("old.prefix/", _CHUNK_SIZE, compressed=True, encrypted=True),
}
"""The plugin's settings for segments. Chunks are small and end anywhere in a batch."""


@attrs.frozen
class AivenTier:
    """A tier in one of MODES: the root of its objects, and the topic with their metadata.

    ``prefix`` is the key prefix to configure; if the custom metadata have another one, that one applies. A reader with a
    listing and without metadata needs ``listed_prefix``.
    """

    mode: str
    directory: Path
    metadata_topic: str
    prefix: str

    @property
    def store_url(self) -> str:
        return self.directory.as_uri()

    @property
    def listed_prefix(self) -> str:
        return MODES[self.mode].prefix

    @property
    def encryption_keys(self) -> dict[str, str]:
        """Files of private keys by id."""
        return private_key_files() if MODES[self.mode].encrypted else {}

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Keys and contents, to be put into another store."""
        for path in sorted(self.directory.rglob("*")):
            if path.is_file():
                yield path.relative_to(self.directory).as_posix(), path.read_bytes()

    def save(self, path: Path) -> None:
        """Writes this value as JSON."""
        path.write_text(json.dumps({**attrs.asdict(self), "directory": str(self.directory)}))

    @classmethod
    def load(cls, path: Path) -> AivenTier:
        """The inverse of :meth:`save`."""
        fields = json.loads(path.read_text())
        return cls(**{**fields, "directory": Path(fields["directory"])})


@contextmanager
def aiven_shim(broker: KafkaBroker, tier: AivenTier, store: str | None = None, **more: Any) -> Iterator[Shim]:
    """A shim before ``broker`` that knows ``tier``, whose objects are in ``store``. ``more``: others of ShimConfig."""
    config = ShimConfig(
        broker.bootstrap_servers,
        store=store or tier.store_url,
        layout="aiven",
        key_prefix=tier.prefix,
        encryption_keys=tier.encryption_keys,
        metadata_topic=tier.metadata_topic,
        **more,
    )
    with Shim(config) as shim:
        assert shim.wait_ready(PATIENCE_SECONDS)
        yield shim


def private_key_files() -> dict[str, str]:
    """The key pair of the golden data, for which AivenWriter wraps data keys."""
    return {"key1": str(golden_aiven("aiven-zstd-aes") / "keys" / "key1.private.der")}


def write_aiven_tier(broker: KafkaBroker, topics: Sequence[str], mode: str, directory: Path) -> AivenTier:
    """Writes what ``broker`` has tiered of ``topics`` again, as ``mode``. Nothing may be tiered or deleted meanwhile.

    Segments that have been deleted leave their events and no objects, as with the plugin.
    """
    writer = MODES[mode]
    events, objects = wait_until(lambda: _rewritten(broker, topics, mode), f"the tier of {topics} to keep still")
    for key, data in objects.items():
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    metadata_topic = f"aiven-{mode}"
    broker.create_topic(metadata_topic, partitions=_PARTITIONS, segment_bytes=1 << 20, tiered=False)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, **_QUIET})
    serde = RemoteLogMetadataSerde()
    for event in events:
        producer.produce(metadata_topic, serde.serialize(event), partition=metadata_partition(_tip(event), _PARTITIONS))
    assert producer.flush(60) == 0, "the broker did not take all metadata records"
    # Where each record names its prefix, the configured one must not matter.
    prefix = "another/" if "object_prefix" in _INCLUDED[mode] else writer.prefix
    return AivenTier(mode, directory, metadata_topic, prefix)


def _rewritten(
    broker: KafkaBroker, topics: Sequence[str], mode: str
) -> tuple[list[RemoteLogMetadata], dict[str, bytes]] | None:
    """Events and objects; None when the broker is just deleting a segment."""
    events = [event for event in _events(broker) if _tip(event).topic in topics]
    known = RemoteLogMetadataStore()
    for event in events:
        known.apply(event)
    custom: dict[object, bytes] = {}
    objects: dict[str, bytes] = {}
    store = DirectoryStore(broker.store_directory)
    for tip in known.partitions():
        cache = known.cache(tip)
        assert cache is not None
        for segment in cache.list_all_remote_log_segments():
            if segment.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                return None
            try:
                written = MODES[mode].objects(store, segment)
            except ObjectNotFoundError:
                return None
            objects |= written
            custom[segment.remote_log_segment_id] = _custom_metadata(mode, segment, written)
    return [_with_custom_metadata(event, custom) for event in events], objects


def _custom_metadata(mode: str, segment: RemoteLogSegmentMetadata, written: Mapping[str, bytes]) -> bytes:
    fields = {
        "remote_size": sum(map(len, written.values())),
        "object_prefix": MODES[mode].prefix,
        "object_key": main_path(segment),
    }
    return AivenCustomMetadata(**{name: fields[name] for name in _INCLUDED[mode]}).encode()


def _with_custom_metadata(event: RemoteLogMetadata, custom: Mapping[object, bytes]) -> RemoteLogMetadata:
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    if isinstance(event, RemoteLogSegmentMetadataUpdate) and event.state is finished:
        # The plugin gives none at all where no field is included.
        return attrs.evolve(event, custom_metadata=custom.get(event.remote_log_segment_id) or None)
    return event


def _tip(event: RemoteLogMetadata) -> TopicIdPartition:
    tip = event.topic_id_partition
    assert isinstance(tip, TopicIdPartition)
    return tip


def _events(broker: KafkaBroker) -> Iterator[RemoteLogMetadata]:
    """All events that the broker has written so far, each metadata partition's in its order."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "aiven-tier", **_QUIET})
    serde = RemoteLogMetadataSerde()
    try:
        for number in consumer.list_topics(METADATA_TOPIC, timeout=60).topics[METADATA_TOPIC].partitions:
            begin, end = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, number), timeout=60)
            consumer.assign([TopicPartition(METADATA_TOPIC, number, OFFSET_BEGINNING)])
            at = begin
            while at < end:
                for message in consumer.consume(500, 1.0):
                    assert message.error() is None, message.error()
                    at = message.offset() + 1
                    if message.offset() < end:
                        yield serde.deserialize(message.value())
    finally:
        consumer.close()
