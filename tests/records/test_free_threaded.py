"""The kernel in an interpreter without a lock (3.14t). conftest.py collects this file only there.

The kernel is built with the macro that is off by default; see docs/decisions/0013-free-threaded.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.kernel_build import ROOT, build

_PROGRAM = """
import json, sys, threading
from tests.support.kernel_build import put_in_place
put_in_place()
import confluent_kafka
before = sys._is_gil_enabled()
from kafka_remote_client.records import _kernel
alone = sys._is_gil_enabled()
from kafka_remote_client.records import MessageSlice, read_batches, slice_poll
from tests.support.batches import Rec, batch

class Polled:
    poll = slice_poll("queue", "slowly")
    def __init__(self, messages):
        self.queue = MessageSlice()
        self.queue.begin(messages)
    def slowly(self, timeout):
        return None

def in_threads(work):
    got, begin = [], threading.Barrier(8)
    def run():
        begin.wait()
        got.extend(work())
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return got

# Each column of such a block is a large piece, which the kernel keeps for the next one.
records = [Rec(n, value=b"v" * 10) for n in range(1000)]
segment = b"".join(batch(1000 * n, records) for n in range(80))
block = read_batches(segment)
whole = [block.offset(at) for at in range(len(block))]
def decoded():
    found = read_batches(segment)
    return [found.offset(at) for at in range(len(found))] == whole
blocks = in_threads(lambda: [decoded() for _ in range(20)])
polled = Polled(block.messages("orders", 0))
taken = in_threads(lambda: [message.offset() for message in iter(lambda: polled.poll(0.0), None)])
print(json.dumps({"before": before, "kernel": alone, "blocks": blocks, "taken": sorted(taken)}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program printed, in an interpreter whose lock nothing but an import enables."""
    kernel = build(["-O2", "-DCYTHON_FREETHREADING_COMPATIBLE=1"], tmp_path_factory.mktemp("kernel"))
    environment = {**os.environ, "KERNEL_FILE": str(kernel)}
    environment.pop("PYTHON_GIL", None)
    command = [sys.executable, "-c", _PROGRAM]
    told: dict[str, Any] = json.loads(subprocess.check_output(command, cwd=ROOT, env=environment, text=True))
    return told


def test_the_kernel_leaves_the_lock_as_confluent_kafka_leaves_it(told: dict[str, Any]) -> None:
    assert told["kernel"] is told["before"]


def test_the_class_consumer_leaves_the_lock_as_confluent_kafka_leaves_it() -> None:
    program = "import sys, confluent_kafka; before = sys._is_gil_enabled(); from kafka_remote_client import Consumer"
    command = [sys.executable, "-c", f"{program}; print(before is sys._is_gil_enabled())"]
    assert subprocess.check_output(command, cwd=ROOT, text=True).strip() == "True"


def test_threads_that_share_kept_memory_decode_the_same_records(told: dict[str, Any]) -> None:
    assert told["blocks"] == [True] * 160


def test_threads_that_poll_one_slice_get_each_message_once(told: dict[str, Any]) -> None:
    assert told["taken"] == list(range(80_000))
