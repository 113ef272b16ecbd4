"""The client of an earlier commit, in a separate process, for upgrades: it runs with the tree's shim, and the reverse.

The package is a wheel under tests/golden, so neither a registry nor the git history is needed. This module is what the process
runs. It imports only ``tests.support.history`` from the tree, which imports nothing from the package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.support.history import Assigned, Closed, Failure, History, Opened, Place, Polled, Record

__all__ = ["OLD_CLIENT", "environment", "read"]

_TESTS = Path(__file__).resolve().parents[1]
OLD_CLIENT = _TESTS / "golden" / "old-client" / "kafka_remote_client-0.1.0-py3-none-any.whl"
_SECONDS = 300


def environment() -> dict[str, str]:
    """The environment of a Python process, started with ``-P``, that imports the package from the wheel."""
    return {**os.environ, "PYTHONPATH": f"{OLD_CLIENT}{os.pathsep}{_TESTS.parent}"}


def read(config: Mapping[str, object], topic: str, offset: int, journal: Path) -> dict[str, Any]:
    """Reads partition 0 from ``offset`` to its end; the history goes to ``journal``.

    Returns ``package``, where the code came from, and the consumer's ``metrics``. ``config`` has settings of that version only.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "tests.support.old_client",
        json.dumps(dict(config)),
        topic,
        str(offset),
        str(journal),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """The process."""
    import kafka_remote_client

    config, topic, offset = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    history = History(journal=Path(sys.argv[4]))
    consumer = kafka_remote_client.Consumer(config)
    history.add(
        Opened, "old", group=config["group.id"], isolation=config["isolation.level"], reset="earliest", announces_ends=True
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    history.add(Assigned, "old", places=(Place(topic, 0, offset),))
    ended = False
    while not ended:
        began = history.now()
        messages = consumer.consume(50, 1.0)
        errors = tuple(_failure(message) for message in messages if message.error() is not None)
        records = tuple(Record.of(message) for message in messages if message.error() is None)
        history.add(Polled, "old", began=began, records=records, errors=errors)
        ended = bool(errors)
    metrics = consumer.metrics()
    consumer.close()
    history.add(Closed, "old")
    print(json.dumps({"package": kafka_remote_client.__file__, "metrics": metrics}))


def _failure(message: confluent_kafka.Message) -> Failure:
    error = message.error()
    assert error is not None
    return Failure(error.code(), (str(message.topic()), int(message.partition() or 0)), message.offset(), error.str())


if __name__ == "__main__":
    main()
