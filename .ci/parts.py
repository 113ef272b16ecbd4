"""Prints which real parts are on PATH and which Debian package brings the missing ones; with --install installs those.

Needs nothing but Python: it runs before anything is installed. A part that no test needs yet is listed and never asked for.
With --install the exit status is 1 when a needed part is missing and could not be installed; without, it is always 0.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PARTS = (
    # part, commands, oldest major version, Debian packages, needed by
    ("C compiler", ("cc",), 0, "gcc libc6-dev python3-dev", "the compiled record decoder"),
    ("JDK >= 17", ("java", "javac"), 17, "default-jdk-headless", "the real Kafka broker"),
    ("Maven", ("mvn",), 0, "maven", "the real Kafka broker"),
    ("Go", ("go",), 0, "golang-go", None),
    ("Node.js", ("node",), 0, "nodejs", None),
    ("Chromium", ("chromium",), 0, "chromium", None),
)


def major_version(command: str) -> int:
    """The JDK's major version; 0 when the command does not say."""
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"(\d+)[.\s\"]", said.stderr + said.stdout)
    return int(found.group(1)) if found else 0


def present(commands: tuple[str, ...], oldest: int) -> bool:
    if commands == ("cc",) and not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return False
    paths = [shutil.which(command) for command in commands]
    return all(path is not None and (not oldest or major_version(path) >= oldest) for path in paths)


def table() -> list[str]:
    """Prints the table; the packages of needed parts that are missing."""
    missing = []
    print(f"{'part':<10} {'on PATH':<8} {'Debian packages':<26} needed by")
    for name, commands, oldest, packages, needed_by in PARTS:
        found = present(commands, oldest)
        print(f"{name:<10} {'yes' if found else 'NO':<8} {packages:<26} {needed_by or 'no test yet'}")
        if needed_by and not found:
            missing += packages.split()
    return missing


def install(packages: list[str]) -> bool:
    """Whether apt-get could install them."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        if subprocess.run(
            ["apt-get", "--quiet", *arguments], env=environment, check=False, stdin=subprocess.DEVNULL
        ).returncode:
            return False
    return True


def main() -> int:
    missing = table()
    if missing and "--install" in sys.argv[1:]:
        print(f"installing {' '.join(missing)}", flush=True)
        if not install(missing) or table():
            print(f"cannot install: {' '.join(missing)}", file=sys.stderr)
            return 1
    elif missing:
        print(f"tests that need a missing part skip (apt-get install {' '.join(missing)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
