"""A run has the interface of its first message, and returns its records in two ways."""

from __future__ import annotations

import pytest

from kafka_remote_client.consumer.message_positions import end_of, key_of, offset_of
from kafka_remote_client.consumer.message_run import MessageRun
from kafka_remote_client.records import read_batches
from tests.support.batches import Rec, batch, legacy_message


def run() -> MessageRun:
    records = [Rec(n, b"k%d" % n, None if n == 2 else b"v", [(b"h", b"x")] if n == 1 else ()) for n in range(4)]
    block = read_batches(batch(10, records, epoch=5) + batch(20, records, epoch=6))
    return MessageRun.of(block, "orders", 3, 1, 6)


def test_a_run_stands_where_its_first_record_does() -> None:
    made = run()
    assert (key_of(made), offset_of(made), made.error(), len(made)) == (("orders", 3), 11, None, 5)
    assert end_of(made) == (22, 6)


def test_a_run_is_split_between_two_records() -> None:
    head, tail = run().split(2)
    assert (len(head), offset_of(head), end_of(head)) == (2, 11, (13, 5))
    assert (len(tail), offset_of(tail), end_of(tail)) == (3, 13, (22, 6))


def test_a_run_becomes_the_messages_of_its_records() -> None:
    messages = run().messages()
    assert [(one.offset(), one.key(), one.value()) for one in messages] == [
        (11, b"k1", b"v"),
        (12, b"k2", None),
        (13, b"k3", b"v"),
        (20, b"k0", b"v"),
        (21, b"k1", b"v"),
    ]
    assert messages[0].headers() == [("h", b"x")]
    assert messages[1].headers() is None
    assert key_of(messages[0]) == ("orders", 3)


@pytest.mark.parametrize(("magic", "time"), [(0, (0, 0)), (1, (1, 1000))])
def test_a_run_of_old_records_has_no_leader_epoch(magic: int, time: tuple[int, int]) -> None:
    made = MessageRun.of(read_batches(legacy_message(0, b"v", magic=magic)), "t", 0, 0, 1)
    assert end_of(made) == (1, -1)
    assert made.messages()[0].timestamp() == time
