"""The ledger of campaigns: ``docs/ledger.jsonl``, one JSON object a line, one line for each run.

::

    {"campaign": "chaos", "date": "2026-11-22T00:59:27Z", "commit": "13daf85", "describes": ["fetchers", …],
     "digest": "5f0c…", "seed": 0, "seconds": 187, "counts": {"records": 146656, "violations": 0}}

A run always prints its line as text. It appends the JSON to the file that KAFKA_REMOTE_LEDGER_FILE names (``make chaos
LEDGER=1`` names ``docs/ledger.jsonl``). ``docs/generate.py`` makes the tables of figures in the documents from that file.

``digest`` covers the product code of the run. It needs no history, so a clone of any depth can show
whether the code has changed since the run. An entry without a digest was converted from a line that had none.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

__all__ = ["DIRECT_READ", "LEDGER", "PRODUCT", "ROOT", "RunEntry", "digest", "entries", "ledger"]

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "docs" / "ledger.jsonl"
PRODUCT = ("fetchers", "kafka_remote_client")
"""All product code."""
DIRECT_READ = (
    "fetchers",
    "kafka_remote_client/*.py",
    "kafka_remote_client/consumer",
    "kafka_remote_client/fetch",
    "kafka_remote_client/location",
    "kafka_remote_client/protocol",
    "kafka_remote_client/records",
    "kafka_remote_client/remote_log",
    "kafka_remote_client/shim",
)
"""The code of a direct read: the consumer with everything below it, and the shim."""
_RENAMED_COUNTS = {
    "longest_pause_beside_ms": "longest_pause_to_broker_ms",
    "longest_pause_behind_ms": "longest_pause_through_shim_ms",
}
"""The names of counts in old entries, and today's."""
_SOURCES = frozenset({".py", ".pyx", ".pxi", ".h"})


@attrs.frozen
class RunEntry:
    """One run of a campaign. ``describes``: the files and folders of product code that it is about, as globs below the root."""

    campaign: str
    date: str
    commit: str
    describes: tuple[str, ...]
    counts: Mapping[str, Any]
    digest: str | None = None
    seed: int | None = None
    seconds: float | None = None

    @classmethod
    def from_json(cls, line: str) -> RunEntry:
        """Raises TypeError for a field that is missing or unknown, ValueError for what is not JSON."""
        fields = json.loads(line)
        counts = {_RENAMED_COUNTS.get(name, name): value for name, value in fields["counts"].items()}
        return cls(**{**fields, "describes": tuple(fields["describes"]), "counts": counts})

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in attrs.asdict(self).items() if value is not None})

    def is_current(self, root: Path = ROOT) -> bool | None:
        """Whether the code of the run has not changed; ``None`` if the entry has no digest."""
        if self.digest is None:
            return None
        try:
            return self.digest == digest(self.describes, root)
        except ValueError:  # the code is gone
            return False


def digest(describes: Iterable[str], root: Path = ROOT) -> str:
    """The names and the contents of all sources that the globs find. Raises ValueError for a glob that finds none."""
    found: set[Path] = set()
    for glob in describes:
        sources = {path for path in _below(root, glob) if path.suffix in _SOURCES}
        if not sources:
            raise ValueError(f"{glob}: no source file below {root}")
        found |= sources
    total = hashlib.sha256()
    for path in sorted(found):
        total.update(f"{path.relative_to(root).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def _below(root: Path, glob: str) -> Iterator[Path]:
    for path in root.glob(glob):
        if path.is_dir():
            yield from path.rglob("*")
        else:
            yield path


def entries(path: Path = LEDGER) -> list[RunEntry]:
    """All runs, in the order of the file."""
    return [RunEntry.from_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ledger(
    what: str,
    *,
    describes: Iterable[str] = DIRECT_READ,
    seed: int | None = None,
    seconds: float | None = None,
    **counts: object,
) -> str:
    """Prints the line of a run, appends its entry to the ledger if one is set, and returns the line."""
    described = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    globs = tuple(describes)
    entry = RunEntry(
        campaign=what,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        commit=described.stdout.strip() or "unknown",
        describes=globs,
        counts=counts,
        digest=digest(globs),
        seed=seed,
        seconds=seconds,
    )
    facts = {"seed": seed, **counts, "seconds": seconds}
    parts = [entry.date, what, f"commit={entry.commit}"]
    parts += [f"{name}={str(value).replace(' ', '_')}" for name, value in facts.items() if value is not None]
    line = " ".join(parts)
    print(line, flush=True)
    if kept := os.environ.get("KAFKA_REMOTE_LEDGER_FILE"):
        with Path(kept).open("a", encoding="utf-8") as file:
            file.write(entry.to_json() + "\n")
    return line
