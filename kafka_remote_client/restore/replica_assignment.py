"""Which nodes have a replica of which partition: the JSON that ``kafka-reassign-partitions.sh`` writes and reads. Pure.

::

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}

The first replica leads. ``log_dirs`` may be missing. A restore writes to one folder of a node, so each is "any".

References: Kafka's ReassignPartitionsCommand (parsePartitionAssignment), KIP-455.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.parsing import parse_json

__all__ = ["ReplicaAssignment", "parse_assignment"]

ReplicaAssignment = Mapping[TopicPartition, tuple[int, ...]]
_VERSION = 1
_MOST = 2**31 - 1


def parse_assignment(text: str, where: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Node ids by partition. Raises ConfigurationError, which begins with ``where``, for another form."""
    try:
        given = parse_json(text)
    except ValueError as error:
        raise ConfigurationError(f"{where} is not JSON: {error}") from None
    if not isinstance(given, dict) or given.get("version") != _VERSION or not isinstance(given.get("partitions"), list):
        raise ConfigurationError(f'{where} must have "version": {_VERSION} and a list of "partitions"')
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(given["partitions"]):
        problem = _problem(entry)
        if problem is not None:
            raise ConfigurationError(f"{where}: entry {number} of partitions {problem}")
        name = TopicPartition(entry["topic"], entry["partition"])
        if name in found:
            raise ConfigurationError(f"{where} has {name} twice")
        found[name] = tuple(entry["replicas"])
    return found


def _problem(entry: object) -> str | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("topic"), str):
        return 'must have a "topic"'
    replicas, folders = entry.get("replicas"), entry.get("log_dirs")
    if not _is_number(entry.get("partition")):
        return 'must have a "partition", a whole number'
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        return 'must have "replicas", a list of node ids'
    if len(set(replicas)) < len(replicas):
        return "names a replica twice"
    if folders not in (None, ["any"] * len(replicas)):
        return 'must have "any" for each of its "log_dirs", or no "log_dirs"'
    return None


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST
