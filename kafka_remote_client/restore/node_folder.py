"""The log folder of a formatted node: what a restore checks before it writes, and how it writes.

A restore works in the folder ``kafka-remote-restore`` below it and moves finished partitions out of there, so a node never sees
half a partition. While that folder exists a broker does not start: its name is not that of a partition.

=============================== ====================================================================
name in the node's folder       what it says
=============================== ====================================================================
``meta.properties``             formatted
``.lock``                       locked by a broker that runs; a restore locks it, too
``__cluster_metadata-0/*.log``  the node was started: it does not read ``bootstrap.checkpoint`` again
``kafka-remote-restore/``       an unfinished restore
``kafka-remote-restore.json``   the plan of the restore, unfinished or not; a broker does not look at it
=============================== ====================================================================

References: Kafka's LogManager (loadLogs, lockLogDirs), KafkaRaftServer.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_remote_client.errors import RestoreError
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP, has_topics
from kafka_remote_client.restore.files import LOG_STARTS, META_PROPERTIES, FormattedNode, parse_meta_properties

__all__ = ["NodeFolder", "sync", "writing"]

_WORK = "kafka-remote-restore"
_PLAN = f"{_WORK}.json"
_METADATA_LOG = "__cluster_metadata-0"
_PIECE_BYTES = 1 << 22


class NodeFolder:
    """A log folder that one restore has locked."""

    def __init__(self, path: Path, node: FormattedNode) -> None:
        self.path = path
        self.node = node

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[NodeFolder]:
        """Locks the folder. Raises RestoreError unless it is formatted, was never started, and nothing uses it."""
        meta = path / META_PROPERTIES
        if not meta.is_file() or not (path / BOOTSTRAP).is_file():
            raise RestoreError(f"{path} has no {META_PROPERTIES} or no {BOOTSTRAP}: format it with kafka-storage.sh")
        with writing(path), (path / ".lock").open("ab") as lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RestoreError(f"{path} is in use: a broker or another restore has locked it") from None
            if any((path / _METADATA_LOG).glob("*.log")):
                why = "a cluster that runs cannot take restored topics (docs/restore.md, Limits)"
                raise RestoreError(f"{path} is in use: a node has started in it; format a new folder, because {why}")
            yield cls(path, parse_meta_properties(meta.read_text(encoding="utf-8", errors="replace")))

    @property
    def _work(self) -> Path:
        return self.path / _WORK

    def begin(self, plan: dict[str, Any], partitions: list[str]) -> bool:
        """Begins or continues the restore of a plan; returns whether it continues. A finished one has nothing left to write.

        Raises RestoreError if there is another restore, and if there are topics or folders of these partitions already.
        """
        text = json.dumps(plan, indent=1, sort_keys=True)
        told = self.path / _PLAN
        begun = told.is_file()
        if begun and told.read_text(encoding="utf-8") == text:
            self._work.mkdir(exist_ok=True)
            return True
        if has_topics((self.path / BOOTSTRAP).read_bytes()):
            raise RestoreError(f"{self.path} has restored topics already: restore all topics of a node at once")
        if begun:
            raise RestoreError(f"{self.path} has an unfinished restore of another plan: finish it, or remove {told}")
        for name in (*partitions, LOG_STARTS):
            if (self.path / name).exists():
                raise RestoreError(f"{self.path} is in use: it has {name}")
        if self._work.exists():  # of a plan that was removed, or not written
            shutil.rmtree(self._work)
        self._work.mkdir()
        self.write_new(told, text.encode())
        return False

    def partition(self, name: str) -> Path:
        """The folder of a partition: in its place if it is complete, else where it is written; it exists."""
        place = self.path / name
        if place.is_dir():
            return place
        (self._work / name).mkdir(exist_ok=True)
        return self._work / name

    def take(self, name: str, source: NodeFolder) -> None:
        """Copies a complete partition from another node's folder: what is not here already."""
        place = self.partition(name)
        for path in sorted(source.partition(name).iterdir()):
            if not (place / path.name).exists():
                unfinished = self._work / f"{path.name}.part"
                with path.open("rb") as complete, unfinished.open("wb") as file:
                    shutil.copyfileobj(complete, file, _PIECE_BYTES)
                    file.flush()
                    sync(file.fileno())
                unfinished.rename(place / path.name)

    def move(self, name: str) -> None:
        """Puts a complete partition in its place."""
        if not (self.path / name).is_dir():
            _sync_folder(self._work / name)
            (self._work / name).rename(self.path / name)

    def finish(self, log_starts: bytes, records: Callable[[bytes], bytes]) -> None:
        """Writes the log starts, and at last the metadata: ``records`` gets the formatted file and returns the new one."""
        if not (self.path / LOG_STARTS).exists():
            self.write_new(self.path / LOG_STARTS, log_starts)
        formatted = (self.path / BOOTSTRAP).read_bytes()
        if not has_topics(formatted):
            self.write_new(self.path / BOOTSTRAP, records(formatted))
        _sync_folder(self.path)
        shutil.rmtree(self._work)

    def write_new(self, path: Path, data: bytes) -> None:
        """Writes a file so that it is whole or absent, also after a crash."""
        unfinished = self._work / f"{path.name}.part"
        with unfinished.open("wb") as file:
            file.write(data)
            sync(file.fileno())
        unfinished.rename(path)

    def free_bytes(self) -> int:
        """How much the folder's disk can take."""
        return shutil.disk_usage(self.path).free


def sync(descriptor: int) -> None:
    """Makes sure that what was written survives a crash of the machine."""
    os.fsync(descriptor)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what the file system may refuse: raises RestoreError for that."""
    try:
        yield
    except OSError as error:
        raise RestoreError(f"cannot write {error.filename or path}: {error.strerror}") from None


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
