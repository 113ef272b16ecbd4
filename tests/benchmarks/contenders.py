"""Readers of benchmarks over a real broker, their settings, and one measurement of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.running import ROOT, ShimProcess
from tests.benchmarks.topics import TieredTopic

__all__ = ["COMMON", "MIB", "TUNED_LIBRDKAFKA", "direct_config", "run_reader"]

MIB = 1024 * 1024

COMMON: dict[str, object] = {"group.id": "benchmark", "enable.auto.commit": False, "log_level": 0}
TUNED_LIBRDKAFKA: dict[str, object] = {
    "max.partition.fetch.bytes": 8 * MIB,
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 262_144,
    "queued.min.messages": 1_000_000,
}


def direct_config(shim: ShimProcess, authority: Path | None = None) -> dict[str, object]:
    """What a consumer needs to read through ``shim``. ``authority``: who signed its certificate, where it speaks TLS."""
    return {
        "fetch.remote.enabled": True,
        "fetch.remote.bootstrap.servers": shim.bootstrap_servers,
        "remote.storage.fetcher.class": "presigned",
        "remote.storage.fetcher.allow.http": authority is None,
        "remote.storage.fetcher.allow.private.addresses": True,
        "remote.storage.fetcher.allowed.hosts": shim.origin_host,
        **({} if authority is None else {"remote.storage.fetcher.ssl.ca.location": str(authority)}),
    }


def run_reader(topic: TieredTopic, *, python: Path | str = sys.executable, **task: object) -> dict[str, Any]:
    """One run of tests/benchmarks/reader.py; adds MiB/s of values, records per second and CPU per record.

    ``python``: the interpreter, whose own version of the package reads.
    """
    task |= {"topic": topic.name, "partitions": topic.partitions, "records": topic.records, "record_bytes": topic.record_bytes}
    # By its path and without the tree on sys.path: the package is the one that the interpreter has installed.
    command = [str(python), "-P", str(ROOT / "tests" / "benchmarks" / "reader.py")]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    result["mib_per_second"] = result["value_bytes"] / MIB / result["seconds"]
    result["records_per_second"] = result["records"] / result["seconds"]
    result["cpu_ns_per_record"] = 1e9 * result["cpu_seconds"] / max(1, result["records"])
    return result
