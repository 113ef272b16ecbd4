"""The settings of group members in each protocol, with which they also agree on a loaded machine."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.kafka_broker import KafkaBroker

__all__ = ["PROTOCOLS", "in_group"]

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
_SESSION_MS = 45_000
_CLASSIC_HEARTBEAT_MS = 300
_HEARTBEAT_MS = 5_000
"""Kafka's default. In the new protocol librdkafka drops an answer that takes longer than this, and the broker tells a member
only once which partitions to revoke. A member that misses this keeps them until the rebalance time-out."""
_CONNECTED = {"socket.max.fails": 0}
"""Such a late answer must not end the connection to the coordinator. It would also end a request for committed offsets. If the
assignment changed meanwhile, librdkafka (2.16) does not make that request again. The member has no records until a rebalance
takes its partitions: rd_kafka_assignment_handle_OffsetFetch leaves them in ``assignment.queried``."""
_REBALANCE_MS = 90_000
_PATIENCE_SECONDS = 60.0


def in_group(
    broker: KafkaBroker, protocol: str, group: str, *, session_ms: int = _SESSION_MS, heartbeat_ms: int = _HEARTBEAT_MS
) -> dict[str, Any]:
    """The settings of a member of ``group``.

    ``session_ms``, ``heartbeat_ms``: of the new protocol, where the broker sets them for the whole group.
    """
    members = {"group.id": group, "enable.auto.commit": True, **PROTOCOLS[protocol]}
    if protocol != "consumer":
        return {**members, "session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": _CLASSIC_HEARTBEAT_MS}
    wanted = {"consumer.session.timeout.ms": session_ms, "consumer.heartbeat.interval.ms": heartbeat_ms}
    entries = [ConfigEntry(name, str(ms), incremental_operation=AlterConfigOpType.SET) for name, ms in wanted.items()]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for future in broker.admin.incremental_alter_configs([resource]).values():
        future.result(_PATIENCE_SECONDS)
    return {**members, **_CONNECTED, "max.poll.interval.ms": _REBALANCE_MS}
