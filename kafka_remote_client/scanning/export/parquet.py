"""A scan as a folder of Parquet files: what is written gets its visible names at the end, file by file, each as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.run import Export
from kafka_remote_client.scanning.export.written_files import WrittenSplit

__all__ = ["PublishFiles"]


class PublishFiles:
    """A :class:`~kafka_remote_client.scanning.export.run.Commit` by renaming, or by copying within an object store."""

    def __init__(self, export: Export) -> None:
        self._target = export.target
        self._threads = export.threads

    def has(self, job: str) -> bool:
        """No folder of files says whose they are."""
        return False

    def __call__(self, job: ExportJob, written: Sequence[WrittenSplit]) -> None:
        """Several files at a time; the first that fails ends it. Raises ExportError."""
        self._target.publish_all([file for split in written for file in split.files], self._threads)
