"""Kinds of errors that an input leads to: a reason to keep an input, besides new coverage.

The kind of an error is its class, its fault if it has one, and the three innermost running functions. Coverage does not have
that: it does not show the caller of the function that raised, and nothing of the compiled decoder.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["Outcomes"]

_DEPTH = 3
_MAKER = "fault_error"
"""Makes all errors of batches, from a fault that it puts into words behind the last colon."""


class Outcomes:
    """Writes the smallest input for each kind of error into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        self._kinds: dict[str, None] = {}

    def watch(self, roots: Iterable[type[BaseException]]) -> None:
        """Records each new error of these classes permanently, whether the target sees it or not."""
        for root in roots:
            inherited = root.__new__

            def made(cls: type[Any], *arguments: object, _new: Callable[..., Any] = inherited, **named: object) -> Any:
                self._kinds[_kind_of(cls, arguments, sys._getframe(1))] = None
                return _new(cls, *arguments)

            root.__new__ = made

    def of(self, target: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Returns the target, which then also leaves its inputs in the folder."""

        def judged(data: bytes) -> None:
            self._kinds.clear()
            target(data)
            for kind in self._kinds:
                name = hashlib.sha1(kind.encode()).hexdigest()
                if len(data) < self._sizes.get(name, sys.maxsize):
                    self._sizes[name] = len(data)
                    (self._folder / name).write_bytes(data)

        return judged


def _kind_of(cls: type[BaseException], arguments: tuple[object, ...], frame: FrameType | None) -> str:
    callers = []
    while frame is not None and len(callers) < _DEPTH:
        callers.append(frame.f_code.co_qualname)
        frame = frame.f_back
    fault = ""
    if callers and callers[0] == _MAKER:
        fault = str(arguments[0]).rpartition(": ")[2]
    elif arguments and isinstance(arguments[0], int):
        fault = repr(arguments[0])
    return f"{cls.__name__} {fault} {' < '.join(callers)}"
