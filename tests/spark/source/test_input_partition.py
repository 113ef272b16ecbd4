from __future__ import annotations

import pickle

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition

SPLIT = Split(TopicPartition("t", 0), 5, 10, 1000, 7, "no answer", 99)


def test_a_split_travels_by_names_and_numbers() -> None:
    travelled = pickle.loads(pickle.dumps(KafkaRemotePartition(SPLIT)))
    assert travelled.split == SPLIT
    told = travelled.split
    assert (told.tiered_end, told.tier_failure, told.max_broker_bytes) == (7, "no answer", 99)
    assert travelled.value == ("t", 0, 5, 10, 1000, 7, "no answer", 99)
