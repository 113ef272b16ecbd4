"""Writes the lists of .ci/hashes: what each installation of the Makefile consists of, with the hashes of all archives.

``python .ci/pins.py UV``. UV is the command uv; the versions are those of .ci/constraints.txt. pip installs a list with
--require-hashes and --no-deps: it refuses an archive with another hash before it runs or unpacks it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / ".ci" / "hashes"

SOURCES = {
    # list, requirements as arguments of uv pip compile
    "build": ["-"],
    "demo": ["pyproject.toml", "--extra", "shim"],
    "test": [
        *("pyproject.toml", "--extra", "all"),
        *(part for group in ("test", "fuzz", "lint", "build", "docs") for part in ("--group", group)),
    ],
    "supply": ["--group", "supply"],
}
BUILD = "pip\nsetuptools\nCython\n"
"""What each environment starts with."""


def main() -> None:
    LISTS.mkdir(exist_ok=True)
    for name, source in SOURCES.items():
        command = [sys.argv[1], "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        command += ["--constraint", ".ci/constraints.txt", "--output-file", str(LISTS / f"{name}.txt"), *source]
        subprocess.run(command, cwd=ROOT, check=True, input=BUILD if name == "build" else "", text=True)


if __name__ == "__main__":
    main()
