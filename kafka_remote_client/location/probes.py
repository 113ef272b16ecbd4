"""Questions to a partition's leader, independent of their transport. Pure.

Code that asks the leader is a generator: it yields a :class:`Probe`, is sent the leader's answer, and returns
its result. The shim drives it over a client's connection in its event loop, a client over its own connection::

    probes = check.confirm(...)         probe ──► a Fetch of the partition ──► PartitionData, or None for an error answer
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
    """No location is granted, and the broker serves the records. ``why`` is the short name of the counter."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ProbeKind(Enum):
    """The purpose of a probe. ABORTED_IN_TIER makes the broker read a little of the tier."""

    POSITION = auto()
    LINEAGE = auto()
    ABORTED = auto()
    ABORTED_IN_TIER = auto()


@attrs.frozen
class Probe:
    """A Fetch at ``offset`` that does not wait. ``max_bytes`` 0 requests no records, 1 at most one batch."""

    kind: ProbeKind
    offset: int
    last_fetched_epoch: int = UNKNOWN_EPOCH
    max_bytes: int = 0


Probes: TypeAlias = Generator[Probe, PartitionData | None, _T]
"""Yields probes and gets the answer to each: the partition's data, ``None`` if the whole request failed."""


def answered(probes: Probes[_T], ask: Callable[[Probe], PartitionData | None]) -> _T:
    """Returns the result of ``probes``, whose questions ``ask`` answers."""
    try:
        probe = next(probes)
        while True:
            probe = probes.send(ask(probe))
    except StopIteration as done:
        result: _T = done.value
        return result
