"""An instrumentation that replaced confluent_kafka's classes before the import of this package sees the application's calls."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kafka_remote_client.consumer.instrumented import instrumented, uninstrumented
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.artifacts import ROOT
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, filled_cluster

TOPIC, COUNT = "orders", 300

cluster = filled_cluster(TOPIC, COUNT)


@pytest.mark.embedded
@pytest.mark.parametrize("way", ["cooperative", "bypassing"])
@pytest.mark.parametrize(
    ("name", "call"), [("Consumer", "poll"), ("Consumer", "consume"), ("DeserializingConsumer", "poll")], ids=str
)
def test_each_call_of_the_application_is_seen_once(cluster: EmbeddedCluster, way: str, name: str, call: str) -> None:
    settings = json.dumps(direct_settings(cluster, enable_partition_eof=False))
    command = [sys.executable, "-W", "ignore", "-m", "tests.consumer.instrumentation", settings, way, name, call, str(COUNT)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["offsets"] == list(range(COUNT))
    assert 0 < told["from the store"] < COUNT
    assert told["is one"]
    assert (len(told["seen"]), sum(told["seen"])) == (told["delivering"], COUNT)
    assert told["others"] == ["commit"]


class _Stock:
    def poll(self) -> str:
        return "stock"


class _Ours(_Stock):
    def poll(self) -> str:
        return f"ours, not {uninstrumented(super().poll)()}"


def test_a_method_without_a_wrapper_stays_what_it_is() -> None:
    method = _Ours.poll
    assert instrumented(_Stock, "poll", method) is method
    assert uninstrumented(method) is method
    assert _Ours().poll() == "ours, not stock"
