from __future__ import annotations

import re
import struct

import crc32c
import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from tests.support.golden import golden_local, read_text
from tests.support.golden_metadata import golden_cache, golden_store
from tests.support.tier import LAYOUT, snapshot


def test_gives_the_open_transactions_in_order_of_first_offset():
    data = snapshot((1, 50), (2, -1), (3, 20), (4, 0))
    assert open_transactions(data) == (AbortedTransaction(4, 0), AbortedTransaction(3, 20), AbortedTransaction(1, 50))


def test_a_snapshot_without_producers_has_none():
    assert open_transactions(snapshot()) == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "0 bytes"),
        (snapshot()[:9], "9 bytes"),
        (b"\0\2" + snapshot()[2:], "version 2"),
        (snapshot((1, 5))[:-1], "checksum"),
        (snapshot((1, 5))[:-1] + b"\x07", "checksum"),
    ],
)
def test_an_invalid_snapshot_raises(data, says):
    with pytest.raises(CorruptIndexError, match=says):
        open_transactions(data)


@pytest.mark.parametrize("count", [-1, 0, 2, 2**31 - 1])
def test_raises_for_a_count_that_does_not_match(count):
    body = struct.pack(">i", count) + snapshot((1, 5))[10:]
    with pytest.raises(CorruptIndexError, match=f"{count} entries"):
        open_transactions(struct.pack(">hI", 1, crc32c.crc32c(body)) + body)


def test_golden_snapshots_name_the_transactions_that_kafkas_tool_printed():
    text = read_text(golden_local() / "dump-log-segments" / "txn-0.txt.gz")
    line = re.compile(r"producerId: (\d+) .* currentTxnFirstOffset: OptionalLong\[(\d+)\]")
    printed = {
        int(start): {AbortedTransaction(int(a), int(b)) for a, b in line.findall(body)}
        for start, body in re.findall(r"Dumping \S+/(\d+)\.snapshot\n((?:producerId: .*\n)*)", text)
    }
    indexes = RemoteIndexCache(golden_store(), LAYOUT)
    for segment in golden_cache("txn").list_all_remote_log_segments():
        assert set(indexes.open_transactions(segment)) == printed[segment.start_offset]
