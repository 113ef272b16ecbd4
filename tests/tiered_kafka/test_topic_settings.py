"""Topic settings are read and shown under Kafka's names."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.tiered_cluster.log import TopicConfig
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings

DEFAULT = TopicSettings(TopicConfig())


def test_settings_are_shown_as_they_were_given() -> None:
    given = {name: str(number) for number, name in enumerate(DEFAULT.described()) if name.endswith(("bytes", ".ms"))}
    given |= {
        "message.timestamp.type": "LogAppendTime",
        "remote.log.copy.disable": "true",
        "remote.log.delete.on.disable": "true",
        "remote.storage.enable": "false",
        "cleanup.policy": "compact",
    }
    assert given.keys() == DEFAULT.described().keys()
    assert DEFAULT.changed(given).described() == given


def test_retention_without_a_limit_of_its_own_is_unlimited() -> None:
    assert DEFAULT.changed({"local.retention.ms": "-2"}).log.local_retention_ms == -1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("color", "red"),
        ("retention.ms", "long"),
        ("message.timestamp.type", "Never"),
        ("remote.log.copy.disable", "yes"),
        ("remote.storage.enable", None),
        ("cleanup.policy", "keep"),
    ],
)
def test_unknown_settings_and_values_are_named(name: str, value: str | None) -> None:
    with pytest.raises(ConfigurationError, match=name):
        DEFAULT.changed({name: value})
