"""A shim that knows generated segments, with a broker behind it, in a process of its own: it prints the shim's address.

Arguments: segments of a partition, partitions of the topic. The segments are in the shim's own metadata store. Lineages are in
memory, so no checkpoint is read. It answers each line of its standard input with its counters and CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from uuid import UUID

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.protocol import metadata
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.list_offsets import OffsetSpec
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.signing import UrlSigner
from tests.support.fake_broker import FakeBroker
from tests.support.scripted_peer import ScriptedPeer
from tests.support.tier import LAYOUT, Tier

__all__ = ["LENGTH", "SIZE", "TOPIC", "segment_metadata"]

TOPIC = "planned"
LENGTH, SIZE = 100_000, 100_000_000
_TOPIC_ID = UUID(int=1)
_LINEAGE = LeaderEpochLineage([EpochEntry(0, 0)])


def segment_metadata(topic: str, partition: int, base: int) -> RemoteLogSegmentMetadata:
    """The segment that begins at ``base``: 100,000 offsets, 100 MB."""
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(
            TopicIdPartition(_TOPIC_ID, topic, partition), UUID(int=(partition + 1 << 64) + base)
        ),
        start_offset=base,
        end_offset=base + LENGTH - 1,
        max_timestamp_ms=0,
        broker_id=0,
        event_timestamp_ms=0,
        segment_size_in_bytes=SIZE,
        segment_leader_epochs=(EpochEntry(0, base),),
    )


class _ListedTier(ResolvingTier):
    def segments(
        self, topic_id_partition: TopicIdPartition, start: int = 0, most: int | None = None
    ) -> list[TieredSegment] | None:
        cache = self._store.cache(topic_id_partition)
        return None if cache is None else list(islice(TieredLog(cache, _LINEAGE).all_segments(start), most))


class _Broker(FakeBroker):
    def __init__(self, segments: int, partitions: int) -> None:
        super().__init__()
        self.topic_id = _TOPIC_ID
        self.offsets = {
            OffsetSpec.EARLIEST: 0,
            OffsetSpec.EARLIEST_LOCAL: segments * LENGTH,
            OffsetSpec.LATEST_TIERED: segments * LENGTH - 1,
            OffsetSpec.LATEST: segments * LENGTH,
        }
        self.answer = self.answer.__class__(0, 0, segments * LENGTH, segments * LENGTH, 0, aborted_transactions=())
        self._partitions = tuple(metadata.MetadataPartition(number, 1, leader_epoch=0) for number in range(partitions))

    def _metadata(self, header: RequestHeader, body: bytes) -> bytes:
        topic = metadata.MetadataTopic(TOPIC, self._partitions, topic_id=_TOPIC_ID)
        response = metadata.MetadataResponse((metadata.MetadataBroker(1, *self.leader),), (topic,))
        return metadata.encode_response(response, header.api_version)


def main() -> None:
    segments, partitions = map(int, sys.argv[1:])
    store = RemoteLogMetadataStore()
    for number in range(partitions):
        for at in range(0, segments * LENGTH, LENGTH):
            store.apply(segment_metadata(TOPIC, number, at), keyed=True)
    broker, counters = _Broker(segments, partitions), Counters()
    signer = UrlSigner(b"only for benchmarks", "http://origin:1", SystemClock())
    tier = _ListedTier(store, Tier().store, LAYOUT, signer, url_ttl=60, ready=lambda _tip: True)
    with ScriptedPeer(broker.script()) as peer, ThreadPoolExecutor(16) as workers, ThreadPoolExecutor(16) as kept:
        broker.leader = (peer.host, peer.port)
        strategy = GrantingBroker(tier, GrantLimits(), counters, workers, kept)
        config = ShimConfig(bootstrap_servers=peer.address)
        with Shim(config, strategy=strategy, counters=counters) as shim:
            print(shim.bootstrap_servers, flush=True)
            for _ in sys.stdin:
                print(json.dumps({**shim.metrics(), "cpu_seconds": time.process_time()}), flush=True)


if __name__ == "__main__":
    main()
