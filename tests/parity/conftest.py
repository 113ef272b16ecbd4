"""The stages: a real broker with topics written once per run and a shim in front of it, and the embedded cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.parity.stage import Stage
from tests.parity.topics import write_topics
from tests.support.artifacts import file_lock
from tests.support.embedded_topics import fill_topic, small_cluster, tiers
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import shim_before
from tests.support.run_directory import run_directory
from tests.support.scenario import TransactionalTopic


@pytest.fixture(scope="session")
def parity_topics(running_broker: KafkaBroker, transactional_topic: TransactionalTopic) -> dict[str, Any]:
    """The topics of ``tests.parity.topics``."""
    run = run_directory()
    facts = run / "parity-topics.json"
    with file_lock(run / "parity-topics.lock"):
        if not facts.exists():
            with file_lock(run / "restart.lock", shared=True):
                facts.write_text(json.dumps(write_topics(running_broker, transactional_topic)))
    return dict(json.loads(facts.read_text()))


@pytest.fixture
def broker_stage(kafka_broker: KafkaBroker, parity_topics: dict[str, Any]) -> Iterator[Stage]:
    """The real broker, with a shim in front of it."""
    with shim_before(kafka_broker) as shim:
        origin = shim.origin_url
        assert origin is not None
        yield Stage(shim.bootstrap_servers, kafka_broker.bootstrap_servers, origin.partition("//")[2], parity_topics)


@pytest.fixture(scope="module")
def embedded_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The embedded cluster: one topic, ``mixed``, of four partitions, the first of which is partly tiered."""
    with small_cluster(tmp_path_factory.mktemp("tier")) as cluster:
        topic = fill_topic(cluster, "parity", 200)
        bounds = tiers(cluster, topic)
        facts = {"name": topic, "start": 0, "local": bounds.earliest_local, "end": bounds.high_watermark}
        origin = cluster.origin_url.partition("//")[2]
        beside = {"fetch.remote.topics": "none-of-these"}
        yield Stage(cluster.bootstrap_servers, cluster.bootstrap_servers, origin, {"mixed": facts}, beside)
