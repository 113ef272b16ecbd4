from __future__ import annotations

import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import EpochEntry
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from tests.support.golden import golden_local


def test_reads_entries():
    assert parse_leader_epoch_checkpoint(b"0\n2\n0 0\n4 1020\n").entries == (EpochEntry(0, 0), EpochEntry(4, 1020))


def test_reads_an_empty_checkpoint():
    assert parse_leader_epoch_checkpoint(b"0\n0\n").entries == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\n0 0\n1 5\n",
        b"0\nx\n0 0\n",
        b"0\n-1\n",
        b"0\n01\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n0 -1\n",
        b"0\n1\na b\n",
        b"0\n2\n4 0\n4 5\n",
        b"0\n2\n4 9\n5 5\n",
        b"\xff\n1\n0 0\n",
        b"0\n1\n2147483648 0\n",
        b"0\n1\n0 9223372036854775808\n",
        b"0\n1\n0 " + b"9" * 20 + b"\n",
    ],
)
def test_an_invalid_checkpoint_raises(data):
    with pytest.raises(CorruptIndexError, match="leader epoch checkpoint"):
        parse_leader_epoch_checkpoint(data)


def test_reads_the_brokers_own_file():
    data = (golden_local() / "local-tail" / "epochs-0" / "leader-epoch-checkpoint").read_bytes()
    assert [entry.epoch for entry in parse_leader_epoch_checkpoint(data)] == [0, 2, 4]
