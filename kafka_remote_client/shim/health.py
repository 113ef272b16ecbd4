"""The health checks of the management listener: whether the shim is alive, ready, and able to grant.

::

    page   | 200 when                                                               | kept for
    livez  | the event loop answers                                                 | not at all
    readyz | the shim listens and does not stop, and a broker answers               | 5 s
    tierz  | metadata is read to its end and trusted, the newest segment of some    | 10 s
           | partition is in the store by the layout's name; nothing tiered is fine |

A fault of the tier stops grants. It never makes ``readyz`` fail, because the brokers still serve all records.

A check that raises has failed: plugins may raise any exception. The reported problem then has the exception's type and the
place where it was raised, and not its text, which may hold a signed URL.

A check may hang, as the read of a file system that does not answer does. So checks with a cached result run in a thread of
their own, one at a time. Probes wait for its end, but not longer than 20 s after its beginning: else the probes of a hung check
would use up the threads of the management listener, and ``livez`` would fail too.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kafka_remote_client.clock import Clock
from kafka_remote_client.threads import start_thread

__all__ = ["READY_SECONDS", "TIER_SECONDS", "Check", "Health", "Kept", "unexpected"]

Check = Callable[[], str | None]
"""A problem as a text for the operator; ``None`` = no problem."""

READY_SECONDS = 5.0
TIER_SECONDS = 10.0
"""The time for which a result is cached."""
_PATIENCE_SECONDS = 20.0


class Kept:
    """A check whose result is cached for some seconds, so that frequent probes cost little. Thread safe."""

    def __init__(self, check: Check, clock: Clock, seconds: float) -> None:
        self._check = check
        self._clock = clock
        self._seconds = seconds
        self._changed = threading.Condition()
        self._began: float | None = None  # of the check that runs
        self._found: str | None = None
        self._until: float | None = None

    def __call__(self) -> str | None:
        with self._changed:
            now = self._clock.monotonic()
            if self._began is None:
                if self._until is not None and now < self._until:
                    return self._found
                self._began = now
                if start_thread("kafka-remote-check", self._run) is None:
                    self._began = None
                    return "the system gives no thread for the check"
            ended = self._changed.wait_for(lambda: self._began is None, max(0.0, self._began + _PATIENCE_SECONDS - now))
            return self._found if ended else f"the check has not ended after {_PATIENCE_SECONDS:g} s"

    def _run(self) -> None:
        found = _found(self._check)
        with self._changed:
            self._found = found
            self._until = self._clock.monotonic() + self._seconds
            self._began = None
            self._changed.notify_all()


class Health:
    """The three checks by the names of their pages. No check raises.

    ``listening`` is called each time. The results of the others are cached.
    """

    def __init__(self, *, alive: Check, listening: Check, brokers: Check, tier: Check, clock: Clock) -> None:
        self._listening = partial(_found, listening)
        self._brokers = Kept(brokers, clock, READY_SECONDS)
        self.pages: dict[str, Check] = {
            "/livez": partial(_found, alive),
            "/readyz": lambda: self._listening() or self._brokers(),
            "/tierz": Kept(tier, clock, TIER_SECONDS),
        }


def _found(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and its text may hold a URL
        return f"the check failed with an unexpected {unexpected(error)}"


def unexpected(error: Exception) -> str:
    """Names a caught exception and where it was raised. Its text may hold a signed URL, so that is left out."""
    kind, raised = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
    return f"{kind} in {Path(raised.filename).name}, line {raised.lineno}, function {raised.name}"
