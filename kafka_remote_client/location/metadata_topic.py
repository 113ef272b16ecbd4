"""The tier according to the metadata topic, which the client follows.

The principal of the consumer needs READ and DESCRIBE also on ``__remote_log_metadata``, and read access to the store. Until the
topic was read, partitions are not ready and the broker serves them.

References: KIP-405; Kafka's TopicBasedRemoteLogMetadataManager.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.clock import Clock
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.followed_tier import FollowedTier
from kafka_remote_client.remote_log.follower import METADATA_TOPIC, ClientConfig, RemoteLogMetadataFollower
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver

__all__ = ["MetadataTopicTier"]


class MetadataTopicTier(FollowedTier):
    """A TierResolver that follows the metadata topic from its construction on. Thread safe.

    ``config`` is librdkafka's. In the first ``patience`` seconds a question waits until its partition is ready. Later the
    answer for a partition that is not ready is immediate.
    """

    def __init__(
        self,
        config: ClientConfig,
        resolver: RemoteSegmentResolver,
        *,
        clock: Clock,
        patience: float = 0.0,
        topic: str = METADATA_TOPIC,
    ) -> None:
        """Raises KafkaException for a configuration that librdkafka refuses."""
        self._clock = clock
        self._patient_until = clock.monotonic() + patience
        store = RemoteLogMetadataStore()
        self.follower = RemoteLogMetadataFollower(config, store, topic=topic, clock=clock)
        super().__init__(store, resolver, self._known)
        self.follower.start()

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self._resolver.cache_statistics()

    def close(self) -> None:
        self.follower.close()

    def _known(self, tip: TopicIdPartition) -> bool:
        patience = max(0.0, self._patient_until - self._clock.monotonic())
        if patience and not self.follower.ready(tip):
            about_to_read()
        return self.follower.wait_ready(tip, patience)
