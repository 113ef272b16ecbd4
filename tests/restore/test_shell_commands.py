from kafka_remote_client.model import AbortedTransaction, TopicPartition
from kafka_remote_client.restore.shell_commands import abort_commands, group_offset_commands


def test_aborts_each_transaction_by_its_first_offset() -> None:
    hanging = {
        TopicPartition("b", 1): (AbortedTransaction(9, 5),),
        TopicPartition("a", 0): (AbortedTransaction(7, 100), AbortedTransaction(8, 120)),
    }
    assert list(abort_commands(hanging, "k:9092")) == [
        "kafka-transactions.sh --bootstrap-server k:9092 abort --topic a --partition 0 --start-offset 100",
        "kafka-transactions.sh --bootstrap-server k:9092 abort --topic a --partition 0 --start-offset 120",
        "kafka-transactions.sh --bootstrap-server k:9092 abort --topic b --partition 1 --start-offset 5",
    ]


def test_sets_exported_offsets() -> None:
    assert list(group_offset_commands("k:9092")) == [
        "kafka-consumer-groups.sh --bootstrap-server k:9092 --group GROUP --reset-offsets --from-file OFFSETS.csv --execute"
    ]
