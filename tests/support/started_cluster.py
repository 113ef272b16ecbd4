"""``kafka-remote cluster`` as a user starts it, at free ports, and texts of the documents with its addresses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_remote_client.cli.cluster import Places
from tests.support.ports import free_ports

__all__ = ["MODULE", "Running", "running"]

MODULE = [sys.executable, "-m", "kafka_remote_client"]


class Running:
    """A running cluster, what it printed before it was ready, and the sizes of the segments in its tier at that time."""

    def __init__(self, process: subprocess.Popen[str], places: Places) -> None:
        self.process, self.places, self.printed = process, places, ""
        assert process.stdout is not None
        for line in process.stdout:
            self.printed += line
            if "Ctrl-C stops the cluster" in line:
                self.sizes = sorted(path.stat().st_size for path in places.directory.rglob("*.log"))
                return
        raise AssertionError(self.printed)

    def in_place(self, text: str) -> str:
        """A text of the documents with the addresses of this cluster."""
        ports = (("9092", self.places.broker_port), ("9192", self.places.shim_port), ("9193", self.places.origin_port))
        for documented, own in ports:
            text = text.replace(f"localhost:{documented}", f"localhost:{own}")
        for documented_tier in ("file:///tmp/kafka-tier", "file:///var/kafka-tier"):
            text = text.replace(documented_tier, self.places.tier)
        return text

    def pasted(self, heading: str) -> str:
        """The block that begins with this comment."""
        found = re.search(rf"^# {re.escape(heading)}.*?\n\n", self.printed, re.MULTILINE | re.DOTALL)
        assert found, self.printed
        return found[0]


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[Running]:
    """The cluster with 4,000 records; ``arguments`` are further ones. It ends as by Ctrl-C."""
    ports = free_ports(12)[::4]  # a shim listens for broker 1 at its own port + 2
    places = Places(directory, *ports)
    command = [*MODULE, "cluster", "--records", "4000", "--directory", str(directory), *arguments]
    command += [f"{option}={port}" for option, port in zip(("--port", "--shim-port", "--origin-port"), ports, strict=True)]
    # In development mode asyncio also writes how long a step of its loop took, which depends on the machine.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDEVMODE"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process, places)
            process.send_signal(signal.SIGINT)
            written = process.communicate(timeout=60)[1]
            assert written == "", written
            assert process.returncode == 0
            assert not directory.exists()
        finally:
            process.kill()
