"""S05: the search for secrets finds every planted one, and reports nothing if there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import RemoteStorageError
from kafka_remote_client.location_metadata import LocationMetadata
from tests.support.canary import Canary
from tests.support.embedded_topics import direct_settings, fill_topic, from_store, read_to_ends, small_cluster

pytestmark = pytest.mark.embedded

TOPIC = "orders"
URL = "https://store.example/tier/segment.log?expires=1700000000000&signature=0123456789abcdef0123456789abcdef"
SIGNATURE = URL.rpartition("=")[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path) as made:
        fill_topic(made, TOPIC, 200)
        yield made


def in_a_log_line() -> None:
    logging.getLogger("kafka_remote_fetchers.any").debug("asking %s", URL)


def in_an_argument_of_a_log_line() -> None:
    logging.getLogger("kafka_remote_client.any").info("%.10s", URL)


def in_a_traceback() -> None:
    try:
        raise ValueError(URL)
    except ValueError:
        logging.getLogger("kafka_remote_client.any").exception("what is this")


def in_an_error() -> None:
    RemoteStorageError(f"403 for {URL}")


@pytest.mark.fault("S05")
@pytest.mark.parametrize("leak", [in_a_log_line, in_an_argument_of_a_log_line, in_a_traceback, in_an_error])
def test_s05_a_planted_leak_is_found(leak: Callable[[], None], canary: Canary) -> None:
    with Canary() as inner:
        LocationMetadata(url=URL).encode()
        assert inner.leaks() == []
        leak()
    found = inner.leaks()
    assert found
    assert SIGNATURE not in "".join(found)
    assert canary.leaks(), "the search around every test of faults sees it, too"
    canary.forget()


@pytest.mark.parametrize(
    "location",
    [
        LocationMetadata(url=URL),
        LocationMetadata(signed_headers=(("x-amz-security-token", "token-token-token"),)),
        LocationMetadata(data_key=bytes(range(32))),
    ],
    ids=["url", "header", "key"],
)
def test_s05_every_kind_of_secret_is_known_and_hidden_by_its_location(location: LocationMetadata, canary: Canary) -> None:
    with Canary() as inner:
        assert LocationMetadata.decode(location.encode()) == location
        assert inner.secrets
        assert inner.leaks() == []
        logging.getLogger("any").debug("%s", attrs.astuple(location))
    assert inner.leaks()
    canary.forget()


def test_s05_a_whole_read_shows_nothing(cluster: EmbeddedCluster, canary: Canary) -> None:
    settings: dict[str, Any] = direct_settings(cluster)
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        read_to_ends(consumer)
        assert from_store(consumer) > 0
    assert [secret for secret in canary.secrets if secret.startswith("expires=")], "URLs were signed"
    assert {"metrics", "representation"} <= {where for where, _ in canary.texts}
