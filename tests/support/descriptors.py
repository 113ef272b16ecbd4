"""Which files and connections this process has open."""

from __future__ import annotations

from pathlib import Path

__all__ = ["connections_to", "open_below"]

_ESTABLISHED, _CLOSE_WAIT = "01", "08"


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


def connections_to(port: int) -> int:
    """The number of open TCP connections (IPv4) to a port of this machine, from the clients' side."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    found = [line.split() for line in lines]
    return sum(int(fields[2].partition(":")[2], 16) == port and fields[3] in {_ESTABLISHED, _CLOSE_WAIT} for fields in found)
