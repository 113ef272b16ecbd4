"""examples/replay_from_time.py: it begins in the tier at the first record of that time, and stops at the log's end."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import ROOT
from tests.support.group_topic import COUNT, FIRST_TIMESTAMP, STEP_MS, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct

pytestmark = pytest.mark.broker

PARTITIONS = 2
FIRST = 57


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"replayed-{uuid4().hex[:8]}"
    write_group_topic(kafka_broker, name, PARTITIONS)
    return name


def test_it_prints_the_records_since_a_time_in_the_tier_and_their_source(
    kafka_broker: KafkaBroker, topic: str, shim: Shim
) -> None:
    since = datetime.fromtimestamp((FIRST_TIMESTAMP + FIRST * STEP_MS) / 1000, UTC)
    settings = [f"{name}={value}" for name, value in direct(shim, "read_committed").items()]
    command = ["-W", "ignore", "examples/replay_from_time.py", "--topic", topic, "--since", since.isoformat(), *settings]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    for partition in range(PARTITIONS):
        local = kafka_broker.offsets(topic, partition).earliest_local
        mine = [record for record in records if record["partition"] == partition]
        assert [record["offset"] for record in mine] == list(range(FIRST, COUNT))
        assert [record["key"] for record in mine] == [str(number) for number in range(FIRST, COUNT)]
        assert [record["tier"] for record in mine] == ["remote" if record["offset"] < local else "broker" for record in mine]
    said = done.stderr.splitlines()
    assert said[-1] == ", ".join(
        f"{sum(record['tier'] == tier for record in records)} records by the {tier} path" for tier in ("broker", "remote")
    )
    assert any(line.startswith(f"{topic}-0: ") for line in said[:-1])
