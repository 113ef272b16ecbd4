import itertools

import pytest

from kafka_remote_client.fetch.partition_state import (
    TRANSITIONS,
    IllegalTransitionError,
    ReaderEvent,
    ReaderState,
    transition,
)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(ReaderState, ReaderEvent)))
def test_each_pair_of_state_and_event_is_in_the_table_or_raises(state: ReaderState, event: ReaderEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert transition(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"the event {event.name} is illegal in the state {state.name}"):
            transition(state, event)


def test_stop_is_legal_everywhere_and_final() -> None:
    for state in ReaderState:
        assert transition(state, ReaderEvent.STOP) is ReaderState.STOPPED
    assert {event for state, event in TRANSITIONS if state is ReaderState.STOPPED} == {ReaderEvent.STOP}


def test_every_state_is_reached_from_locating() -> None:
    reached, todo = set(), [ReaderState.LOCATING]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached.add(state)
            todo += [after for (before, _), after in TRANSITIONS.items() if before is state]
    assert reached == set(ReaderState)
