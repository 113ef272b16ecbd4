from kafka_remote_client.fetch.ready_queue import ReadyQueue


def drained(queue: ReadyQueue[str], *, budget: bool = True) -> list[str]:
    taken = []
    while (one := queue.take(budget=budget)) is not None:
        taken.append(one)
    return taken


def test_readers_get_turns_in_the_order_of_events_and_once_each() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    assert not queue
    for one in "abcab":
        queue.add(one)
    assert queue
    assert drained(queue) == ["a", "b", "c"]
    assert not queue


def test_waiting_reader_goes_first_when_budget_frees() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.hold("a", first=False)
    queue.hold("b", first=False)
    queue.add("c")
    assert drained(queue, budget=False) == ["c"]
    assert queue
    queue.add("c")
    assert drained(queue) == ["a", "b", "c"]


def test_a_reader_held_again_keeps_its_place() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.hold("a", first=False)
    queue.hold("b", first=False)
    first = queue.take(budget=True)
    assert first == "a"
    queue.hold(first, first=True)
    queue.add("b")
    queue.hold("c", first=False)
    assert drained(queue) == ["a", "b", "c"]


def test_a_postponed_reader_gets_its_turn_later() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    assert queue.patience(0.0, 5.0) == 5.0
    queue.add_later("b", 7.0)
    queue.add_later("a", 3.0)
    queue.add_later("c", 3.0)
    assert [queue.patience(now, 5.0) for now in (-9.0, 1.0, 4.0)] == [5.0, 2.0, 0.0]
    queue.wake(2.9)
    assert drained(queue) == []
    queue.wake(3.0)
    assert drained(queue) == ["a", "c"]
    queue.wake(100.0)
    assert drained(queue) == ["b"]
    assert queue.patience(100.0, 5.0) == 5.0


def test_a_reader_whose_time_has_come_no_longer_waits_for_budget() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.hold("a", first=False)
    queue.hold("b", first=False)
    queue.add_later("b", 1.0)
    queue.wake(1.0)
    assert drained(queue, budget=False) == ["b"]
    assert drained(queue) == ["a"]


def test_a_discarded_reader_gets_no_turn() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.add("a")
    queue.hold("b", first=False)
    for one in "abc":
        queue.discard(one)
    assert drained(queue) == []


def test_a_turn_does_not_look_at_other_readers() -> None:
    looked = 0

    class Counted(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__hash__()

    queue: ReadyQueue[Counted] = ReadyQueue()
    readers = [Counted(number) for number in range(1000)]
    for one in readers:
        queue.hold(one, first=False)
    looked = 0
    for _ in range(100):
        taken = queue.take(budget=True)
        assert taken is not None
        queue.hold(taken, first=True)
        assert queue.take(budget=False) is None
    assert looked < 100 * 10
