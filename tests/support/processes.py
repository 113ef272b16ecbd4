"""Processes with their own process group, to kill them with their children; and whether a process still runs.

``.ci/suites.py`` uses this before anything is installed, so this module imports only Python's standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["end_group", "is_running", "process_group"]


@contextmanager
def process_group(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Starts a command in a group of its own, without input, and waits for it at the end. ``options``: of Popen.

    If the block raises, the whole group is killed.
    """
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options) as process:
        try:
            yield process
        except BaseException:
            end_group(process.pid)
            raise


def end_group(leader: int) -> None:
    """SIGKILL to all processes of a group, and to the groups that they started; nothing where none is left."""
    for group in (leader, *_groups_below(leader)):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _groups_below(leader: int) -> list[int]:
    """The leaders of groups among the descendants of a process, where the system has /proc."""
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            _, parent, group, *_ = entry.read_bytes().rpartition(b")")[2].split()
            children.setdefault(int(parent), []).append((int(entry.parent.name), int(group)))
    found, waiting = [], [leader]
    while waiting:
        for process, group in children.get(waiting.pop(), ()):
            waiting.append(process)
            found += [process] if process == group else []
    return found


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended. A zombie has ended.

    Its state shows that (proc_pid_stat(5)); its command line does not, because it is empty during an exec.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in {b"Z", b"X"}
