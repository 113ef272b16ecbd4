"""Common mistakes in the settings, on the real broker: one warning for each cause and host, and all records by the broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.server import Shim
from tests.support.embedded_topics import fallbacks, from_store, read_to_ends
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import HOST, free_ports
from tests.support.reading import Row, by_consume, direct, plain
from tests.support.scenario import TransactionalTopic
from tests.support.silent_peer import SilentPeer

pytestmark = pytest.mark.broker

ALLOWED, ALLOW_HTTP = "remote.storage.fetcher.allowed.hosts", "remote.storage.fetcher.allow.http"
PEER = "fetch.remote.bootstrap.servers"
MISTAKES: Mapping[str, tuple[dict[str, object], str, str]] = {
    "another host is allowed": ({ALLOWED: "store.example"}, "forbidden-location", "URL host '{store}' is not in " + ALLOWED),
    "http is not allowed": (
        {ALLOW_HTTP: False},
        "forbidden-location",
        f"the URL is plain http; set {ALLOW_HTTP}=true",
    ),
    "the port of the shim is closed": ({PEER: "{closed}"}, "peer-unreachable", "cannot connect to {closed}: "),
    "the shim is a plain broker": ({PEER: "{broker}"}, "not-announced", "{broker} does not announce direct fetch; "),
    "the shim never answers": ({PEER: "{silent}"}, "location-unavailable", "{silent}"),
}
"""By what is wrong: the setting, the cause that is counted, and the text of the warning."""


@pytest.fixture
def silent() -> Iterator[SilentPeer]:
    with SilentPeer() as peer:
        yield peer


@pytest.fixture(scope="module")
def expected(running_broker: KafkaBroker, transactional_topic: TransactionalTopic, wide_topic: str) -> dict[str, list[Row]]:
    """Returns the records that a plain consumer reads of two tiered topics."""
    return {topic: plain(running_broker, topic, "read_committed") for topic in (transactional_topic.topic, wide_topic)}


def read_all(settings: dict[str, Any], topics: Mapping[str, object]) -> tuple[dict[str, list[Row]], dict[str, int], int]:
    """Returns the records of each topic, the counted fallbacks, and the number of records from the store."""
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        rows = read_to_ends(consumer, by_consume)
        return (
            {topic: [row[2:] for row in found] for (topic, _), found in rows.items()},
            fallbacks(consumer),
            from_store(consumer),
        )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns what the package logs at Python's default level."""
    found = [record for record in caplog.records if record.name.startswith("kafka_remote_client")]
    return [record.getMessage() for record in found if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_gives_one_warning_and_every_record(
    kafka_broker: KafkaBroker,
    shim: Shim,
    silent: SilentPeer,
    expected: dict[str, list[Row]],
    mistake: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given, cause, text = MISTAKES[mistake]
    assert shim.origin_url is not None
    places = {
        "store": shim.origin_url.partition("//")[2],
        "broker": kafka_broker.bootstrap_servers,
        "closed": f"{HOST}:{free_ports(1)[0]}",
        "silent": silent.address,
    }
    wrong = {name: value.format(**places) if isinstance(value, str) else value for name, value in given.items()}
    if mistake == "the shim never answers":
        wrong["fetch.remote.location.timeout.ms"] = 500
    rows, counted, of_store = read_all(direct(shim, "read_committed", **wrong), expected)
    assert rows == expected
    assert (set(counted), of_store) == ({cause}, 0)
    assert counted[cause] >= len(expected), "a partition that tries the tier again after a while counts again"
    (line,) = warnings(caplog)
    assert line.startswith("direct fetch disabled for ")
    assert text.format(**places) in line
    assert line.endswith(f" ({cause})")


def test_a_missing_list_of_hosts_is_refused(shim: Shim) -> None:
    settings = direct(shim, "read_committed")
    del settings[ALLOWED]
    with pytest.raises(ConfigurationError, match=rf"fetcher 'presigned' needs {ALLOWED}"):
        Consumer(settings)


def test_settings_without_a_mistake_log_no_warning(
    shim: Shim, expected: dict[str, list[Row]], caplog: pytest.LogCaptureFixture
) -> None:
    rows, counted, of_store = read_all(direct(shim, "read_committed"), expected)
    assert (rows, counted) == (expected, {})
    assert of_store > 0
    assert warnings(caplog) == []
