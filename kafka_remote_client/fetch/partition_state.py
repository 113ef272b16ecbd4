"""The states of one partition's remote read, as a table. Pure (no I/O).

Theory of operation. A reader starts LOCATING: it needs the location of its next offset. A grant makes it READING; while the
last grant is being read, the next one is already requested, so READING gets GRANTED again. If all grants are used up before the
next one arrives, it is LOCATING again, also if a range is unreadable in a way that a new location may fix. ENDING means that no
further byte is requested: the owner takes the decoded records, then the end itself, with the reason and the offset at which the
broker continues. STOP comes from the owner (seek, pause, revocation, close) and may come at any time; results that arrive later
are dropped because a stopped reader accepts no event but STOP.

References: docs/design.md, "States of a read".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

__all__ = ["TRANSITIONS", "IllegalTransitionError", "ReaderEvent", "ReaderState", "transition"]


class ReaderState(Enum):
    """The state of a reader."""

    LOCATING = auto()
    READING = auto()
    ENDING = auto()
    ENDED = auto()
    STOPPED = auto()


class ReaderEvent(Enum):
    """An event of a reader."""

    GRANTED = auto()
    """A location arrived, for the next offset or ahead of time."""
    EXHAUSTED = auto()
    """All grants are used up, and the next one has not arrived."""
    RELOCATE = auto()
    """A range needs a fresh location; the grants are dropped."""
    END = auto()
    """Nothing more will be read: bound reached, data local, or failure."""
    TAKEN = auto()
    """The owner took the end."""
    STOP = auto()
    """The owner stopped the reader."""


class IllegalTransitionError(RuntimeError):
    """An event that is illegal in the reader's state: a defect of this package, not of its input."""


TRANSITIONS: Mapping[tuple[ReaderState, ReaderEvent], ReaderState] = MappingProxyType(
    {
        (ReaderState.LOCATING, ReaderEvent.GRANTED): ReaderState.READING,
        (ReaderState.LOCATING, ReaderEvent.END): ReaderState.ENDING,
        (ReaderState.LOCATING, ReaderEvent.STOP): ReaderState.STOPPED,
        (ReaderState.READING, ReaderEvent.GRANTED): ReaderState.READING,
        (ReaderState.READING, ReaderEvent.EXHAUSTED): ReaderState.LOCATING,
        (ReaderState.READING, ReaderEvent.RELOCATE): ReaderState.LOCATING,
        (ReaderState.READING, ReaderEvent.END): ReaderState.ENDING,
        (ReaderState.READING, ReaderEvent.STOP): ReaderState.STOPPED,
        (ReaderState.ENDING, ReaderEvent.TAKEN): ReaderState.ENDED,
        (ReaderState.ENDING, ReaderEvent.STOP): ReaderState.STOPPED,
        (ReaderState.ENDED, ReaderEvent.STOP): ReaderState.STOPPED,
        (ReaderState.STOPPED, ReaderEvent.STOP): ReaderState.STOPPED,
    }
)


def transition(state: ReaderState, event: ReaderEvent) -> ReaderState:
    """The state after ``event``. Raises IllegalTransitionError for a pair that is not in the table."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(f"the event {event.name} is illegal in the state {state.name}") from None
