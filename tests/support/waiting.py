"""Waits for a condition with a deadline. Tests wait in no other way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], what: str, *, seconds: float = 60.0, pause: float = 0.1, state: Callable[[], str] | None = None
) -> T:
    """The first true value of ``condition``. Raises TimeoutError, naming ``what``, when none comes within ``seconds``.

    ``state``: describes what there is instead, for the error.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            found = f"last value: {value!r}" if state is None else state()
            raise TimeoutError(f"after {seconds:.0f} s still waiting for {what} ({found})")
        time.sleep(pause)
