from __future__ import annotations

import pytest

from kafka_remote_client.spark.offsets.json_offsets import OffsetName
from kafka_remote_client.spark.options.option_table import OPTIONS
from kafka_remote_client.spark.options.source_options import parse_options


def test_every_option_has_a_line_and_every_name_is_distinct() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    assert all(option.doc.endswith(".") for option in OPTIONS)


def test_own_options_are_distinguished_from_sparks() -> None:
    ours = {option.name for option in OPTIONS if option.is_ours}
    assert {"remote.splitBytes", "maxBytesPerTrigger"} <= ours
    assert not {"subscribe", "maxOffsetsPerTrigger", "includeHeaders"} & ours


@pytest.mark.parametrize(
    ("streaming", "start", "prefix"),
    [(False, OffsetName.EARLIEST, "spark-kafka-relation"), (True, OffsetName.LATEST, "spark-kafka-source")],
)
def test_parsed_defaults_are_those_of_the_table(streaming: bool, start: OffsetName, prefix: str) -> None:
    table = {option.name: option.default_for(streaming=streaming) for option in OPTIONS}
    parsed = parse_options({"subscribe": "orders", "kafka.bootstrap.servers": "b:9092"}, streaming=streaming)
    assert (parsed.start, table["startingOffsets"]) == (start, start.value)
    assert (parsed.group_id_prefix, table["groupIdPrefix"]) == (prefix, prefix)
    assert str(parsed.split_bytes) == table["remote.splitBytes"]
    assert str(parsed.offset_retries) == table["fetchOffset.numRetries"]
    assert str(parsed.offset_retry_interval_ms) == table["fetchOffset.retryIntervalMs"]
    assert str(parsed.poll_timeout_ms) == table["kafkaConsumer.pollTimeoutMs"]
    assert parsed.max_trigger_delay == table["maxTriggerDelay"]
    assert str(parsed.fail_on_data_loss).lower() == table["failOnDataLoss"]
    assert parsed.on_fallback.value == table["remote.onFallback"]
