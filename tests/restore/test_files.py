from uuid import UUID

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import EpochEntry, TopicPartition, uuid_from_text
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.restore.files import (
    FormattedNode,
    leader_epoch_checkpoint,
    log_file,
    log_start_checkpoint,
    parse_meta_properties,
    partition_metadata,
    snapshot_file,
)
from tests.support.golden import golden_local
from tests.support.new_node import DIRECTORY, META


def test_writes_leader_epochs_as_brokers_do() -> None:
    written = sorted(golden_local().glob("**/*leader*epoch*checkpoint"))
    assert len(written) > 50
    for path in written:
        assert leader_epoch_checkpoint(parse_leader_epoch_checkpoint(path.read_bytes())) == path.read_bytes()


def test_writes_leader_epochs_in_their_order() -> None:
    assert leader_epoch_checkpoint([EpochEntry(0, 437), EpochEntry(4, 900)]) == b"0\n2\n0 437\n4 900\n"


def test_writes_log_starts_as_the_broker_did() -> None:
    """The file of Kafka 4.3.1 after DeleteRecords to 437."""
    starts = {TopicPartition("epochs", 1): 0, TopicPartition("delrec", 0): 437, TopicPartition("epochs", 0): 0}
    assert log_start_checkpoint(starts) == b"0\n3\ndelrec 0 437\nepochs 0 0\nepochs 1 0\n"


def test_writes_partition_metadata_as_the_broker_did() -> None:
    """The file of a partition of __remote_log_metadata that Kafka 4.3.1 created."""
    assert partition_metadata(uuid_from_text("iX5TrPhUTeORNT7IiK-LmQ")) == b"version: 0\ntopic_id: iX5TrPhUTeORNT7IiK-LmQ"


def test_names_files_by_offset() -> None:
    assert log_file(2695) == "00000000000000002695.log"
    assert snapshot_file(2695) == "00000000000000002695.snapshot"
    assert (golden_local() / "local-tail" / "txn-0" / snapshot_file(2695)).is_file()


def test_reads_the_properties_of_a_formatted_folder() -> None:
    assert parse_meta_properties(META) == FormattedNode(1, uuid_from_text(DIRECTORY), "dGVzdC1jbHVzdGVyLTAwMQ")
    assert parse_meta_properties(META).directory_id != UUID(int=0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version=1", "version=0", "version 0, not 1"),
        ("version=1\n", "", "version None, not 1"),
        (f"directory.id={DIRECTORY}\n", "", "no directory.id: format it with Kafka 3.7 or later"),
        ("node.id=1", "node.id=one", "invalid literal"),
        (DIRECTORY, "short", "a Kafka Uuid has 22 characters"),
    ],
)
def test_refuses_other_properties(old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_meta_properties(META.replace(old, new))
