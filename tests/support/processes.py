"""Whether processes run that are known by their ids alone."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_running"]


def is_running(pid: int) -> bool:
    """Whether it exists and has not ended. One that nobody waited for has ended, whatever is left of it.

    Its state says so (proc_pid_stat(5)); its command line does not, which is empty while it turns into another program.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in {b"Z", b"X"}
