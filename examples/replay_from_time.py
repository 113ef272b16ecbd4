"""Prints the records of a topic from a time on, as JSON lines: old ones straight from the tier, new ones from the broker.

    python examples/replay_from_time.py --topic orders --since 2024-05-01T00:00:00+00:00 \\
        bootstrap.servers=localhost:9092 fetch.remote.bootstrap.servers=localhost:9192 \\
        remote.storage.fetcher.allowed.hosts=store.example.com

The rest are settings of the consumer. It stops when each partition has reached its end. It prints progress
to standard error, and at the end the number of records from each tier. It belongs to no group and commits nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from datetime import datetime

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer, Progress
from kafka_remote_client.errors import DirectFetchError

PATIENCE_SECONDS = 30.0


def say(progress: Progress) -> None:
    """Prints the progress of a partition."""
    left = "" if progress.seconds_left is None else f", {progress.seconds_left:.0f} s left"
    print(f"{progress.topic}-{progress.partition}: {progress.offset} of {progress.end_offset}{left}", file=sys.stderr)


def shown(message: Message, tier: str) -> str:
    """Returns a record as a line of JSON."""
    key, value = message.key(), message.value()
    return json.dumps(
        {
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "tier": tier,
            "key": None if key is None else key.decode(errors="replace"),
            "value": None if value is None else value.decode(errors="replace"),
        }
    )


def replay(consumer: Consumer, topic: str, since: datetime) -> Counter[str]:
    """Prints the records. Returns the number of records by tier. Raises KafkaException."""
    found = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic]
    if found.error is not None:  # no such topic, or no permission: it has no partitions
        raise KafkaException(found.error)
    since_ms = int(since.timestamp() * 1000)
    asked = [TopicPartition(topic, partition, since_ms) for partition in found.partitions]
    answers = consumer.offsets_for_times(asked, PATIENCE_SECONDS)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    starts = [answer for answer in answers if answer.offset >= 0]  # the others have no record since then
    consumer.assign(starts)
    left = {start.partition for start in starts}
    tiers: Counter[str] = Counter()
    while left:
        for message in consumer.consume(500, 0.5):
            error = message.error()
            if error is None:
                tier = consumer.tier(message) or "unknown"
                tiers[tier] += 1
                print(shown(message, tier))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
            else:
                raise KafkaException(error)
    return tiers


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
    parser.add_argument("--since", required=True, type=datetime.fromisoformat)
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE", type=setting)
    arguments = parser.parse_args()
    settings = {
        "group.id": "replay",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        "fetch.remote.progress.cb": say,
        **dict(arguments.settings),
    }
    try:
        with Consumer(settings) as consumer:
            tiers = replay(consumer, arguments.topic, arguments.since)
    except (DirectFetchError, KafkaException) as error:
        sys.exit(f"not replayed: {error}")
    print(", ".join(f"{count} records by the {tier} path" for tier, count in sorted(tiers.items())), file=sys.stderr)


if __name__ == "__main__":
    main()
