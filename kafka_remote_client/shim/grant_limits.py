"""How large a grant may be and how long it lives, for all topics and for one."""

from __future__ import annotations

import attrs

from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.remote_log.window import range_size
from kafka_remote_client.shim.pattern_tables import PatternTables
from kafka_remote_client.shim.settings import shim_default
from kafka_remote_client.shim.topic_policies import TopicPolicy, topic_policies

__all__ = ["MOST_RANGES", "GrantLimits"]

MOST_RANGES = 4096
"""Of one answer. Each has a URL of half a kilobyte, and S3's SDK needs 0.15 ms of CPU time to sign it."""


@attrs.frozen
class GrantLimits:
    """Bytes of one range and of one grant at most, and the life of a grant in seconds.

    ``plaintext_data_keys``: whether keys of encrypted segments may go over connections that are not encrypted.
    ``lookup_timeout``: seconds for one look-up in the tier, and for signing what it found. ``topics``: what differs by topic.
    ``whole_objects``: whether URLs of the store open whole objects, and ``whole_object_urls``: whether they may.
    """

    range_bytes: int = shim_default("range_bytes")
    max_grant_bytes: int = shim_default("max_grant_bytes")
    url_ttl: float = shim_default("url_ttl")
    plaintext_data_keys: bool = False
    lookup_timeout: float = shim_default("lookup_timeout")
    whole_objects: bool = False
    whole_object_urls: bool = False
    topics: PatternTables[TopicPolicy] = attrs.field(factory=lambda: topic_policies({}))

    @property
    def longest_url_ttl(self) -> float:
        """Seconds after which no URL is valid, whatever topic it is of."""
        return max([self.url_ttl, *(policy.url_ttl or 0 for policy in self.topics.values)])

    def window(self, wanted: int, wanted_range: int, partitions: int = 1) -> tuple[int, int]:
        """Returns the bytes of a grant and of one of its ranges for a client that requests that many bytes, 0 = any.

        ``partitions``: of the request, which share the ranges of its answer.
        """
        max_bytes = min(wanted or self.range_bytes, self.max_grant_bytes)
        range_bytes = min(max_bytes, range_size(max_bytes, wanted_range, self.range_bytes))
        return min(max_bytes, range_bytes * max(1, MOST_RANGES // partitions)), range_bytes

    def permits(self, topic: str) -> bool:
        """Whether the policy of ``topic`` permits grants of any kind."""
        return self.topics.of(topic).permits(whole_objects=self.whole_objects, whole_object_urls=self.whole_object_urls)

    def within(self, question: LocationQuestion, topic: str) -> LocationQuestion | None:
        """The question, within what the policy of ``topic`` permits; ``None`` = nothing."""
        if not self.permits(topic):
            return None
        policy = self.topics.of(topic)
        most = min(question.max_bytes, policy.max_grant_bytes or question.max_bytes)
        return attrs.evolve(question, topic=topic, max_bytes=most, range_bytes=min(question.range_bytes, most))
