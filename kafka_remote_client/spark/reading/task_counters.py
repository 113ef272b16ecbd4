"""The counters of each split, which its task writes to a directory: ``remote.countersDirectory``.

Spark's Python sources can report no metrics of their own, and Spark Connect has no accumulators. So a task writes a small
file for each split that it read, even if it ended early or failed; a killed task writes none. A split that was read
twice has two files, because both reads have costs. The directory is local or in an object store. Each file appears as a whole.

::

    <split>-<random>.json   {"split": "orders-0-0-1000", "started_ms": …, "ended_ms": …, "counters": {…}}

References: docs/spark.md; names of counters in docs/metrics.md.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from pyarrow.fs import FileSystem, FileType

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.scanning.export.paths import stem
from kafka_remote_client.scanning.export.target import target_of
from kafka_remote_client.spark.reading.counter_sums import TaskCounters, added

__all__ = ["CountedJob", "load_counters", "write_counters"]

_log = logging.getLogger(__name__)
_MAX_FILE_BYTES = 1 << 20


@attrs.frozen
class CountedJob:
    """Counters of all tasks, added up. ``seconds``: from the first task's start to the last one's end, by their own clocks.

    ``splits`` and ``seconds`` are ``None`` where the counters do not say.
    """

    counters: TaskCounters
    splits: int | None = None
    seconds: float | None = None


def write_counters(
    directory: str, split_id: str, started_ms: int, counters: Mapping[str, Any], clock: Clock | None = None
) -> None:
    """Writes the counters of a split to a directory, and creates it if necessary. Logs a failure."""
    told = {
        "split": split_id,
        "started_ms": started_ms,
        "ended_ms": (clock or SystemClock()).time_ms(),
        "counters": counters,
    }
    try:
        target_of(directory).write_json(f"{stem(split_id)}-{uuid.uuid4().hex}.json", told)
    except (ConfigurationError, ExportError) as error:
        _log.warning("the counters of %s cannot be written: %s", split_id, error)


def load_counters(path: str) -> CountedJob:
    """Counters from a directory of :func:`write_counters`, from a file of it, or from a file with counters as JSON.

    ``path``: a path, or a URL as of ``remote.countersDirectory``. Raises ConfigurationError for a path that holds none.
    """
    target = target_of(path)
    files, root = target.filesystem, target.root
    try:
        if files.get_file_info(root).type is FileType.Directory:
            names = sorted(name for name in target.names("") if name.endswith(".json"))
            return _job(path, (_read(files, f"{root}/{name}") for name in names))
        told = _read(files, root)
    except (OSError, ExportError) as error:
        raise ConfigurationError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _job(path, [told]) if "counters" in told else CountedJob(added([told]))


def _job(path: str, found: Iterable[Mapping[str, Any]]) -> CountedJob:
    """Adds up one file at a time: what it keeps of each is the name of its split."""
    splits, start, end = set[str](), math.inf, 0

    def counters() -> Iterator[TaskCounters]:
        nonlocal start, end
        for told in found:
            match told:
                case {"split": str(split), "started_ms": int(started), "ended_ms": int(ended), "counters": dict(counted)}:
                    splits.add(split)
                    start, end = min(start, started), max(end, ended)
                    yield counted
                case _:
                    raise ConfigurationError(f"{path} holds JSON that is not the counters of a split")

    added_up = added(counters())
    if not splits:
        raise ConfigurationError(f"{path} holds no counters")
    return CountedJob(added_up, len(splits), max(0, end - start) / 1000)


def _read(files: FileSystem, file: str) -> Mapping[str, Any]:
    with files.open_input_stream(file) as opened:
        text = opened.read(_MAX_FILE_BYTES + 1)
    try:
        told = parse_json(text) if len(text) <= _MAX_FILE_BYTES else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ConfigurationError(f"{file} does not hold a JSON object with counters")
    return told
