"""The store of the tier: a directory, and the failures that a test asks for.

A layout says which files hold the objects of a segment, and what the store returns as custom metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.tiered_cluster.segment_files import FileKind

__all__ = ["StoreFailedError", "TierLayout", "TierStore"]


class TierLayout(Protocol):
    """How objects are named and stored. Keys are relative to the store's directory, separated by ``/``."""

    name: str

    def files(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> Mapping[str, bytes]:
        """What is written for a segment, by key, in the order in which it is written."""

    def keys(self, segment: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        """All keys that a segment may have."""

    def custom_metadata(self, segment: RemoteLogSegmentMetadata, files: Mapping[str, bytes]) -> bytes | None:
        """What the store returns after it wrote the files."""

    def object(self, directory: Path, segment: RemoteLogSegmentMetadata, kind: FileKind) -> bytes:
        """The original bytes of an object. Raises FileNotFoundError for an object that is missing."""


class StoreFailedError(Exception):
    """A write or a removal that a test made fail. ``retriable``: the store says that the error may pass."""

    def __init__(self, *, retriable: bool) -> None:
        super().__init__("the store failed, as the test asked")
        self.retriable = retriable


@attrs.define
class TierStore:
    """The objects of the tier below ``directory``."""

    directory: Path
    layout: TierLayout
    _failures: deque[bool] = attrs.field(factory=deque, repr=False)

    @property
    def url(self) -> str:
        """For the settings of readers: ``remote.storage.store.url``, ``--store``."""
        return self.directory.resolve().as_uri()

    def fail(self, times: int = 1, *, retriable: bool = True) -> None:
        """Lets the next copies or removals of a segment fail. A copy that fails has written its first object."""
        self._failures.extend([retriable] * arguments.whole(times, "times", 1, 1 << 20))

    def objects(self) -> list[str]:
        """The keys of all objects, sorted."""
        found = (path for path in self.directory.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.directory).as_posix() for path in found)

    def copy(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> bytes | None:
        """Writes all objects of a segment; its custom metadata. Raises StoreFailedError."""
        if self._failures:
            self.copy_part(segment, objects)
            raise StoreFailedError(retriable=self._failures.popleft())
        files = self.layout.files(segment, objects)
        self._write(files)
        return self.layout.custom_metadata(segment, files)

    def copy_part(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> None:
        """Writes the first object of a segment, as a broker leaves it that dies in the middle of a copy."""
        self._write(dict([next(iter(self.layout.files(segment, objects).items()))]))

    def _write(self, files: Mapping[str, bytes]) -> None:
        for key, data in files.items():
            path = self.directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def object(self, segment: RemoteLogSegmentMetadata, kind: FileKind) -> bytes:
        """The original bytes of an object. Raises FileNotFoundError."""
        return self.layout.object(self.directory, segment, kind)

    def remove(self, segment: RemoteLogSegmentMetadata) -> None:
        """Removes the objects of a segment, those that exist. Raises StoreFailedError."""
        if self._failures:
            raise StoreFailedError(retriable=self._failures.popleft())
        for key in self.layout.keys(segment):
            (self.directory / key).unlink(missing_ok=True)

    def remove_part(self, segment: RemoteLogSegmentMetadata) -> None:
        """Removes the first object of a segment, as a broker leaves it that dies in the middle of a removal."""
        (self.directory / self.layout.keys(segment)[0]).unlink(missing_ok=True)
