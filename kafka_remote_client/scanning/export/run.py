"""Runs an export: begins or resumes its job, writes what is not written yet, commits.

::

    known job?  --no-->  plan  ->  job.json  --+
        |yes: the same options, the same topics +-->  splits without a record  ->  threads, or Spark  ->  records
        +--done-->  the result                                                                       ->  commit plan
                                                                          result  <-  mark  <-  commit

The commit is the only part that depends on the kind of table (:class:`Commit`). All others can be repeated by any process.
If two processes run one job at the same time, the later one gives the result of the other, or raises ExportError.

References: docs/tables.md, "Export".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol, Self, TypeAlias

import attrs

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.model import uuid_to_text
from kafka_remote_client.scanning.broker_part import BrokerAddress
from kafka_remote_client.scanning.export.dead_letter_files import DeadLetterFiles
from kafka_remote_client.scanning.export.job import ExportJob, job_of, options_of
from kafka_remote_client.scanning.export.ledger import ExportLedger
from kafka_remote_client.scanning.export.paths import JobPaths
from kafka_remote_client.scanning.export.result import ExportResult
from kafka_remote_client.scanning.export.split_writer import ParquetWriting, write_split
from kafka_remote_client.scanning.export.target import ExportTarget
from kafka_remote_client.scanning.export.typed_columns import TypedColumns
from kafka_remote_client.scanning.export.written_files import WrittenSplit
from kafka_remote_client.scanning.interleave import interleaved
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.scanning.tier_address import TierAddress

__all__ = ["Commit", "Export", "ExportProgress", "ScannedTable", "Steps", "WriteSplits", "write_split_of", "write_splits"]

_MOST_THREADS = 8


Steps: TypeAlias = Generator[int | WrittenSplit, None, None]
"""The rows of each row group that is written, and each split once it is recorded."""
WriteSplits: TypeAlias = Callable[[Sequence[Split]], Steps]


@attrs.frozen
class ExportProgress:
    """The progress of an export: ``splits`` of ``all_splits`` are written, in all runs; this run has written ``rows``."""

    splits: int
    all_splits: int
    rows: int


class Commit(Protocol):
    """Makes the files of a job visible to readers of a table."""

    def has(self, job: str) -> bool:
        """Whether the table itself records that the job has commits."""

    def __call__(self, job: ExportJob, written: Sequence[WrittenSplit]) -> None:
        """Commits all files of a job. After an interruption it may be repeated with the same arguments.

        Raises ExportError if the table cannot be changed.
        """


class ScannedTable(Protocol):
    """What an export needs of a ``TableScan``."""

    scan: Scan
    address: TierAddress
    threads: int | None
    brokers: BrokerAddress | None


@attrs.frozen(kw_only=True)
class Export:
    """An export as a value that can be pickled for other processes: the plan, the tier's address, the target and the format."""

    scan: Scan
    address: TierAddress
    brokers: BrokerAddress | None = None
    target: ExportTarget
    job: str
    writing: ParquetWriting
    typed: TypedColumns = attrs.field(factory=TypedColumns)
    threads: int = attrs.field(factory=lambda: min(_MOST_THREADS, os.cpu_count() or 1))

    def __attrs_post_init__(self) -> None:
        if self.scan.limit is not None:
            raise ConfigurationError("an export must not have a limit: the records in it would depend on the order of reading")
        self.writing.check(self.scan.columns)
        self.typed.check(self.scan.columns)

    @classmethod
    def of(cls, table: ScannedTable, target: ExportTarget, job: str, writing: ParquetWriting, typed: TypedColumns) -> Self:
        """The export of a table's scan. Looks up the schemas that are not given, as the job's first run found them."""
        if typed.unresolved:
            typed = typed.resolved(table.scan.topics, ExportLedger(target, job).known_job())
        threads: dict[str, Any] = {} if table.threads is None else {"threads": table.threads}
        where: dict[str, Any] = {"address": table.address, "brokers": table.brokers, "target": target}
        return cls(scan=table.scan, **where, job=job, writing=writing, typed=typed, **threads)

    def open(self) -> OpenScan:
        """Opens the tier."""
        topics = self.scan.topics
        tier = self.address.open(topics[0] if len(topics) == 1 else None)
        scan = attrs.evolve(self.scan, columns=self.typed.read(self.scan.columns))
        return OpenScan(scan, tier, brokers=self.brokers, threads=self.threads)

    def check(self) -> None:
        """Plans it, for tables that are created at once: a mistake must not leave an empty one with the wrong columns."""
        with self.open() as opened:
            _ = opened.plan

    def run(
        self,
        commit: Commit,
        progress: Callable[[ExportProgress], None] | None = None,
        write: WriteSplits | None = None,
    ) -> ExportResult:
        """Runs or resumes it; a job that is done gives its result again and reads nothing of the tier.

        ``write``: who writes splits; ``None``: threads of this process.

        Raises ConfigurationError for a job that was begun with other options, and for offsets that another job in the target
        has; ExportError where the target cannot be written; TierUnavailableError, BrokerReadError and what the store raises
        where something cannot be read. In all cases readers see what they saw before, and the next run goes on.
        """
        ledger = ExportLedger(self.target, self.job)
        options = options_of(self.scan, self.address, self.writing.options | self.typed.options)
        known = ledger.known_job()
        finished = ledger.finished()
        if known is not None:
            known.check_options(options)
        if known is not None and finished is not None:
            ledger.clean()
            return _result(known, finished, len(finished))
        try:
            return self._run(ledger, known, options, commit, progress or _ignored, write)
        except ExportError:
            if (done := self._done_by_another(ledger)) is None:
                raise
            return done
        except TierUnavailableError as error:
            if ledger.known_job() is None:
                raise
            raise self._kept(error) from error

    def _kept(self, error: TierUnavailableError) -> TierUnavailableError:
        """The error of a job that keeps its splits: without a word of it, deleted records would end each later run, too."""
        told = TierUnavailableError(
            f"{error}; the next run continues export job {self.job}; if the records were deleted, remove "
            f"{JobPaths(self.job).staging} in {self.target.root} first: then the job is planned again"
        )
        return told.with_context(**attrs.asdict(error.context))

    def _run(
        self,
        ledger: ExportLedger,
        known: ExportJob | None,
        options: dict[str, str],
        commit: Commit,
        progress: Callable[[ExportProgress], None],
        write: WriteSplits | None,
    ) -> ExportResult:
        written: Sequence[WrittenSplit] | None = ledger.commit_plan() if known is not None else None
        if known is not None and written is not None:
            resumed = len(written)
        else:
            with self.open() as opened:
                known = self._begun(opened, ledger, known, options, commit)
                written, resumed = self._written(opened, ledger, known, progress, write)
            if (done := self._done_by_another(ledger)) is not None:
                return done
            ledger.check_active(known)
            written = ledger.plan_commit(written)
        if self.writing.format.in_place and not commit.has(self.job):
            ledger.check_in_place(written)
        self.target.publish_all([file for split in written for file in split.dead_letters], self.threads)
        commit(known, written)
        if self.writing.format.in_place:
            # The plans first: a run that ends the job says so before it removes its plan.
            counted = ledger.planned_files() | {file.path for split in written for file in split.files}
            if (done := self._done_by_another(ledger)) is not None:
                return done
            ledger.remove_other_attempts(counted)
        ledger.finish(known, written)
        return _result(known, written, resumed)

    def _done_by_another(self, ledger: ExportLedger) -> ExportResult | None:
        """The result of another run that has finished the job: its files count. Removes what this run has staged since."""
        finished = ledger.finished()
        job = ledger.known_job() if finished is not None else None
        if job is None or finished is None:
            return None
        ledger.clean()
        return _result(job, finished, len(finished))

    def _begun(
        self, opened: OpenScan, ledger: ExportLedger, known: ExportJob | None, options: dict[str, str], commit: Commit
    ) -> ExportJob:
        topic_ids = {topic: uuid_to_text(topic_id) for topic, topic_id in opened.topic_ids().items()}
        if known is not None:
            known.check_topics(topic_ids)
            return known
        if commit.has(self.job):
            raise ConfigurationError(
                f"the table already has commits of export job {self.job}, but its files in _exports and _staging were removed; "
                "give another job name, and start after the exported offsets"
            )
        begun = ledger.begin(job_of(self.job, opened.plan, options, topic_ids))
        begun.check_options(options)
        begun.check_topics(topic_ids)
        return begun

    def _written(
        self,
        opened: OpenScan,
        ledger: ExportLedger,
        job: ExportJob,
        progress: Callable[[ExportProgress], None],
        write: WriteSplits | None,
    ) -> tuple[tuple[WrittenSplit, ...], int]:
        """The records of all splits, and how many there were before."""
        records = ledger.records(job.splits)
        resumed, rows = len(records), 0
        missing = [split for split in job.splits if split.id not in records]
        progress(ExportProgress(resumed, len(job.splits), rows))
        with closing(write_splits(self, opened, missing) if write is None else write(missing)) as steps:
            for step in steps:
                if isinstance(step, int):
                    rows += step
                else:
                    records[step.id] = step
                progress(ExportProgress(len(records), len(job.splits), rows))
        return tuple(records[split.id] for split in job.splits), resumed


