"""examples/group_application.py and examples/asyncio_application.py on a real broker with a tier."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import ROOT
from tests.support.group_topic import COUNT, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.processes import end_group
from tests.support.reading import PATIENCE_SECONDS, direct
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

PARTITIONS = 2


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"applied-{uuid4().hex[:8]}"
    write_group_topic(kafka_broker, name, PARTITIONS)
    return name


def command(example: str, shim: Shim, *arguments: str, **settings: str) -> list[str]:
    given = direct(shim, "read_committed") | settings
    return [
        sys.executable,
        "-W",
        "ignore",
        f"examples/{example}",
        *arguments,
        *(f"{name}={value}" for name, value in given.items()),
    ]


def committed(broker: KafkaBroker, topic: str, group: str) -> list[int]:
    asker = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    with closing(asker):
        found = asker.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], PATIENCE_SECONDS)
    return [one.offset for one in found]


class Member:
    """A process of the group."""

    def __init__(self, line: list[str], output: Path) -> None:
        self._files = ExitStack()
        self._paths = output.with_suffix(".out"), output.with_suffix(".err")
        out, err = (self._files.enter_context(path.open("w")) for path in self._paths)
        self.process = subprocess.Popen(line, cwd=ROOT, stdout=out, stderr=err, start_new_session=True)

    @property
    def records(self) -> list[tuple[int, int]]:
        lines = (json.loads(line) for line in self._paths[0].read_text().splitlines())
        return [(line["partition"], line["offset"]) for line in lines]

    @property
    def said(self) -> str:
        return self._paths[1].read_text()

    def close(self) -> None:
        end_group(self.process.pid)
        self.process.wait()
        self._files.close()


@pytest.fixture
def members(tmp_path: Path, topic: str, shim: Shim) -> Iterator[list[Member]]:
    group = {"group.id": topic, "auto.offset.reset": "earliest", "enable.partition.eof": "false"}
    line = command("group_application.py", shim, "--topic", topic, **group)
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Member(line, tmp_path / str(number)))) for number in range(2)]


def test_a_group_processes_all_records_and_commits_them(kafka_broker: KafkaBroker, topic: str, members: list[Member]) -> None:
    for member in members:
        wait_until(lambda member=member: f"assigned: {topic}-" in member.said, "partitions of each member")
    wait_until(lambda: committed(kafka_broker, topic, topic) == [COUNT] * PARTITIONS, "the commit of all records")
    for member in members:
        member.process.send_signal(signal.SIGTERM)
        assert member.process.wait(PATIENCE_SECONDS) == 0, member.said
    processed = [record for member in members for record in member.records]
    assert set(processed) == {(partition, offset) for partition in range(PARTITIONS) for offset in range(COUNT)}
    assert committed(kafka_broker, topic, topic) == [COUNT] * PARTITIONS


def test_an_event_loop_reads_several_topics(kafka_broker: KafkaBroker, topic: str, shim: Shim) -> None:
    other = f"{topic}-2"
    write_group_topic(kafka_broker, other, PARTITIONS)
    line = command("asyncio_application.py", shim, "--topics", f"{topic},{other}", **{"auto.offset.reset": "earliest"})
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    told = {each["topic"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert set(told) == {topic, other}
    for name, report in told.items():
        assert report["records"] == PARTITIONS * COUNT
        local = sum(kafka_broker.offsets(name, number).earliest_local for number in range(PARTITIONS))
        assert report["from_tier"] == local > 0
