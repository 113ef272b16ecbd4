from kafka_remote_client.fetch.ready_queue import ReadyQueue


def drained(turns: ReadyQueue[str], *, room: bool = True) -> list[str]:
    taken = []
    while (one := turns.take(room=room)) is not None:
        taken.append(one)
    return taken


def test_turns_come_in_the_order_of_what_happened_and_once_each() -> None:
    turns: ReadyQueue[str] = ReadyQueue()
    assert not turns
    for one in "abcab":
        turns.add(one)
    assert turns
    assert drained(turns) == ["a", "b", "c"]
    assert not turns


def test_waiting_reader_goes_first_when_budget_frees() -> None:
    turns: ReadyQueue[str] = ReadyQueue()
    turns.hold("a", first=False)
    turns.hold("b", first=False)
    turns.add("c")
    assert drained(turns, room=False) == ["c"]
    assert turns
    turns.add("c")
    assert drained(turns) == ["a", "b", "c"]


def test_who_waited_already_keeps_the_first_place() -> None:
    turns: ReadyQueue[str] = ReadyQueue()
    turns.hold("a", first=False)
    turns.hold("b", first=False)
    first = turns.take(room=True)
    assert first == "a"
    turns.hold(first, first=True)
    turns.add("b")
    turns.hold("c", first=False)
    assert drained(turns) == ["a", "b", "c"]


def test_some_get_their_turn_later() -> None:
    turns: ReadyQueue[str] = ReadyQueue()
    assert turns.patience(0.0, 5.0) == 5.0
    turns.add_later("b", 7.0)
    turns.add_later("a", 3.0)
    turns.add_later("c", 3.0)
    assert [turns.patience(now, 5.0) for now in (-9.0, 1.0, 4.0)] == [5.0, 2.0, 0.0]
    turns.wake(2.9)
    assert drained(turns) == []
    turns.wake(3.0)
    assert drained(turns) == ["a", "c"]
    turns.wake(100.0)
    assert drained(turns) == ["b"]
    assert turns.patience(100.0, 5.0) == 5.0


def test_who_is_discarded_gets_no_turn() -> None:
    turns: ReadyQueue[str] = ReadyQueue()
    turns.add("a")
    turns.hold("b", first=False)
    for one in "abc":
        turns.discard(one)
    assert drained(turns) == []


def test_a_turn_costs_no_look_at_the_others() -> None:
    looked = 0

    class Counted(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__hash__()

    turns: ReadyQueue[Counted] = ReadyQueue()
    readers = [Counted(number) for number in range(1000)]
    for one in readers:
        turns.hold(one, first=False)
    looked = 0
    for _ in range(100):
        taken = turns.take(room=True)
        assert taken is not None
        turns.hold(taken, first=True)
        assert turns.take(room=False) is None
    assert looked < 100 * 10