def write_splits(export: Export, opened: OpenScan, splits: Sequence[Split]) -> Steps:
    """Writes and records splits, several at a time: the rows of each row group, and each split when it is recorded."""
    lanes = [partial(write_split_of, export, opened, split) for split in splits]
    return interleaved(lanes, export.threads)


def write_split_of(export: Export, opened: OpenScan, split: Split) -> Steps:
    """Writes and records a split: the rows of each row group, and at last what was written."""
    ledger = ExportLedger(export.target, export.job)
    with DeadLetterFiles(export.target, ledger.paths, export.writing, split) as letters:
        typed = export.typed.of(opened.record_batches(split), export.scan.columns, letters.add)
        with closing(typed) as batches:
            written = yield from write_split(export.target, ledger.paths, export.writing, split, batches)
        written = attrs.evolve(written, dead_letters=letters.finish())
    ledger.record(written)
    yield written


def _ignored(progress: ExportProgress) -> None:
    """Ignores a progress report."""


def _result(job: ExportJob, written: Sequence[WrittenSplit], resumed: int) -> ExportResult:
    files = tuple(file for split in written for file in split.files)
    letters = tuple(file for split in written for file in split.dead_letters)
    return ExportResult(job.name, files, job.ends, splits=len(written), resumed=resumed, dead_letters=letters)
