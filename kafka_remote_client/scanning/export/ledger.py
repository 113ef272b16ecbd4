"""What a job has written down in its target: the job itself, records of splits, the commit plan, the mark that it is done.

::

    job.json     at the first run; from then on the job's splits are these
    splits/      one record for each split that is written; of two attempts, the later record counts
    commit.json  once all splits have records; from then on these files count, whatever an attempt that is late still writes
    _exports/    once all files are published

References: docs/tables.md, "Export".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka_remote_client.errors import ExportError
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.paths import EXPORTS, STAGING, JobPaths, is_job_name
from kafka_remote_client.scanning.export.target import ExportTarget
from kafka_remote_client.scanning.export.written_files import WrittenSplit
from kafka_remote_client.scanning.splits import Split

__all__ = ["ExportLedger"]


class ExportLedger:
    """Reads and writes it. Each method raises ExportError where the target cannot be read or written."""

    def __init__(self, target: ExportTarget, job: str) -> None:
        """Raises ConfigurationError for a name that no job can have."""
        self.paths = JobPaths(job)
        self._target = target
        self._job = job

    def known_job(self) -> ExportJob | None:
        """The job as an earlier run began it. Raises ConfigurationError where another version did."""
        for path in (self.paths.done_job, self.paths.job):
            if (found := self._target.read_json(path)) is not None:
                return ExportJob.of_json(found)
        return None

    def begin(self, job: ExportJob) -> None:
        """Writes the job down. Raises ConfigurationError where another job has offsets of it in this target."""
        for other in self._others():
            job.check_beside(other)
        self._target.write_json(self.paths.job, job.to_json())

    def record(self, written: WrittenSplit) -> None:
        """The split counts from now on."""
        self._target.write_json(self.paths.split(written.id), written.to_json())

    def recorded(self) -> set[str]:
        """The ids of splits with a record."""
        suffix = ".json"
        return {name.removesuffix(suffix) for name in self._target.names(self.paths.splits) if name.endswith(suffix)}

    def records(self, splits: Sequence[Split]) -> dict[str, WrittenSplit]:
        """The records of splits that have one, by id."""
        wanted = {split.id for split in splits} & self.recorded()
        found = {name: self._target.read_json(self.paths.split(name)) for name in sorted(wanted)}
        return {name: WrittenSplit.of_json(value) for name, value in found.items() if value is not None}

    def commit_plan(self) -> tuple[WrittenSplit, ...] | None:
        """All splits with the files that count; ``None`` where not all were written yet."""
        return self._splits(self.paths.commit)

    def plan_commit(self, written: Sequence[WrittenSplit]) -> Sequence[WrittenSplit]:
        """The files that count from now on: these, or those of a plan that is there already."""
        planned = self.commit_plan()
        if planned is None:
            self._target.write_json(self.paths.commit, [split.to_json() for split in written])
        return written if planned is None else planned

    def check_in_place(self, written: Iterable[WrittenSplit]) -> None:
        """Raises ExportError where a file is gone that no table names yet: tools that clean tables remove such files."""
        there = {f"{self.paths.data}/{name}" for name in self._target.names(self.paths.data)}
        kept = list(written)
        gone = sorted(file.path for split in kept for file in split.files if file.path not in there)
        if gone:
            begun = [self.paths.staging, *([self.paths.dead_letters] if any(split.dead_letters for split in kept) else [])]
            raise ExportError(
                f"{len(gone)} files of export job {self._job} were removed before its commit, for example {gone[0]}; "
                f"remove {' and '.join(begun)} in {self._target.root} and run it again"
            )

    def remove_other_attempts(self, written: Iterable[WrittenSplit]) -> None:
        """Removes files in their place that no split of ``written`` has: attempts that were killed."""
        counted = {file.path for split in written for file in split.files}
        for name in self._target.names(self.paths.data):
            if (path := f"{self.paths.data}/{name}") not in counted:
                self._target.delete_file(path)

    def finish(self, job: ExportJob, written: Iterable[WrittenSplit]) -> None:
        """Marks the job as done, then removes what was staged."""
        self._target.write_json(self.paths.done_files, [split.to_json() for split in written])
        self._target.write_json(self.paths.done_job, job.to_json(splits=False))
        self.clean()

    def clean(self) -> None:
        """Removes what was staged."""
        self._target.delete_folder(self.paths.staging)

    def finished(self) -> tuple[WrittenSplit, ...] | None:
        """What a job that is done has written; ``None`` for one that is not. Raises ExportError where its list was removed."""
        if self._target.size(self.paths.done_job) is None:
            return None
        written = self._splits(self.paths.done_files)
        if written is None:
            raise ExportError(
                f"export job {self._job} is done, but its list of files, {self.paths.done_files}, is missing in "
                f"{self._target.root}; restore it or choose another target"
            )
        return written

    def _splits(self, path: str) -> tuple[WrittenSplit, ...] | None:
        found: list[Mapping[str, object]] | None = self._target.read_json(path)
        return None if found is None else tuple(WrittenSplit.of_json(value) for value in found)

    def _others(self) -> Iterator[ExportJob]:
        """The other jobs in this target, whether they are done or not."""
        names = {name for folder in (EXPORTS, STAGING) for name in self._target.names(folder)}
        for name in sorted(names - {self._job}):
            if is_job_name(name) and (job := ExportLedger(self._target, name).known_job()) is not None:
                yield job
