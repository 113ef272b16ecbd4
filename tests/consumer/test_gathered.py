"""The list of gathered records counts, splits, hands out and takes back messages, errors and runs alike."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from kafka_remote_client.consumer.gathered import Gathered
from kafka_remote_client.consumer.message_positions import offset_of
from kafka_remote_client.consumer.message_run import MessageRun, Piece
from kafka_remote_client.records import read_batches
from tests.support.batches import Rec, batch


def run(base: int, count: int, partition: int = 0) -> MessageRun:
    block = read_batches(batch(base, [Rec(n, None, b"v") for n in range(count)]))
    return MessageRun.of(block, "t", partition, 0, count)


def message(offset: int, partition: int = 0) -> Message:
    return Message("t", partition, offset, value=b"v")


def error(partition: int = 0) -> Message:
    return Message("t", partition, error=KafkaError(KafkaError._PARTITION_EOF))


def gathered(*pieces: Piece) -> Gathered:
    made = Gathered()
    for piece in pieces:
        made.add([piece])
    return made


def offsets(pieces: list[Piece]) -> list[int]:
    return [offset_of(piece) for piece in pieces]


def test_each_record_of_a_run_counts() -> None:
    assert [len(gathered()), len(gathered(message(0), error())), len(gathered(run(0, 5), message(5), run(6, 2)))] == [0, 2, 8]


def test_messages_that_are_put_back_come_first() -> None:
    made = gathered(message(2))
    made.put_back([message(0), message(1)])
    assert offsets(made.pieces) == [0, 1, 2]


def test_runs_become_messages_in_their_places() -> None:
    made = gathered(message(0), run(1, 2), message(3))
    made.as_messages()
    assert offsets(made.pieces) == [0, 1, 2, 3]
    assert all(isinstance(piece, Message) for piece in made.pieces)
    assert len(made) == 4


@pytest.mark.parametrize(("wanted", "pieces", "total"), [(1, 1, 3), (2, 2, 4), (4, 2, 3), (5, 3, 3), (9, 3, 3)])
def test_a_run_is_split_after_the_wanted_records(wanted: int, pieces: int, total: int) -> None:
    made = gathered(message(0), run(1, 3), message(4))
    assert (made.pieces_of(wanted), len(made.pieces), len(made)) == (pieces, total, 5)


def test_runs_are_taken_up_to_the_wanted_records() -> None:
    made = gathered(run(0, 1), run(1, 1), run(2, 3))
    assert [len(piece) for piece in made.take(made.pieces_of(4))] == [1, 1, 2]
    assert offsets(made.pieces) == [4]


@pytest.mark.parametrize(("before", "pieces"), [(0, 1), (2, 2)])
def test_an_error_ends_the_pieces_and_comes_alone(before: int, pieces: int) -> None:
    made = gathered(*map(message, range(before)), error(), message(5))
    assert made.pieces_of(10) == pieces


def test_the_rest_stays_with_its_runs() -> None:
    made = gathered(run(0, 2), message(2), run(3, 4))
    assert offsets(made.take(2)) == [0, 2]
    assert len(made) == 4
    assert offsets(made.take(2)) == [3]
    assert (made.pieces, len(made)) == ([], 0)


def test_a_partition_is_taken_back_with_its_runs_and_errors() -> None:
    made = gathered(message(7, 1), error(), run(3, 4), message(2), run(8, 2, 1))
    made.look_for_errors()
    assert made.error_waits
    assert made.take_back(("t", 0)) == 2
    assert not made.error_waits
    assert (offsets(made.pieces), len(made)) == ([7, 8], 3)


def test_nothing_is_taken_back_without_a_record() -> None:
    made = gathered(error(), message(1, 1))
    assert made.take_back(("t", 2)) is None
    assert made.take_back(("t", 0)) is None
    assert offsets(made.pieces) == [1]


def test_nothing_is_left_after_clear() -> None:
    made = gathered(message(0), run(1, 3))
    made.clear()
    assert (made.pieces, len(made)) == ([], 0)
