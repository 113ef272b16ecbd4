"""The files of the tree that git tracks."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "module_name", "source_modules", "tracked_files", "tracked_texts"]

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Returns all files that git tracks and that exist, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return tuple(path for path in map(Path, filter(None, listed.split("\0"))) if (ROOT / path).is_file())


@cache
def tracked_texts() -> dict[Path, str]:
    """Returns the tracked files that are text."""
    texts = {}
    for path in tracked_files():
        raw = (ROOT / path).read_bytes()
        with suppress(UnicodeDecodeError):  # archives, and inputs that the fuzzers found
            texts[path] = raw.decode()
    return texts


def source_modules() -> list[Path]:
    """Returns the Python files of the packages, relative to the root."""
    return [path for path in tracked_files() if path.parts[0] in {"kafka_remote_client", "fetchers"} and path.suffix == ".py"]


def module_name(source: Path) -> str:
    """``kafka_remote_client/wire.py`` -> ``kafka_remote_client.wire``; ``fetchers/`` is a source root, not a package."""
    parts = source.with_suffix("").parts
    parts = parts[1:] if parts[0] == "fetchers" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
