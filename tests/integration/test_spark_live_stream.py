"""examples/spark_live_stream.py: it starts in the tier, resumes after a kill and follows the log: each record once."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_remote_client.shim.server import Shim
from tests.support.held_origin import HeldOrigin
from tests.support.kafka_broker import KafkaBroker
from tests.support.spark import SparkDriver
from tests.support.spark_examples import running_example
from tests.support.spark_topics import append, directly, small_grants_shim, write_codec_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

PROGRAM = "examples/spark_live_stream.py"


@pytest.fixture
def held() -> Iterator[HeldOrigin]:
    with HeldOrigin() as origin:
        yield origin


@pytest.fixture
def shim(kafka_broker: KafkaBroker, held: HeldOrigin) -> Iterator[Shim]:
    with small_grants_shim(kafka_broker, origin_listen=held.listen, origin_public_url=held.url) as running:
        yield running


@pytest.mark.fault("F75")
def test_a_killed_stream_resumes_in_the_tier_and_follows_the_log(
    spark_beside: SparkDriver, kafka_broker: KafkaBroker, shim: Shim, held: HeldOrigin, tmp_path: Path
) -> None:
    """Killed in the middle of its first batch and restarted, it repeats that batch, then follows new records."""
    topic = write_codec_topic(kafka_broker, "spark-live-stream")
    target, checkpoint, log = tmp_path / "copy", tmp_path / "checkpoint", tmp_path / "log"
    options = directly(shim, subscribe=topic)
    arguments = [*("--target", str(target), "--checkpoint", str(checkpoint)), *(f"{n}={v}" for n, v in options.items())]
    planned, committed = checkpoint / "offsets" / "0", checkpoint / "commits" / "0"
    held.hold(after=1)  # the driver's own requests
    with running_example(PROGRAM, *arguments, log=tmp_path / "log of the killed one") as killed:
        held.wait_for_readers(1)
        assert killed.poll() is None
    assert killed.returncode == -signal.SIGKILL
    batch = planned.read_bytes()
    assert not committed.exists()
    held.release()
    with running_example(PROGRAM, *arguments, log=log) as process:
        wait_until_read(process, kafka_broker, topic, checkpoint, log)
        assert committed.exists()
        assert planned.read_bytes() == batch, "the very batch that was interrupted"
        assert shim.metrics()["ranges_granted"] > 3
        for codec in ("none", "zstd"):
            append(kafka_broker, topic, [codec])
            wait_until_read(process, kafka_broker, topic, checkpoint, log)
        wait_until(lambda: ", 0 offsets behind" in log.read_text(), "the stream to say that it is not behind", seconds=300)
    ends = [kafka_broker.offsets(topic, partition).high_watermark for partition in (0, 1)]
    expected = [[topic, partition, offset] for partition, end in enumerate(ends) for offset in range(end)]
    assert spark_beside("stored", directory=str(target)) == expected


def wait_until_read(process: subprocess.Popen[bytes], broker: KafkaBroker, topic: str, checkpoint: Path, log: Path) -> None:
    """Waits until a batch that ends where the log ends now is committed."""
    ends = {str(partition): broker.offsets(topic, partition).high_watermark for partition in (0, 1)}

    def read() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        done = sorted(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
        if not done:
            return False
        offsets: object = json.loads((checkpoint / "offsets" / str(done[-1])).read_text().splitlines()[-1])
        return offsets == {topic: ends}

    wait_until(read, f"the stream to be at {ends}", seconds=300)
