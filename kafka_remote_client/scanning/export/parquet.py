"""A scan as a folder of Parquet files: what is written gets its visible names at the end, file by file, each as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.run import Export
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit

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
        files = [file for split in written for file in split.files]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="kafka-remote-publish") as workers:
            try:
                for _ in workers.map(self._publish, files):
                    pass
            except BaseException:
                workers.shutdown(wait=True, cancel_futures=True)
                raise

    def _publish(self, file: WrittenFile) -> None:
        self._target.publish(file.staged, file.path, file.size_in_bytes)
