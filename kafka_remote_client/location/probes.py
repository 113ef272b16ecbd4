"""Questions to a partition's leader, apart from how they travel. Pure.

Code that asks the leader is a generator: it yields a :class:`Probe`, is sent the leader's answer, and returns
what it learnt. The shim drives it over a client's connection in its event loop, a client over a connection of its own::

    probes = word.confirm(...)          probe ──► a Fetch of the partition ──► PartitionData, or None for an error answer
             ▲                                                                       │
             └──────────────────────────── send ◄────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import TypeAlias, TypeVar

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH
from kafka_remote_client.protocol.fetch import PartitionData

__all__ = ["NotGrantedError", "Probe", "ProbeKind", "Probes", "answered"]

_T = TypeVar("_T")


class NotGrantedError(Exception):
    """No location is granted, and the broker is to serve. ``why`` is the short name that it is counted by."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ProbeKind(Enum):
    """What a probe is for. ABORTED_IN_TIER makes the broker read a little of the tier itself."""

    POSITION = auto()
    LINEAGE = auto()
    ABORTED = auto()
    ABORTED_IN_TIER = auto()


@attrs.frozen
class Probe:
    """A Fetch at ``offset`` that waits for nothing. ``max_bytes`` 0 asks for no records, 1 for at most one batch."""

    kind: ProbeKind
    offset: int
    last_fetched_epoch: int = UNKNOWN_EPOCH
    max_bytes: int = 0


Probes: TypeAlias = Generator[Probe, PartitionData | None, _T]
"""Yields probes and is sent the answer to each: the partition's data, ``None`` when the request as a whole failed."""


def answered(probes: Probes[_T], ask: Callable[[Probe], PartitionData | None]) -> _T:
    """What ``probes`` returns when ``ask`` answers each."""
    try:
        probe = next(probes)
        while True:
            probe = probes.send(ask(probe))
    except StopIteration as done:
        result: _T = done.value
        return result
