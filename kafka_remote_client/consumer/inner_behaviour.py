"""The settings of a consumer that control librdkafka's behaviour."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID

from kafka_remote_client import arguments
from kafka_remote_client.model import IsolationLevel

__all__ = ["InnerBehaviour", "with_topic_settings"]

_TOPIC_SETTINGS = "default.topic.config"

_RESET_POLICY = ("auto.offset.reset", "topic.auto.offset.reset")
"""librdkafka's names of this setting. The one that is set last counts."""

_RESETS_TO = {**dict.fromkeys(("smallest", "earliest", "beginning"), OFFSET_BEGINNING), "error": OFFSET_INVALID}
"""The logical offsets of its values; of all others that librdkafka accepts, the end."""

_READ_UNCOMMITTED = frozenset({"read_uncommitted"})


@attrs.frozen
class InnerBehaviour:
    """The settings of librdkafka that direct fetch must implement, with librdkafka's defaults.

    ``stores_offsets``: ``enable.auto.offset.store``, ``None`` for a value that librdkafka will reject. ``reset_offset``: where
    ``auto.offset.reset`` leads; -1001 = to an error. ``incremental``: whether rebalances come as increments.
    ``announces_ends``: ``enable.partition.eof``. ``commits``: ``enable.auto.commit``.
    """

    stores_offsets: bool | None
    reset_offset: int
    incremental: bool
    announces_ends: bool
    commits: bool
    isolation_level: IsolationLevel

    @classmethod
    def of(cls, config: Mapping[str, object]) -> InnerBehaviour:
        """Reads a configuration, ``default.topic.config`` included.

        As in librdkafka, blanks before a value do not count, except before a boolean, where it rejects them.
        """
        merged = with_topic_settings(config)

        def text(name: str, default: str) -> str:
            value = merged.get(name)
            return default if value is None else str(value).lstrip().lower()

        reset_policy = [name for name in merged if name in _RESET_POLICY]
        uncommitted = text("isolation.level", "read_committed") in _READ_UNCOMMITTED
        return cls(
            stores_offsets=arguments.boolean(str(merged.get("enable.auto.offset.store", True)).lower()),
            reset_offset=_RESETS_TO.get(text(reset_policy[-1], "largest"), OFFSET_END) if reset_policy else OFFSET_END,
            incremental="cooperative" in text("partition.assignment.strategy", "")
            or text("group.protocol", "classic") == "consumer",
            announces_ends=arguments.boolean(text("enable.partition.eof", "false")) is True,
            commits=arguments.boolean(text("enable.auto.commit", "true")) is True,
            isolation_level=IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED,
        )


def with_topic_settings(config: Mapping[str, object]) -> dict[str, object]:
    """Returns the settings as confluent_kafka reads them: those in ``default.topic.config`` replace the others.

    They may be any settings, callbacks included (``common_conf_setup``). What is no mapping is left to confluent_kafka.
    """
    topic_settings = config.get(_TOPIC_SETTINGS)
    if not isinstance(topic_settings, Mapping):
        return dict(config)
    merged = {**config, **topic_settings}
    del merged[_TOPIC_SETTINGS]
    return merged
