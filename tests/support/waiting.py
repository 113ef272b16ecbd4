"""Waits for a condition with a deadline. Tests wait in no other way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, *, seconds: float = 60.0, pause: float = 0.1) -> T:
    """The first true value of ``condition``. Raises TimeoutError, naming ``what``, when none comes within ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"after {seconds:.0f} s still waiting for {what} (last value: {value!r})")
        time.sleep(pause)
