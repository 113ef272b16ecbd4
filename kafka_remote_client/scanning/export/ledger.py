"""The records of a job in its target: the job itself, its written splits, the commit plan, the mark that it is finished.

::

    job.json     written by the first run; it fixes the job's splits
    splits/      one record for each written split; of two attempts, the later record counts
    plans/       one plan for each run that found all splits written: the files that it may commit
    commit.json  the first of these plans; it fixes the files of the table: later attempts change nothing
    _exports/    written once all files are published

References: docs/tables.md, "Export".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka_remote_client.errors import ExportError
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.paths import EXPORTS, STAGING, JobPaths, is_job_name, stem
from kafka_remote_client.scanning.export.target import ExportTarget
from kafka_remote_client.scanning.export.written_files import WrittenSplit
from kafka_remote_client.scanning.splits import Split

__all__ = ["ExportLedger"]


class ExportLedger:
    """Reads and writes the records. Each method raises ExportError if the target cannot be read or written."""

    def __init__(self, target: ExportTarget, job: str) -> None:
        """Raises ConfigurationError for an invalid job name."""
        self.paths = JobPaths(job)
        self._target = target
        self._job = job

    def known_job(self) -> ExportJob | None:
        """The job of an earlier run. Raises ConfigurationError for a job of another version of this client."""
        for path in (self.paths.done_job, self.paths.job):
            if (found := self._target.read_json(path)) is not None:
                return ExportJob.of_json(found)
        return None

    def begin(self, job: ExportJob) -> ExportJob:
        """Writes the job, unless another run has begun it meanwhile. Returns the job that is there.

        Raises ConfigurationError if another job in this target has some of its offsets.
        """
        for other, finished in self._others():
            job.check_beside(other, finished=finished)
        if (begun := self.known_job()) is not None:
            return begun
        self._target.write_json(self.paths.job, job.to_json())
        return job

    def check_active(self, job: ExportJob) -> None:
        """Raises ExportError if another run has replaced or removed the job since this run began it or found it."""
        if self._target.read_json(self.paths.job) != job.to_json():
            raise self._lost()

    def _lost(self) -> ExportError:
        return ExportError(
            f"another run of export job {self._job} is active in {self._target.root}, and this run has lost to it; "
            "wait for its end, then run the job again to get its result"
        )

    def record(self, written: WrittenSplit) -> None:
        """Records a written split."""
        self._target.write_json(self.paths.split(written.id), written.to_json())

    def recorded(self) -> set[str]:
        """The stems of splits with a record."""
        suffix = ".json"
        return {name.removesuffix(suffix) for name in self._target.names(self.paths.splits) if name.endswith(suffix)}

    def records(self, splits: Sequence[Split]) -> dict[str, WrittenSplit]:
        """The records of splits that have one, by id."""
        recorded = self.recorded()
        wanted = sorted({split.id for split in splits if stem(split.id) in recorded})
        found = {name: self._target.read_json(self.paths.split(name)) for name in wanted}
        return {name: WrittenSplit.of_json(value) for name, value in found.items() if value is not None}

    def commit_plan(self) -> tuple[WrittenSplit, ...] | None:
        """All splits with their files; ``None`` if not all were written yet."""
        return self._splits(self.paths.commit)

    def plan_commit(self, written: Sequence[WrittenSplit]) -> Sequence[WrittenSplit]:
        """Fixes the files of the table: these, or those of an earlier commit plan. Returns them.

        In an object store two runs may both be the first. Raises ExportError if another run ends the job meanwhile.
        """
        if (planned := self.commit_plan()) is not None:
            return planned
        plan = [split.to_json() for split in written]
        self._target.write_json(f"{self.paths.plans}/{uuid.uuid4().hex}.json", plan)
        if self._target.create_json(self.paths.commit, plan):
            return written
        if (planned := self.commit_plan()) is None:
            raise self._lost()
        return planned

    def planned_files(self) -> set[str]:
        """The paths of the files in the plans of all runs: the table may have them."""
        names = self._target.names(self.paths.plans)
        plans = [self._splits(f"{self.paths.plans}/{name}") or () for name in names]
        return {file.path for plan in plans for split in plan for file in split.files}

    def check_in_place(self, written: Iterable[WrittenSplit]) -> None:
        """Raises ExportError if a file is missing that no table names yet: tools that clean tables remove such files."""
        there = {f"{self.paths.data}/{name}" for name in self._target.names(self.paths.data)}
        kept = list(written)
        gone = sorted(file.path for split in kept for file in split.files if file.path not in there)
        if gone:
            begun = [self.paths.staging, *([self.paths.dead_letters] if any(split.dead_letters for split in kept) else [])]
            raise ExportError(
                f"{len(gone)} files of export job {self._job} were removed before its commit, for example {gone[0]}; "
                f"remove {' and '.join(begun)} in {self._target.root} and run it again"
            )

    def remove_other_attempts(self, counted: Iterable[str]) -> None:
        """Removes the files of attempts that were killed: all but the paths ``counted``."""
        kept = set(counted)
        for name in self._target.names(self.paths.data):
            if (path := f"{self.paths.data}/{name}") not in kept:
                self._target.delete_file(path)

    def finish(self, job: ExportJob, written: Iterable[WrittenSplit]) -> None:
        """Marks the job as finished, then removes the staging folder, and with it what a killed run left there."""
        staging = self.paths.staging
        self._target.write_json(self.paths.done_files, [split.to_json() for split in written], staging=staging)
        self._target.write_json(self.paths.done_job, job.to_json(splits=False), staging=staging)
        self.clean()

    def clean(self) -> None:
        """Removes the staging folder."""
        self._target.delete_folder(self.paths.staging)

    def finished(self) -> tuple[WrittenSplit, ...] | None:
        """The splits of a finished job; ``None`` if it is not finished. Raises ExportError if its list was removed."""
        if not self._is_done:
            return None
        written = self._splits(self.paths.done_files)
        if written is None:
            raise ExportError(
                f"export job {self._job} is done, but its list of files, {self.paths.done_files}, is missing in "
                f"{self._target.root}; restore it or choose another target"
            )
        return written

    @property
    def _is_done(self) -> bool:
        return self._target.size(self.paths.done_job) is not None

    def _splits(self, path: str) -> tuple[WrittenSplit, ...] | None:
        found: list[Mapping[str, object]] | None = self._target.read_json(path)
        return None if found is None else tuple(WrittenSplit.of_json(value) for value in found)

    def _others(self) -> Iterator[tuple[ExportJob, bool]]:
        """The other jobs in this target, and whether they are finished."""
        names = {name for folder in (EXPORTS, STAGING) for name in self._target.names(folder)}
        for name in filter(is_job_name, sorted(names - {self._job})):
            ledger = ExportLedger(self._target, name)
            if (job := ledger.known_job()) is not None:
                yield job, ledger._is_done
