"""Admits callers to a consumer: one caller at a time, as confluent_kafka's own gate has it since 2.16.

A second thread's call waits until the first one returns. Calls in a callback belong to the call that runs the callback.
Upstream's asyncio classes run a callback's calls in other threads of their pool, and name the caller in a context variable.

close() does not wait for a call that waits for records: it sets a flag first, and such a call returns with its records.

References: ``Handle_gate_enter`` in confluent_kafka's Consumer.c; ``ReentryContext`` in confluent_kafka.aio.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["CallGate", "Gate", "Gated", "gated"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Gate(Protocol):
    """The lock that a consumer takes for each call: a ``threading.RLock``, or a :class:`CallGate`."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None, /
    ) -> object: ...


class Gated(Protocol):
    """An object with a gate."""

    _direct_gate: Gate


_G = TypeVar("_G", bound=Gated)


def gated(method: Callable[Concatenate[_G, _P], _R]) -> Callable[Concatenate[_G, _P], _R]:
    """``method``, for one caller at a time."""

    @functools.wraps(method)
    def enter(self: _G, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._direct_gate:
            return method(self, *args, **kwargs)

    return enter


class CallGate:
    """A re-entrant lock whose owner is the result of ``caller``, or the thread if that is 0. Its entries nest."""

    def __init__(self, caller: Callable[[], int]) -> None:
        self._caller = caller
        self._lock = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        me = -self._caller() or threading.get_ident()
        if self._owner != me:
            self._lock.acquire()
            self._owner = me
        self._depth += 1

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._lock.release()
