"""The settings of a topic under Kafka's names.

A time or size of -2 for a local retention, Kafka's default, is read as "no limit of its own".

References: Kafka's TopicConfig, KIP-405, KIP-1241.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.tiered_cluster.log import UNLIMITED, TopicConfig

__all__ = ["TopicSettings"]

_NUMBERS = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "index.interval.bytes": "index_interval_bytes",
    "delete.retention.ms": "delete_retention_ms",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "local.retention.ms": "local_retention_ms",
    "local.retention.bytes": "local_retention_bytes",
    "remote.copy.lag.ms": "remote_copy_lag_ms",
    "remote.copy.lag.bytes": "remote_copy_lag_bytes",
}
_BOOLEANS = {"false": False, "true": True}
_TIMES = {"CreateTime": False, "LogAppendTime": True}
_POLICIES = {"delete": False, "compact": True, "compact,delete": True, "delete,compact": True}
_NAMES = {True: "true", False: "false"}
_OF_RETENTION = -2


@attrs.frozen
class TopicSettings:
    """``tiered``: ``remote.storage.enable``. ``compacted``: ``cleanup.policy`` has compact."""

    log: TopicConfig
    tiered: bool = True
    compacted: bool = False

    def changed(self, given: Mapping[str, str | None]) -> TopicSettings:
        """The settings with those of a new topic. Raises ConfigurationError for one that the cluster does not have."""
        settings = self
        for name, text in given.items():
            settings = settings._with(name, text or "")
        return settings

    def _with(self, name: str, text: str) -> TopicSettings:
        try:
            if name in _NUMBERS:
                number = int(text)
                changed: dict[str, Any] = {_NUMBERS[name]: UNLIMITED if number == _OF_RETENTION else number}
                return attrs.evolve(self, log=attrs.evolve(self.log, **changed))
            if name == "message.timestamp.type":
                return attrs.evolve(self, log=attrs.evolve(self.log, log_append_time=_TIMES[text]))
            if name == "remote.log.copy.disable":
                return attrs.evolve(self, log=attrs.evolve(self.log, remote_log_copy_disable=_BOOLEANS[text]))
            if name == "remote.log.delete.on.disable":
                return attrs.evolve(self, log=attrs.evolve(self.log, remote_log_delete_on_disable=_BOOLEANS[text]))
            if name == "remote.storage.enable":
                return attrs.evolve(self, tiered=_BOOLEANS[text])
            if name == "cleanup.policy":
                return attrs.evolve(self, compacted=_POLICIES[text])
        except (KeyError, ValueError):
            raise ConfigurationError(f"{name}: unsupported value {text!r}") from None
        raise ConfigurationError(f"{name}: the cluster does not have this topic setting")

    def described(self) -> dict[str, str]:
        """All settings, as DescribeConfigs gives them."""
        numbers = {name: str(getattr(self.log, field)) for name, field in _NUMBERS.items()}
        return {
            **numbers,
            "message.timestamp.type": "LogAppendTime" if self.log.log_append_time else "CreateTime",
            "remote.log.copy.disable": _NAMES[self.log.remote_log_copy_disable],
            "remote.log.delete.on.disable": _NAMES[self.log.remote_log_delete_on_disable],
            "remote.storage.enable": _NAMES[self.tiered],
            "cleanup.policy": "compact" if self.compacted else "delete",
        }
