"""Ctrl-C ends a waiting call, and no record is lost.

confluent_kafka's own poll() looks for signals every 200 ms, its consume() never, and what falls into a callback comes
out of either when the call is over. With direct fetch no inner call lasts longer than a tenth of a second.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.consumer.interrupts import CASES
from tests.support.artifacts import ROOT
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, filled_cluster

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 600
_WAITS = """
import signal, sys, threading
from confluent_kafka import TopicPartition
from kafka_remote_client import Consumer

signal.signal(signal.SIGINT, signal.default_int_handler)
settings, topic, count, call = eval(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
consumer = Consumer(settings)
consumer.assign([TopicPartition(topic, 0, 0)])
got, interrupted = [], threading.Event()

def tell():
    before = -1  # what was read; the call waits once nothing more comes
    while not interrupted.wait(0.5) and (before != (before := consumer.metrics()["remote-fetch-records-total"]) or not before):
        pass
    print("waiting", flush=True)

threading.Thread(target=tell, daemon=True).start()
try:
    while True:
        got += [consumer.poll(-1)] if call == "poll" else consumer.consume(count + 1, -1)
except KeyboardInterrupt:
    interrupted.set()
read = consumer.metrics()["remote-fetch-records-total"]
consumer.set_remote_fetch(False)  # the broker has no such limit
while len(got) < count:
    got += consumer.consume(count - len(got), 1.0)
consumer.close()
print(0 < read < count, [message.offset() for message in got] == list(range(count)))
"""


cluster = filled_cluster(TOPIC, COUNT, max_grant_bytes=2_000, range_bytes=2_000)


@pytest.mark.parametrize("call", ["poll", "consume"])
def test_call_after_an_interrupted_wait_for_the_store_continues(cluster: EmbeddedCluster, call: str) -> None:
    # A range a second: between two of them there is nothing to hand out, and the partition stays with the store.
    settings = direct_settings(cluster, enable_partition_eof=False) | {"fetch.remote.max.requests.per.second": 1}
    command = [sys.executable, "-W", "ignore", "-c", _WAITS, repr(settings), TOPIC, str(COUNT), call]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "waiting\n", process.communicate()[1]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=2 * PATIENCE_SECONDS)
    assert (process.returncode, output) == (0, "True True\n"), errors


def test_every_other_call_is_interrupted_too() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.consumer.interrupts"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PATIENCE_SECONDS, check=False)
    expected = dict.fromkeys(CASES, "interrupted") | {"close()": "interrupted, Consumer closed"}
    assert ended.stdout.splitlines() == [f"{name}: {result}" for name, result in expected.items()], ended.stderr
    assert ended.returncode == 0
