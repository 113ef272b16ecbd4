"""The time limit of every target: one input takes at most 1 s of processor time for each started MiB.

An input that takes longer is tried once more: the first input of a process also pays for imports, and a busy processor is
slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, wraps
from typing import TypeVar

__all__ = ["Target", "bounded", "within_bound"]

_T = TypeVar("_T")

Target = Callable[[bytes], None]
_SECONDS_PER_MIB = 1.0
"""Processor time, so that the load of the machine has no effect."""
_TRIES = 2


def within_bound(call: Callable[[], _T], size: int, who: str = "the target") -> _T:
    """Returns the result of ``call`` for an input of ``size`` bytes. Raises AssertionError if it takes too long."""
    for _ in range(_TRIES):
        started = time.thread_time()
        result = call()
        spent = time.thread_time() - started
        if spent <= _SECONDS_PER_MIB * (1 + (size >> 20)):
            return result
    raise AssertionError(f"{who} takes {spent:.1f} s of processor time for {size} bytes")


def bounded(target: Target) -> Target:
    """Returns the target, which then also fails if it takes too long."""

    @wraps(target)
    def judged(data: bytes) -> None:
        within_bound(partial(target, data), len(data))

    return judged
