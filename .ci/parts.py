"""Prints which real parts are on PATH and which Debian package brings the missing ones; with --install installs those.

Needs nothing but Python: it runs before anything is installed.
With --install the exit status is 1 when a required part is missing and could not be installed; without, it is always 0. Parts
that are not required have three minutes, and the tests that need them are left out without them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROMTOOL = Path(__file__).resolve().parents[1] / ".cache" / "prometheus" / "usr" / "bin" / "promtool"
"""Where tests look for it if it is not on PATH."""


def major_version(command: str) -> int:
    """The JDK's major version; 0 when the command does not say."""
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"(\d+)[.\s\"]", said.stderr + said.stdout)
    return int(found.group(1)) if found else 0


def commands(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


def jdk() -> bool:
    return all(major_version(name) >= 17 for name in ("java", "javac"))


def compiler() -> bool:
    return bool(shutil.which("cc")) and Path(sysconfig.get_paths()["include"], "Python.h").exists()


def promtool() -> bool:
    return PROMTOOL.exists() or bool(shutil.which("promtool"))


def venv() -> bool:
    return bool(find_spec("venv") and find_spec("ensurepip"))


PARTS: tuple[tuple[str, Callable[[], bool], str, str], ...] = (
    # part, whether it is there, Debian packages, needed by; those that are not required are in OPTIONAL
    ("venv", venv, "python3-venv", "everything"),
    ("C compiler", compiler, "gcc libc6-dev python3-dev", "the compiled record decoder"),
    ("JDK >= 17", jdk, "default-jdk-headless", "the real Kafka broker, Spark"),
    ("Maven", commands("mvn"), "maven", "the real Kafka broker, Spark's Kafka source"),
    ("Go", commands("go"), "golang-go", "S3 and GCS servers"),
    ("Node.js", commands("node", "npm"), "nodejs npm", "the Azure server, diagrams of the documentation site"),
    ("Chromium", commands("chromium"), "chromium", "the documentation site in a browser"),
    ("promtool", promtool, "prometheus", "the alert rules of examples/observability"),
)
OPTIONAL_SECONDS = 180


def unpack(packages: Sequence[str], seconds: float | None = None) -> bool:
    """Whether the packages could be unpacked into .cache/, each step within ``seconds``. Needs no rights, starts no service."""
    if shutil.which("apt-get") is None:
        return False
    target = PROMTOOL.parents[2]
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        steps = [["apt-get", "--quiet", "download", *packages], ["sh", "-c", 'dpkg-deb --extract ./*.deb "$0"', str(target)]]
        return succeed(steps, seconds, cwd=directory) and promtool()


def table() -> list[str]:
    """Prints the table. Returns the packages of required parts that are missing."""
    missing = []
    print(f"{'part':<10} {'on PATH':<8} {'Debian packages':<26} needed by")
    for name, is_there, packages, needed_by in PARTS:
        found = is_there()
        print(f"{name:<10} {'yes' if found else 'NO':<8} {packages:<26} {needed_by}")
        if not found and name not in OPTIONAL:
            missing += packages.split()
    return missing


def install(packages: list[str], seconds: float | None = None) -> bool:
    """Whether apt-get could install them, each of its steps within ``seconds``."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    steps = (["update"], ["install", "--yes", "--no-install-recommends", *packages])
    return succeed([["apt-get", "--quiet", *arguments] for arguments in steps], seconds, env=environment)


def succeed(steps: Sequence[list[str]], seconds: float | None, **options: Any) -> bool:
    """Whether all commands succeed, one after the other, each within ``seconds``. ``options``: of subprocess.run."""
    for command in steps:
        try:
            done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=seconds, **options)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode:
            return False
    return True


OPTIONAL = {"Chromium": install, "promtool": unpack}
"""How each part that is not required is installed."""


def main() -> int:
    missing = table()
    if missing and "--install" in sys.argv[1:]:
        print(f"installing {' '.join(missing)}", flush=True)
        if not install(missing) or table():
            print(f"cannot install: {' '.join(missing)}", file=sys.stderr)
            return 1
    elif missing:
        print(f"tests that need a missing part skip (apt-get install {' '.join(missing)})")
    if "--install" in sys.argv[1:]:
        for name, is_there, packages, _ in PARTS:
            if name in OPTIONAL and not is_there() and not OPTIONAL[name](packages.split(), OPTIONAL_SECONDS):
                print(f"cannot install {packages}: the tests that need it are left out", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
