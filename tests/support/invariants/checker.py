"""All invariants by their ids, and the check that a test calls.

::

    check(history, oracle)                        # raises AssertionError with every violation
    check(history, oracle, without={"I8"})        # only if a scenario cannot show one, with a comment that gives the reason
    violations(history, oracle)                   # the same as values

An invariant is a pure function of a history and an oracle that returns its violations. With an oracle without records,
``Oracle({})``, those hold that need none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from tests.support.history import History
from tests.support.invariants.content import different, uncommitted
from tests.support.invariants.counters import miscounted
from tests.support.invariants.delivery import duplicated, lost, out_of_order, skipped, unrequested
from tests.support.invariants.offsets import ahead, unreported
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.resources import PATIENCE_SECONDS, leaked, stalled
from tests.support.invariants.violation import Violation

__all__ = ["INVARIANTS", "Invariant", "check", "violations"]

Invariant: TypeAlias = Callable[[History, Oracle], list[Violation]]

INVARIANTS: Mapping[str, Invariant] = MappingProxyType(
    {
        "I1": lost,
        "I2": duplicated,
        "I3": out_of_order,
        "I4": skipped,
        "I5": different,
        "I6": uncommitted,
        "I7": unrequested,
        "I8": ahead,
        "I9": stalled,
        "I10": unreported,
        "I11": leaked,
        "I12": miscounted,
    }
)


def violations(
    history: History, oracle: Oracle, *, without: Collection[str] = (), seconds: float = PATIENCE_SECONDS
) -> list[Violation]:
    """Returns every violation of every invariant except ``without``. ``seconds``: the limit for a next record (I9)."""
    chosen: dict[str, Invariant] = {**INVARIANTS, "I9": partial(stalled, seconds=seconds)}
    return [breach for name, invariant in chosen.items() if name not in without for breach in invariant(history, oracle)]


def check(history: History, oracle: Oracle, *, without: Collection[str] = (), seconds: float = PATIENCE_SECONDS) -> None:
    """Raises AssertionError with all violations, if there are any."""
    found = violations(history, oracle, without=without, seconds=seconds)
    if found:
        shown = "\n".join(map(str, found[:20]))
        raise AssertionError(f"{len(found)} violations:\n{shown}")
