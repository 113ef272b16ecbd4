from __future__ import annotations

import pickle

from kafka_remote_client.spark.offsets import TopicPartition
from kafka_remote_client.spark.partition import KafkaRemotePartition
from kafka_remote_client.spark.planning import Split

SPLIT = Split(TopicPartition("t", 0), 5, 10, 1000)


def test_a_split_travels_by_names_and_numbers() -> None:
    travelled = pickle.loads(pickle.dumps(KafkaRemotePartition(SPLIT)))
    assert travelled.split == SPLIT
    assert travelled.value == ("t", 0, 5, 10, 1000)
