import json

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.restore.replica_assignment import parse_assignment

ENTRY = {"topic": "orders", "partition": 0, "replicas": [1, 2]}


def test_reads_what_kafka_writes() -> None:
    text = '{"version":1,"partitions":[{"topic":"a.b","partition":3,"replicas":[2,1],"log_dirs":["any","any"]}]}'
    assert parse_assignment(text, "f") == {TopicPartition("a.b", 3): (2, 1)}
    assert parse_assignment(json.dumps({"version": 1, "partitions": [ENTRY]}), "f") == {TopicPartition("orders", 0): (1, 2)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topic": 5}, 'must have a "topic"'),
        ({"partition": "0"}, 'must have a "partition", a whole number'),
        ({"partition": True}, 'must have a "partition", a whole number'),
        ({"partition": -1}, 'must have a "partition", a whole number'),
        ({"replicas": []}, 'must have "replicas", a list of node ids'),
        ({"replicas": 1}, 'must have "replicas", a list of node ids'),
        ({"replicas": [2**31]}, 'must have "replicas", a list of node ids'),
        ({"replicas": [1, 1]}, "names a replica twice"),
        ({"log_dirs": ["any"]}, 'must have "any" for each of its "log_dirs"'),
        ({"log_dirs": ["any", "/disk"]}, 'must have "any" for each of its "log_dirs"'),
    ],
)
def test_says_what_is_wrong_with_an_entry(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"f: entry 0 of partitions {said}"):
        parse_assignment(json.dumps({"version": 1, "partitions": [{**ENTRY, **changes}]}), "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "f is not JSON"),
        ("[]", 'f must have "version": 1'),
        ('{"version": 2, "partitions": []}', 'f must have "version": 1'),
        ('{"version": 1}', 'a list of "partitions"'),
        ('{"version": 1, "partitions": [1]}', 'entry 0 of partitions must have a "topic"'),
        (json.dumps({"version": 1, "partitions": [ENTRY, ENTRY]}), "f has orders-0 twice"),
    ],
)
def test_refuses_other_files(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_assignment(text, "f")
