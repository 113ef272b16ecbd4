"""A slice delivered one record at a time: order, stored offsets, and the thread that watches."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from tests.support.waiting import wait_until


class Store:
    """Records the offsets that were stored; raises if ``refuses`` is set."""

    def __init__(self) -> None:
        self.stored: list[Message] = []
        self.refuses: Exception | None = None

    def __call__(self, message: Message) -> None:
        self.stored.append(message)
        if self.refuses is not None:
            raise self.refuses


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def handed_out(store: Store) -> Iterator[DeliveryQueue]:
    made = DeliveryQueue(store)
    yield made
    made.close()


def messages(count: int, partition: int = 0) -> list[Message]:
    return [Message(topic="t", partition=partition, offset=number, value=b"%d" % number) for number in range(count)]


def begin(handed_out: DeliveryQueue, given: list[Message], *, of_one_partition: bool = True) -> Message:
    message = handed_out.hand_out(list(given), of_one_partition=of_one_partition)
    assert message is not None
    return message


def hand_out(handed_out: DeliveryQueue) -> Message:
    """Takes records from the queue as poll() does."""
    message = handed_out.take()
    assert message is not None
    return message


def watcher() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kafka-remote-offsets"]


def test_records_come_in_order_and_the_rest_is_given_back_in_order(handed_out: DeliveryQueue, store: Store) -> None:
    one, two, three, four = given = messages(4)
    assert begin(handed_out, given) is one
    assert hand_out(handed_out) is two
    assert handed_out.last is two
    assert handed_out.settle() == ([two], [three, four])
    assert store.stored[-1] is two
    assert handed_out.waiting == []
    assert handed_out.last is None
    assert handed_out.settle() == ([], [])
    assert store.stored[-1] is two


def test_the_last_record_is_stored_without_a_further_call(handed_out: DeliveryQueue, store: Store) -> None:
    given = messages(3)
    begin(handed_out, given)
    wait_until(lambda: store.stored == [given[0]], "the first to be stored")
    hand_out(handed_out)
    hand_out(handed_out)
    wait_until(lambda: store.stored[-1] is given[2], "the last to be stored")


def test_each_record_is_stored_once(handed_out: DeliveryQueue, store: Store) -> None:
    begin(handed_out, messages(1))
    handed_out.store()
    assert not handed_out.store()
    handed_out.settle()
    assert len(store.stored) == 1


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._STATE)), RuntimeError("Consumer closed")], ids=["refused", "closed"]
)
def test_a_refused_offset_raises_nothing(handed_out: DeliveryQueue, store: Store, error: Exception) -> None:
    store.refuses = error
    begin(handed_out, messages(2))
    handed_out.settle()
    assert len(store.stored) == 1


def test_inner_consumer_becomes_due_again_after_each_settle(handed_out: DeliveryQueue) -> None:
    begin(handed_out, messages(2))
    wait_until(lambda: handed_out.due, "the inner consumer to be due")
    begin(handed_out, handed_out.settle()[1])
    wait_until(lambda: handed_out.due, "the inner consumer to be due again")


def test_the_thread_ends_when_nothing_is_handed_out_and_comes_back(handed_out: DeliveryQueue, store: Store) -> None:
    begin(handed_out, messages(3))
    wait_until(lambda: handed_out._thread is None, "the thread to rest")
    assert handed_out.due
    begin(handed_out, handed_out.settle()[1])
    last = hand_out(handed_out)
    wait_until(lambda: store.stored[-1] is last, "the thread to be back")


def test_thread_continues_when_a_slice_begins_just_before_its_rest(handed_out: DeliveryQueue) -> None:
    begin(handed_out, messages(1))
    handed_out.due = False
    assert not handed_out.rest()
    assert handed_out._thread is not None


def test_where_the_application_stores_for_itself_nothing_is_stored() -> None:
    handed_out = DeliveryQueue(None)
    (one,) = given = messages(1)
    begin(handed_out, given)
    wait_until(lambda: handed_out.due, "the inner consumer to be due")
    assert handed_out.settle() == ([one], [])
    handed_out.close()


def test_closing_ends_the_thread_and_so_does_dropping_the_last_reference() -> None:
    before = set(watcher())
    closed, dropped = DeliveryQueue(None), DeliveryQueue(None)
    begin(closed, messages(1))
    begin(dropped, messages(1))
    closed.close()
    assert len(set(watcher()) - before) == 1
    del dropped
    gc.collect()
    wait_until(lambda: not set(watcher()) - before, "the other thread to end")


def test_without_a_thread_each_poll_settles_and_no_record_is_lost(
    handed_out: DeliveryQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = given = messages(3)
    with monkeypatch.context() as refused:
        refused.setattr("kafka_remote_client.consumer.delivery_queue.start_thread", lambda *_: None)
        assert begin(handed_out, given) is one
        assert handed_out.due
        assert handed_out.settle() == ([one], [two, three])
    assert begin(handed_out, [two, three]) is two
    assert not handed_out.due
    assert len(watcher()) == 1
    assert store.stored == [one]


@pytest.mark.parametrize("of_one_partition", [False, True])
def test_an_end_is_no_record_to_store(handed_out: DeliveryQueue, store: Store, of_one_partition: bool) -> None:
    (record,) = messages(1)
    end = Message(topic="t", partition=0, offset=1, error=KafkaError(KafkaError._PARTITION_EOF))
    begin(handed_out, [end, record, end], of_one_partition=of_one_partition)
    assert handed_out.last is None
    handed_out.store()
    assert store.stored == []
    hand_out(handed_out)
    hand_out(handed_out)
    assert handed_out.last is record
    assert handed_out.settle() == ([record], [])
    assert store.stored == [record]


def test_of_a_slice_of_several_partitions_each_ones_last_is_stored(handed_out: DeliveryQueue, store: Store) -> None:
    a, b = messages(3), messages(2, partition=1)
    begin(handed_out, [a[0], b[0], a[1], b[1], a[2]], of_one_partition=False)
    hand_out(handed_out)
    hand_out(handed_out)
    handed_out.store()
    assert {(m.partition(), m.offset()) for m in store.stored[-2:]} == {(0, 1), (1, 0)}
    hand_out(handed_out)
    lasts, waiting = handed_out.settle()
    assert lasts == [a[1], b[1]]
    assert waiting == [a[2]]
    assert store.stored[-1] is b[1]


def test_a_slice_that_ends_where_the_one_before_was_left_is_stored(store: Store) -> None:
    handed_out = DeliveryQueue(store)
    handed_out.close()  # no thread stores meanwhile
    for given in (messages(3), messages(3, partition=1)):
        begin(handed_out, given)
        hand_out(handed_out)
        hand_out(handed_out)
        assert handed_out.settle() == ([given[-1]], [])
    assert [message.partition() for message in store.stored] == [0, 1]


def end(partition: int = 0) -> Message:
    return Message(topic="t", partition=partition, offset=9, error=KafkaError(KafkaError._PARTITION_EOF))


def test_a_partition_is_unfollowed_until_more_is_asked_for(handed_out: DeliveryQueue) -> None:
    begin(handed_out, messages(2))
    handed_out.store()
    assert handed_out.unfollowed == {("t", 0)}
    assert handed_out.follow() == {("t", 0)}
    assert handed_out.unfollowed == set()


@pytest.mark.parametrize("of_one_partition", [True, False])
def test_a_delivered_end_leaves_no_partition_unfollowed(
    handed_out: DeliveryQueue, store: Store, of_one_partition: bool
) -> None:
    one, two = messages(2)
    begin(handed_out, [one, two, end()], of_one_partition=of_one_partition)
    hand_out(handed_out)
    hand_out(handed_out)
    assert handed_out.settle() == ([two], [])
    assert store.stored[-1] is two
    assert handed_out.unfollowed == set()


def test_the_end_of_one_partition_says_nothing_of_another(handed_out: DeliveryQueue) -> None:
    begin(handed_out, [*messages(1, 0), *messages(1, 1), end(1)], of_one_partition=False)
    hand_out(handed_out)
    hand_out(handed_out)
    handed_out.settle()
    assert handed_out.unfollowed == {("t", 0)}


def test_knows_of_which_partitions_records_wait(handed_out: DeliveryQueue) -> None:
    begin(handed_out, [*messages(1, 0), *messages(1, 1), end(0)], of_one_partition=False)
    assert handed_out.waiting_keys == {("t", 1)}
    hand_out(handed_out)
    assert handed_out.waiting_keys == set()
    handed_out.settle()
    assert handed_out.waiting_keys == set()


def test_the_place_of_a_partition_is_known_without_storing(handed_out: DeliveryQueue, store: Store) -> None:
    given = [*messages(2), *messages(1, partition=1), *messages(1, partition=2)]
    begin(handed_out, given, of_one_partition=False)
    assert handed_out.delivered(("t", 0)) == (given[0], True)
    assert handed_out.delivered(("t", 1)) == (None, True)
    hand_out(handed_out)
    hand_out(handed_out)
    assert handed_out.delivered(("t", 0)) == (given[1], True), "nobody asked for more"
    handed_out.follow()
    assert handed_out.delivered(("t", 0)) == (given[1], False)
    assert handed_out.delivered(("t", 1)) == (given[2], False)
    assert handed_out.delivered(("t", 3)) == (None, False)
    handed_out.store()
    assert store.stored[-2:] == [given[1], given[2]]
    assert handed_out.settle() == ([given[1], given[2]], [given[3]])
    assert handed_out.delivered(("t", 2)) == (None, False)


def test_a_record_looked_at_before_is_still_stored(handed_out: DeliveryQueue, store: Store) -> None:
    given = messages(3)
    begin(handed_out, given)
    handed_out.delivered(("t", 0))
    handed_out.store()
    assert store.stored == [given[0]]
