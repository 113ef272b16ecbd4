"""Members of a group that take records only on command: in this process, or in a separate one that may be killed.

Both poll once per :meth:`round`, so that the driver decides how much is read between two rebalances, and a member that
is killed or stopped is between two calls and never within one.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, Message

from kafka_remote_client import Consumer
from tests.support.artifacts import ROOT
from tests.support.history import History
from tests.support.recorder import recorded

__all__ = ["KINDS", "LocalMember", "ProcessMember"]

KINDS = {"direct": Consumer, "off": Consumer, "plain": confluent_kafka.Consumer}
"""``off``: this project's consumer with fetch.remote.enabled=false."""
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 300.0


class LocalMember:
    """A recorded consumer. ``make`` builds it of ``config``."""

    def __init__(self, name: str, kind: str, config: Mapping[str, Any], topic: str, history: History) -> None:
        self.name = name
        self.kind = kind
        self.consumer = recorded(KINDS[kind], config, history, name)
        self.consumer.subscribe([topic])

    def round(self, limit: int) -> tuple[int, int]:
        """Takes up to ``limit`` records; 0 does not poll. Returns the numbers of its partitions and of the records."""
        messages = self.consumer.consume(limit, _POLL_SECONDS) if limit else []
        return len(self.consumer.assignment()), sum(map(_is_record, messages))

    @property
    def reports_direct(self) -> bool:
        """Whether it reads directly and has counters."""
        return self.kind == "direct"

    @property
    def from_store(self) -> int:
        """How many records it read directly."""
        return int(self.consumer.metrics()["remote-fetch-records-total"]) if self.reports_direct else 0

    @property
    def id(self) -> str:
        """What the coordinator calls it, empty outside the group."""
        return str(self.consumer.inner.memberid() or "")

    def close(self) -> None:
        self.consumer.close()


class ProcessMember:
    """The same in a separate process, whose history is in a journal."""

    def __init__(self, name: str, kind: str, config: Mapping[str, Any], topic: str, journal: Path) -> None:
        self.name = name
        self.kind = kind
        self.journal = journal
        self.rounds = 0
        arguments = [name, kind, json.dumps(config), topic, str(journal)]
        command = [sys.executable, "-m", "tests.support.group_member", *arguments]
        self._errors = journal.with_suffix(".stderr")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    id = ""  # not known here
    reports_direct = False
    from_store = 0  # it keeps its counters to itself

    def round(self, limit: int) -> tuple[int, int]:
        """As LocalMember's."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d\n" % limit)
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_SECONDS)
        assert ready, f"{self.name} does not answer"
        answer = self._process.stdout.readline()
        assert answer, f"{self.name} ended with {self._process.wait()}: {self._errors.read_text()}"
        partitions, records = map(int, answer.split())
        return partitions, records

    def stop(self) -> None:
        """Stops the process, so that it sends no heartbeat."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kills it. Raises AssertionError if it had already ended."""
        assert self._process.poll() is None, f"{self.name} had ended before it was killed"
        self.close()
        assert self._process.returncode == -signal.SIGKILL

    def close(self) -> None:
        """The same, but harmless when it has ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _is_record(message: Message) -> bool:
    error = message.error()
    assert error is None or error.code() == KafkaError._PARTITION_EOF, error
    return error is None


def _serve(name: str, kind: str, config: str, topic: str, journal: str) -> None:
    """Does a round for each line of standard input."""
    with Path(journal).open("wb"):
        member = LocalMember(name, kind, json.loads(config), topic, History(journal=Path(journal)))
    for line in sys.stdin:
        print(*member.round(int(line)), flush=True)


if __name__ == "__main__":
    # Under its importable name, so that the journal can be read by others.
    importlib.import_module("tests.support.group_member")._serve(*sys.argv[1:])
