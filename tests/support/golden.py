"""Golden data: what a real Kafka broker tiered, and what a real consumer then read.

``tests/golden/README.md`` describes its origin and its files. Expected lines are plain text in the archive, because
equal payloads then compress once; unpacked they have the names of the full set again (``….jsonl.gz``).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["AIVEN_MODES", "full_golden", "golden_aiven", "golden_local", "read_jsonl", "read_text"]

_REPOSITORY = Path(__file__).resolve().parents[2]
_ARCHIVES = _REPOSITORY / "tests" / "golden"
_GZIPPED = ("expected/*.jsonl", "dump-log-segments/*.txt", "remote_log_metadata.jsonl")
AIVEN_MODES = ("aiven-plain", "aiven-zstd", "aiven-zstd-aes")


def golden_local() -> Path:
    """The root of the copied golden set (``remote/``, ``expected/``, ``offsets.jsonl`` …)."""
    return _unpacked("local")


def golden_aiven(mode: str) -> Path:
    """The root of one of AIVEN_MODES: ``remote/``, ``expected/``, ``offsets.jsonl``, ``keys/`` where there are any."""
    return _unpacked("aiven") / mode


@cache
def _unpacked(name: str) -> Path:
    """An archive of tests/golden, unpacked once per checkout.

    Several test processes may call this at once: each unpacks to a separate directory, and the first rename wins.
    """
    archive = _ARCHIVES / f"{name}.tar.xz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    target = _REPOSITORY / ".cache" / f"golden-{name}-{digest}"
    if not target.is_dir():
        target.parent.mkdir(exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        try:
            _unpack(archive, scratch)
            scratch.chmod(0o755)
            scratch.rename(target)
        except OSError:
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def full_golden() -> Path | None:
    """The full golden set, if it is next to the checkout: ``local/`` and the directories of the chunked layouts."""
    beside = _REPOSITORY.parent / "shared" / "data"
    return beside if (beside / "local").is_dir() else None


def read_text(path: Path) -> str:
    """A text file, gzipped or not."""
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def read_jsonl(path: Path) -> Iterator[Any]:
    """The values of a file of JSON lines, gzipped or not."""
    for line in read_text(path).splitlines():
        yield json.loads(line)


def _unpack(packed: Path, directory: Path) -> None:
    with tarfile.open(packed, "r:xz") as archive:
        archive.extractall(directory, filter="data")
    for pattern in _GZIPPED:
        for plain in [*directory.glob(pattern), *directory.glob(f"aiven-*/{pattern}")]:
            plain.with_name(f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes(), 1, mtime=0))
            plain.unlink()
