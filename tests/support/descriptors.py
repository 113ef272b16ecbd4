"""Which files this process has open."""

from __future__ import annotations

from pathlib import Path

__all__ = ["open_below"]


def open_below(root: Path) -> list[Path]:
    """The open files and directories at or below ``root``."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except OSError:  # closed meanwhile by another thread
            continue
        if target.is_relative_to(root):
            found.append(target)
    return found
