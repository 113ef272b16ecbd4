"""Reads several topics at once in one event loop, with one consumer per topic.

    python examples/asyncio_application.py --topics orders,payments group.id=report auto.offset.reset=earliest \\
        bootstrap.servers=localhost:9092 fetch.remote.bootstrap.servers=localhost:9192 \\
        remote.storage.fetcher.allowed.hosts=store.example.com

The rest are settings of the consumers. It reads each topic to its end, and prints how many records and bytes each has, and how
many records came from the tier. It commits nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_remote_client import AIOConsumer
from kafka_remote_client.errors import DirectFetchError

PATIENCE_SECONDS = 30.0


async def report(topic: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Reads a topic from its start to its end. Raises KafkaException."""
    async with AIOConsumer(settings) as consumer:
        found = (await consumer.list_topics(topic, timeout=PATIENCE_SECONDS)).topics[topic]
        if found.error is not None:  # no such topic, or no permission: it has no partitions
            raise KafkaException(found.error)
        await consumer.assign([TopicPartition(topic, partition) for partition in found.partitions])
        left, records, nbytes = set(found.partitions), 0, 0
        while left:
            for message in await consumer.consume(500, 0.5):
                error = message.error()
                if error is None:
                    records += 1
                    nbytes += len(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
        from_tier = (await consumer.metrics())["remote-fetch-records-total"]
    return {"topic": topic, "records": records, "bytes": nbytes, "from_tier": from_tier}


async def report_all(topics: list[str], settings: dict[str, Any]) -> None:
    """Prints a line of JSON for each topic, in the order in which they end."""
    for ended in asyncio.as_completed([report(topic, settings) for topic in topics]):
        print(json.dumps(await ended), flush=True)


def setting(text: str) -> tuple[str, str]:
    """A setting of the command line."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    """Runs with the settings of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", required=True, type=lambda text: text.split(","), help="topics, separated by commas")
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE", type=setting)
    arguments = parser.parse_args()
    settings = {
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        **dict(arguments.settings),
    }
    try:
        asyncio.run(report_all(arguments.topics, settings))
    except (DirectFetchError, KafkaException) as error:
        sys.exit(f"not reported: {error}")


if __name__ == "__main__":
    main()
