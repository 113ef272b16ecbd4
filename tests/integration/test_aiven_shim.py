"""A shim on Aiven's layout with a real broker: the broker serves all that is not granted, and clients see no difference."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from tests.support.aiven import DATA_KEY
from tests.support.aiven_tier import AivenTier, aiven_shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import Row, direct, plain, read_to_end, total

pytestmark = pytest.mark.broker


@attrs.frozen
class Read:
    """The records that a consumer got through a shim, and the counters of both."""

    rows: list[Row]
    metrics: dict[str, Any]
    counters: dict[str, int]

    def refused(self, why: str) -> int:
        return self.counters.get(f"locations_refused.{why}", 0)


def read_through_shim(broker: KafkaBroker, topic: str, tier: AivenTier, **more: Any) -> Read:
    with aiven_shim(broker, tier, **more) as shim, Consumer(direct(shim, "read_committed")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        rows = read_to_end(consumer)
        return Read(rows, consumer.metrics(), shim.metrics())


@pytest.fixture(scope="module")
def expected(running_broker: KafkaBroker, wide_topic: str) -> list[Row]:
    return plain(running_broker, wide_topic, "read_committed")


@pytest.fixture
def damaged(aiven_tier: Callable[[str], AivenTier], tmp_path: Path) -> Iterator[Callable[[str], AivenTier]]:
    """A copy of a tier that a test may damage."""

    def copied(mode: str) -> AivenTier:
        tier = aiven_tier(mode)
        return attrs.evolve(tier, directory=Path(shutil.copytree(tier.directory, tmp_path / mode)))

    yield copied
    shutil.rmtree(tmp_path)


def logs(tier: AivenTier, topic: str) -> list[Path]:
    """The logs of a topic, by start offset."""
    return sorted(tier.directory.rglob(f"{topic}-*/0/*.log"), key=lambda path: path.name)


@pytest.mark.parametrize("mode", ["plain", "zstd"])
def test_a_consumer_without_the_extra_reads_plain_segments_directly(
    kafka_broker: KafkaBroker,
    wide_topic: str,
    aiven_tier: Callable[[str], AivenTier],
    expected: list[Row],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    read = read_through_shim(kafka_broker, wide_topic, aiven_tier(mode))
    assert read.rows == expected
    assert (total(read.metrics, "remote-fetch-records-total") > 0) is (mode == "plain")
    assert (read.refused("format") > 0) is (mode == "zstd")


def no_manifest(log: Path) -> None:
    """Removes the manifest, as for a segment stored as an Iceberg table."""
    log.with_suffix(".rsm-manifest").unlink()


def newer_manifest(log: Path) -> None:
    manifest = log.with_suffix(".rsm-manifest")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": "2"}))


def empty_indexes(log: Path) -> None:
    log.with_suffix(".indexes").write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "why"), [(no_manifest, "object-not-found"), (newer_manifest, "metadata"), (empty_indexes, "corrupt-index")]
)
def test_a_segment_with_an_unreadable_layout_goes_to_the_broker(
    kafka_broker: KafkaBroker,
    wide_topic: str,
    damaged: Callable[[str], AivenTier],
    expected: list[Row],
    damage: Callable[[Path], None],
    why: str,
) -> None:
    tier = damaged("zstd")
    damage(logs(tier, wide_topic)[1])
    read = read_through_shim(kafka_broker, wide_topic, tier)
    assert read.rows == expected
    assert read.refused(why) > 0
    assert set(read.metrics["remote-fetch-fallbacks-total"]) == {"not-granted"}
    assert total(read.metrics, "remote-fetch-records-total") > 0, "what lies before it was read directly"


@pytest.mark.parametrize("mode", ["zstd-aes", "zstd"])
def test_damage_in_a_chunk_costs_speed_only(
    kafka_broker: KafkaBroker, wide_topic: str, damaged: Callable[[str], AivenTier], expected: list[Row], mode: str
) -> None:
    tier = damaged(mode)
    log = logs(tier, wide_topic)[1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    read = read_through_shim(kafka_broker, wide_topic, tier, allow_plaintext_data_keys=True)
    assert read.rows == expected
    fallbacks = set(read.metrics["remote-fetch-fallbacks-total"])
    # The shim may read the same chunk, and then grants nothing.
    assert fallbacks
    assert fallbacks <= {"invalid-response", "corrupt", "not-granted", "breaker-open"}
    assert total(read.metrics, "remote-fetch-records-total") > 0


def test_no_log_line_of_either_side_has_a_data_key_or_a_url(
    kafka_broker: KafkaBroker,
    wide_topic: str,
    aiven_tier: Callable[[str], AivenTier],
    expected: list[Row],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        read = read_through_shim(kafka_broker, wide_topic, aiven_tier("zstd-aes"), allow_plaintext_data_keys=True)
    assert read.rows == expected
    assert read.metrics["remote-fetch-fallbacks-total"] == {}
    for secret in (repr(DATA_KEY)[2:-1], DATA_KEY.hex(), "signature="):
        assert secret not in caplog.text
