"""Settings of librdkafka that concern both tiers, on a real broker, and their effect on our consumer."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, plain, read_to_end, total

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("checks", [False, True, None], ids=["unchecked", "checked", "by-default"])
def test_damage_in_the_store_is_never_delivered_for_any_check_crcs(
    kafka_broker: KafkaBroker, wide_topic: str, tmp_path: Path, checks: bool | None
) -> None:
    # The shim gets its own path to the tier, so that the tier is damaged for direct reads and valid for the broker.
    damaged = tmp_path / "damaged"
    log = min(
        kafka_broker.copy_of_tier(wide_topic, damaged).glob("*.log")
    )  # the batches of the first segment are not compressed
    content = bytearray(log.read_bytes())
    content[content.index(bytes(400), len(content) // 2) + 200] ^= 1  # within a value: only the checksum shows it
    log.write_bytes(content)
    with Shim(ShimConfig(kafka_broker.bootstrap_servers, store=damaged.as_uri())) as shim:
        assert shim.wait_ready(PATIENCE_SECONDS)
        configured = direct(shim, "read_committed", **{"fetch.remote.fallback.backoff.ms": 50, "check.crcs": checks})
        with Consumer({name: value for name, value in configured.items() if value is not None}) as consumer:
            consumer.assign([TopicPartition(wide_topic, 0, OFFSET_BEGINNING)])
            rows = read_to_end(consumer)
            metrics = consumer.metrics()
    assert rows == plain(kafka_broker, wide_topic, "read_committed")
    assert total(metrics, "remote-fetch-records-total") > 0
    fallbacks = metrics["remote-fetch-fallbacks-total"]
    assert isinstance(fallbacks, dict)
    assert fallbacks["corrupt"] > 0
