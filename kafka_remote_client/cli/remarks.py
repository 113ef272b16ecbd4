"""What a verb says to people, on standard error. It needs no extra, so a missing one can be reported."""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["remark"]


def remark(message: str) -> None:
    """Writes one line at once: other threads write log lines there. One that cannot be written changes nothing else."""
    with suppress(OSError):
        sys.stderr.write(f"kafka-remote: {message}\n")
