"""An operator's control of grants by topic and by client, in front of a real broker with tiered storage."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import attrs
import pytest

from kafka_remote_client.model import IsolationLevel, NotRemote, SegmentLocation
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.granted import asked, granted_rows
from tests.support.kafka_broker import KafkaBroker
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker

AUDIT = "kafka_remote_client.shim.audit"


@pytest.fixture
def config(kafka_broker: KafkaBroker) -> ShimConfig:
    return ShimConfig(
        kafka_broker.bootstrap_servers,
        store=kafka_broker.store_directory.as_uri(),
        range_bytes=64 << 10,
        metadata_consumer={"log_level": 0},
    )


@pytest.fixture
def shim(config: ShimConfig) -> Iterator[Shim]:
    with Shim(config) as started:
        assert started.wait_ready(60)
        yield started


def test_policies_and_limits_change_while_the_shim_runs(
    transactional_topic: TransactionalTopic, config: ShimConfig, shim: Shim
) -> None:
    topic, start = transactional_topic.topic, transactional_topic.offsets.log_start
    assert isinstance(asked(shim.bootstrap_servers, topic, start), SegmentLocation)
    assert shim.reload(attrs.evolve(config, topic_policies={f"{topic[:-1]}?.grant": "never"})) == []
    assert isinstance(asked(shim.bootstrap_servers, topic, start), NotRemote)
    assert shim.metrics()["locations_refused.topic-policy"] == 1
    assert shim.reload(attrs.evolve(config, client_limits={"tests@127.0.0.1.bytes_per_second": 0})) == []
    assert isinstance(asked(shim.bootstrap_servers, topic, start), NotRemote)
    assert shim.metrics()["locations_refused.client-limit"] == 1
    policies = {f"{topic}.max_grant_bytes": 64 << 10, f"{topic}.url_ttl": 5}
    assert shim.reload(attrs.evolve(config, topic_policies=policies)) == []
    granted = asked(shim.bootstrap_servers, topic, start)
    assert isinstance(granted, SegmentLocation)
    assert granted.span.size <= 64 << 10


def test_a_client_with_an_overdraft_stays_limited_after_a_reload(
    transactional_topic: TransactionalTopic, config: ShimConfig, shim: Shim
) -> None:
    topic, start = transactional_topic.topic, transactional_topic.offsets.log_start
    limits = {"tests@127.0.0.1.bytes_per_second": 1}
    assert shim.reload(attrs.evolve(config, client_limits=limits)) == []
    assert isinstance(asked(shim.bootstrap_servers, topic, start), SegmentLocation), "one grant overdraws it"
    assert shim.reload(attrs.evolve(config, client_limits=limits, topic_policies={"other.grant": "never"})) == []
    assert isinstance(asked(shim.bootstrap_servers, topic, start), NotRemote)
    assert shim.metrics()["locations_refused.client-limit"] == 1


def test_granted_bytes_add_up_to_those_served_by_the_store(
    transactional_topic: TransactionalTopic, shim: Shim, caplog: pytest.LogCaptureFixture
) -> None:
    topic, offsets = transactional_topic.topic, transactional_topic.offsets
    with caplog.at_level(logging.INFO, AUDIT):
        rows = list(granted_rows(shim.bootstrap_servers, topic, offsets.log_start, IsolationLevel.READ_COMMITTED))
    assert len(rows) > 1000
    ((name, totals),) = shim._counters.granted.snapshot().items()
    counted = shim.metrics()
    assert name == ("tests@127.0.0.1", topic)
    assert totals == (counted["ranges_granted"], counted["bytes_granted"])
    assert totals == (counted["origin_requests"], counted["origin_bytes"])
    lines = [record.__dict__ for record in caplog.records if record.name == AUDIT]
    assert totals == (sum(line["audit_ranges"] for line in lines), sum(line["audit_bytes"] for line in lines))
