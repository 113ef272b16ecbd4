"""A member of a consumer group: processes each record at least once, and commits what it has processed.

    python examples/group_application.py --topic orders group.id=audit auto.offset.reset=earliest \\
        bootstrap.servers=localhost:9092 fetch.remote.bootstrap.servers=localhost:9192 \\
        remote.storage.fetcher.allowed.hosts=store.example.com > records.jsonl

The rest are settings of the consumer. Start it several times to share the partitions between processes. At SIGTERM or Ctrl-C it
processes what it has, commits and leaves the group. After a crash, another member processes again what was not committed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.errors import DirectFetchError

LOST_IN_A_REBALANCE = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
"""Why a commit is refused when the partitions already belong to another member. It processes the records again."""


class Processed:
    """Processed records without a commit: the offset of the next record of each partition."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def add(self, message: Message) -> None:
        """Adds a processed record."""
        self._next[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1

    def commit(self, consumer: Consumer) -> None:
        """Commits, and waits for the answer. Raises KafkaException."""
        offsets = [TopicPartition(*partition, offset) for partition, offset in self._next.items()]
        self._next.clear()
        try:
            if offsets:
                consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in LOST_IN_A_REBALANCE:
                raise
            say(f"not committed, because another member has the partitions: {refused.args[0].str()}")

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Drops partitions that another member has."""
        for partition in partitions:
            self._next.pop((partition.topic, partition.partition), None)


def say(text: str) -> None:
    """Writes a line to standard error at once."""
    print(text, file=sys.stderr, flush=True)


def names(partitions: Sequence[TopicPartition]) -> str:
    """The partitions as Kafka's tools write them."""
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions)


def process(message: Message) -> None:
    """The application's work with a record. A record may be processed twice, so the work must be idempotent."""
    value = message.value()
    print(json.dumps({"partition": message.partition(), "offset": message.offset(), "size": len(value or b"")}))


def work(consumer: Consumer, topic: str, stopping: Event) -> None:
    """Processes records until ``stopping`` is set. Raises KafkaException."""
    processed = Processed()

    def assigned(_: object, partitions: Sequence[TopicPartition]) -> None:
        say(f"assigned: {names(partitions)}")

    def revoked(_: object, partitions: Sequence[TopicPartition]) -> None:
        processed.commit(consumer)
        say(f"revoked: {names(partitions)}")

    def lost(_: object, partitions: Sequence[TopicPartition]) -> None:
        processed.forget(partitions)
        say(f"lost: {names(partitions)}")

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not stopping.is_set():
        for message in consumer.consume(500, 0.5):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            process(message)
            processed.add(message)
        sys.stdout.flush()
        processed.commit(consumer)


def setting(text: str) -> tuple[str, str]:
    """A setting of the command line."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    """Runs with the settings of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", required=True)
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE", type=setting)
    arguments = parser.parse_args()
    settings = {
        "enable.auto.commit": False,
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        **dict(arguments.settings),
    }
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        with Consumer(settings) as consumer:  # close() leaves the group
            work(consumer, arguments.topic, stopping)
    except (DirectFetchError, KafkaException) as error:
        sys.exit(f"stopped: {error}")


if __name__ == "__main__":
    main()
