"""Runs a command. When the process that needs it dies, ends the command and removes its directory.

``python keeper.py OWNER_PID DIRECTORY COMMAND…`` prints the command's pid and returns; its fork stays as long as the command
runs. A test run that is killed cannot stop its broker; the fork does it in its place.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys

__all__: list[str] = []


def main() -> None:
    owner, directory, *command = sys.argv[1:]
    if os.fork():
        os._exit(0)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
        os.write(1, b"%d" % child.pid)
        os.close(1)
        watched = select.poll()
        child_end = os.pidfd_open(child.pid)
        watched.register(child_end, select.POLLIN)
        try:
            watched.register(os.pidfd_open(int(owner)), select.POLLIN)
        except ProcessLookupError:
            orphaned = True
        else:
            orphaned = all(descriptor != child_end for descriptor, _ in watched.poll())
        if orphaned:
            child.kill()
            child.wait()
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
