"""The configs of restored topics, which the tier does not have, and what they would do to old segments. Pure.

Kafka deletes the oldest segments while the newest timestamp in them is older than ``retention.ms``, or while the log without
them still has ``retention.bytes``. A restored topic usually is old, so its first start would delete it again.

References: Kafka's UnifiedLog.deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments, TopicConfig.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.parsing import parse_json, parse_toml
from kafka_remote_client.restore.config_rules import (
    COMPACT,
    DELETE,
    UNLIMITED,
    WEEK_MS,
    config_problems,
    policies,
    whole_number,
)

__all__ = ["TopicConfigs", "deletion_by_retention", "is_compacted", "parse_topic_configs"]

TopicConfigs = Mapping[str, Mapping[str, str]]


def parse_topic_configs(text: str, *, as_json: bool, where: str) -> dict[str, dict[str, str]]:
    """``{topic: {config: value}}``, as JSON or TOML; numbers and booleans become texts as Kafka writes them.

    Raises ConfigurationError, which begins with ``where`` and names all configs that Kafka does not accept.
    """
    try:
        given = parse_json(text) if as_json else parse_toml(text)
    except ValueError as error:
        raise ConfigurationError(f"{where} is neither TOML nor JSON (.json): {error}") from None
    if not isinstance(given, dict) or not all(isinstance(configs, dict) for configs in given.values()):
        raise ConfigurationError(f"{where} must have a table of configs for each topic")
    texts = {
        topic: {name: _text(value, f"{where}: {topic}.{name}") for name, value in configs.items()}
        for topic, configs in given.items()
    }
    wrong = [f"{topic}: {problem}" for topic, configs in texts.items() for problem in config_problems(configs)]
    if wrong:
        raise ConfigurationError(f"{where}: {'; '.join(wrong)}")
    return texts


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether Kafka's cleaner compacts the topic, so that its log has holes."""
    return COMPACT in policies(configs)


def deletion_by_retention(configs: Mapping[str, str], segments: Sequence[tuple[int, int]], now_ms: int) -> str | None:
    """Why Kafka would delete the first segment of a log, and what to set instead; None if it would keep all.

    ``segments``: highest timestamp (-1 = none) and bytes of each, in order.
    """
    if not segments or DELETE not in policies(configs):
        return None
    keep_ms = whole_number(configs, "retention.ms", WEEK_MS)
    keep_bytes = whole_number(configs, "retention.bytes", str(UNLIMITED))
    newest = segments[0][0]
    if keep_ms > UNLIMITED and 0 <= newest < now_ms - keep_ms:
        told = "" if "retention.ms" in configs else " (Kafka's default)"
        age = now_ms - newest
        return f"retention.ms {keep_ms}{told} deletes segments that are {age} ms old: set retention.ms=-1 until it is restored"
    total = sum(size for _, size in segments)
    if keep_bytes > UNLIMITED and total - segments[0][1] >= keep_bytes:
        return f"retention.bytes {keep_bytes} deletes a part of {total} bytes: set retention.bytes=-1 until it is restored"
    return None


def _text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, dict):
        raise ConfigurationError(f'{where} is a table: quote names that have a dot, such as "retention.ms"')
    raise ConfigurationError(f"{where} must be a text, a number or a boolean")
