"""Sockets, transports and tasks that are still open after a piece of a test, by the warnings of Python."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable

__all__ = ["left_open"]


def left_open(run: Callable[[], None]) -> list[str]:
    """Returns Python's warnings of sockets, transports and tasks that are still open after ``run``."""
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run()
        gc.collect()
    return [str(warning.message) for warning in told]
