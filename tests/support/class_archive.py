"""Makes an archive of the classes that a broker loads (class data sharing), so that brokers and Kafka's tools start sooner.

Without it, Java reads, parses and links about 8,000 classes from jars at each start. The archive is made by a broker that tiers
a segment, and is written when that broker ends. Java uses it only for the same JDK and class path. Brokers under Java's
defaults (benchmarks) do not use it.

``python -m tests.support.class_archive`` makes it unless it exists.

References: JEP 350.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from confluent_kafka import Producer

from tests.support.artifacts import CACHE, ROOT, SHORT_LIVED, class_archive, file_lock
from tests.support.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until

__all__ = ["made_archive"]

_PATIENCE_SECONDS = 120.0


def made_archive() -> Path:
    """Returns the archive, which exists then. Raises MissingPartError if there is no JDK or no artifacts."""
    target = class_archive()
    with file_lock(CACHE / "class-archive.lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(prefix="kafka-remote-classes-") as made:
                _make(target, Path(made, "broker"))
    return target


def _make(target: Path, directory: Path) -> None:
    unfinished = target.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    options = "-Xmx1g", *SHORT_LIVED, f"-XX:ArchiveClassesAtExit={unfinished}"
    broker = KafkaBroker(directory, java_options=options)
    try:
        broker.start()
        _tier_a_segment(broker)
    finally:
        broker.stop(patience=_PATIENCE_SECONDS)
    unfinished.rename(target)


def _tier_a_segment(broker: KafkaBroker) -> None:
    broker.create_topic("archived")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "batch.num.messages": 20})
    for _ in range(1000):
        producer.produce("archived", bytes(100))
    assert producer.flush(_PATIENCE_SECONDS) == 0
    wait_until(lambda: broker.offsets("archived").latest_tiered >= 0, "a segment in the tier", seconds=_PATIENCE_SECONDS)


if __name__ == "__main__":
    print(made_archive().relative_to(ROOT))
