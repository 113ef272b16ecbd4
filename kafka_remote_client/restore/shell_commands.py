"""The commands that a user runs after the first start of a restored node. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from kafka_remote_client.model import AbortedTransaction, TopicPartition

__all__ = ["abort_commands", "group_offset_commands"]


def abort_commands(hanging: Mapping[TopicPartition, Sequence[AbortedTransaction]], servers: str) -> Iterator[str]:
    """One for each transaction that no producer can end any more: until it is aborted, read_committed stops before it."""
    for at, transactions in sorted(hanging.items()):
        for transaction in transactions:
            yield shlex.join(
                [
                    *("kafka-transactions.sh", "--bootstrap-server", servers, "abort"),
                    *("--topic", at.topic, "--partition", str(at.partition), "--start-offset", str(transaction.first_offset)),
                ]
            )


def group_offset_commands(servers: str) -> Iterator[str]:
    """How to export a group's offsets from a cluster that still runs, and how to set them in the restored one."""
    tool = f"kafka-consumer-groups.sh --bootstrap-server {shlex.quote(servers)} --group GROUP --reset-offsets"
    yield f"{tool} --from-file OFFSETS.csv --execute"
