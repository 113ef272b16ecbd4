"""The tier according to the metadata topic, which the client follows.

The principal of the consumer needs READ and DESCRIBE on ``__remote_log_metadata`` beside its own topics, and read access to the
store. Reading the topic takes a moment, in which partitions are not ready and are served by their broker.

References: KIP-405; Kafka's TopicBasedRemoteLogMetadataManager.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.clock import Clock
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import NotRemote, TopicIdPartition
from kafka_remote_client.remote_log.followed_tier import FollowedTier
from kafka_remote_client.remote_log.follower import METADATA_TOPIC, ClientConfig, RemoteLogMetadataFollower
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment

__all__ = ["MetadataTopicTier", "connection_settings"]

_CONNECTION_PREFIXES = (
    "broker.address.",
    "client.",
    "enable.sasl.",
    "enable.ssl.",
    "reconnect.",
    "retry.backoff.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
)
_CONNECTION_SETTINGS = frozenset({"bootstrap.servers", "log_level", "metadata.broker.list", "oauth_cb"})


def connection_settings(config: Mapping[str, object]) -> ClientConfig:
    """Returns the settings of a consumer's configuration for its connections, without those about reading."""
    return {
        name: value  # type: ignore[misc] # librdkafka judges the values
        for name, value in config.items()
        if name in _CONNECTION_SETTINGS or name.startswith(_CONNECTION_PREFIXES)
    }


class MetadataTopicTier:
    """A TierResolver that follows the metadata topic from the moment it is made. Thread safe.

    ``config`` is librdkafka's. In the first ``patience`` seconds a question waits for its partition to be ready. After that
    the answer for a partition that is not ready is immediate.
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
        """Raises KafkaException for a configuration that librdkafka rejects."""
        self._resolver = resolver
        self._clock = clock
        self._patient_until = clock.monotonic() + patience
        store = RemoteLogMetadataStore()
        self.follower = RemoteLogMetadataFollower(config, store, topic=topic, clock=clock)
        self._tier = FollowedTier(store, resolver, self._ready)
        self.follower.start()

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        return self._tier.resolve(question)

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self._resolver.cache_statistics()

    def close(self) -> None:
        self.follower.close()

    def _ready(self, tip: TopicIdPartition) -> bool:
        return self.follower.wait_ready(tip, max(0.0, self._patient_until - self._clock.monotonic()))
