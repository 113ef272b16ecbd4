"""Whether a topic is compacted: its ``cleanup.policy``, from DescribeConfigs of a broker.

A gap in offsets is normal in a compacted topic, and damage in any other. So the policy must be the current one, and an answer
is valid for a minute only: a topic that was changed from compact to delete must not lose records silently. A policy that
cannot be read, for example without DescribeConfigs on the topic, counts as delete, and the broker serves the gap.

Only reads that have met a gap ask for the policy, because most topics have none.

References: KIP-1272 (version of 2026-01-12), Kafka's ``cleanup.policy``, KIP-133 (DescribeConfigs).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined] # it is imported there for users

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.model import TopicIdPartition

__all__ = ["CleanupPolicies"]

_log = logging.getLogger(__name__)

_KEPT_SECONDS = 60.0
_ASK_SECONDS = 3.0
"""The time-out of the request, because the other partitions of a location request wait for it."""
_POLICY = "cleanup.policy"
_COMPACT = "compact"


class CleanupPolicies:
    """The policies of topics. Thread safe; one request runs at a time. It connects at the first request.

    ``settings`` are librdkafka's for connections.
    """

    def __init__(
        self, settings: dict[str, Any], clock: Clock, make_admin: Callable[[dict[str, Any]], AdminClient] = AdminClient
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._make_admin = make_admin
        self._lock = threading.Lock()
        self._known: dict[UUID, tuple[bool, float]] = {}

    def compacted(self, partition: TopicIdPartition, deadline: Deadline) -> bool:
        """Returns whether the topic's policy has compact. False if it cannot be read in 3 s, or before ``deadline``."""
        deadline = Deadline(self._clock, min(_ASK_SECONDS, deadline.remaining()))
        if not self._lock.acquire(timeout=deadline.remaining()):
            return False
        try:
            known, until = self._known.get(partition.topic_id, (False, 0.0))
            if self._clock.monotonic() >= until:
                asked_at = self._clock.monotonic()
                known = self._ask(partition.topic, deadline)
                self._known[partition.topic_id] = known, asked_at + _KEPT_SECONDS
            return known
        finally:
            self._lock.release()

    def _ask(self, topic: str, deadline: Deadline) -> bool:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        admin = None
        try:
            admin = self._make_admin(self._settings)
            asked = admin.describe_configs([resource], request_timeout=deadline.remaining())
            policy = str(asked[resource].result(deadline.remaining())[_POLICY].value)
        except (KafkaException, FutureTimeoutError, KeyError) as error:
            _log.warning("offset gap in topic %s: its %s is unknown, so it counts as not compacted: %s", topic, _POLICY, error)
            return False
        finally:
            del admin  # the trace of an error refers to this frame, and the client's threads end with the client
        compacted = _COMPACT in policy.split(",")
        _log.info("offset gap in topic %s: its %s is %s", topic, _POLICY, policy)
        return compacted
