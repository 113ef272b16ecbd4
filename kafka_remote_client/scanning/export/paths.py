"""Where the files of an export lie below its target, and how large they are. Pure.

::

    topic=orders/day=2026-01-31/hour=05/orders-0-0-5000-00000.parquet    a file of the table: split id and part
    _staging/<job>/job.json                                              what the job is, before anything is read
    _staging/<job>/splits/<split id>.json                                which files of which attempt hold the split
    _staging/<job>/files/<split id>-<part>-<attempt>                     what an attempt wrote
    data/<job>/<split id>-<part>-<attempt>.parquet                       the same, where a table's metadata says what counts
    _staging/<job>/commit.json                                           all files that count, once all splits are written
    _exports/<job>/files.json, job.json                                  the same, once all of them are published
    _dead_letters/<job>/orders-0-0-5000-00000.parquet                    the split's records that do not parse

Names that begin with ``_`` are hidden from Spark, Hive and pyarrow's data sets, and staged files do not end with ``.parquet``,
so that no glob for these finds them.
"""

from __future__ import annotations

import re

from kafka_remote_client.errors import ConfigurationError

__all__ = ["EXPORTS", "FILE_BYTES", "ROW_GROUP_BYTES", "STAGING", "JobPaths", "check_job_name", "file_name", "is_job_name"]

EXPORTS = "_exports"
STAGING = "_staging"
_DATA = "data"
_DEAD_LETTERS = "_dead_letters"
ROW_GROUP_BYTES = 128 << 20
"""Of Arrow's memory, before compression."""
FILE_BYTES = 512 << 20
"""Of a file; it has up to one row group more."""
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_job_name(name: str) -> bool:
    """Whether a job can have this name."""
    return _JOB.fullmatch(name) is not None


def check_job_name(job: str) -> str:
    """The name of a job, which is a part of paths. Raises ConfigurationError for one that is not fit for that."""
    if not isinstance(job, str) or not is_job_name(job):
        raise ConfigurationError(f"the job name {job!r} must be 1 to 100 letters, digits, '.', '_' and '-'")
    return job


def file_name(split_id: str, part: int, directory: str = "") -> str:
    """The visible path of a file: a repeat of the split has the same ones.

    Readers pass over names that begin with ``_`` or ``.``, as topics may: these get an ``@``, which no topic has.
    """
    mark = "@" if split_id.startswith(("_", ".")) else ""
    return f"{directory}{mark}{split_id}-{part:05d}.parquet"


class JobPaths:
    """The paths of one job, relative to the target."""

    def __init__(self, job: str) -> None:
        """Raises as :func:`check_job_name`."""
        self.staging = f"{STAGING}/{check_job_name(job)}"
        self.done = f"{EXPORTS}/{job}"
        self.data = f"{_DATA}/{job}"
        self.dead_letters = f"{_DEAD_LETTERS}/{job}"

    @property
    def job(self) -> str:
        """What the job is."""
        return f"{self.staging}/job.json"

    @property
    def splits(self) -> str:
        """The folder of split records."""
        return f"{self.staging}/splits"

    @property
    def commit(self) -> str:
        """The commit plan."""
        return f"{self.staging}/commit.json"

    @property
    def done_files(self) -> str:
        """The files of a job that is done."""
        return f"{self.done}/files.json"

    @property
    def done_job(self) -> str:
        """The mark of a job that is done."""
        return f"{self.done}/job.json"

    def split(self, split_id: str) -> str:
        """The record of a split that is written."""
        return f"{self.splits}/{split_id}.json"

    def staged(self, split_id: str, part: int, attempt: str) -> str:
        """What an attempt at a split writes; each attempt has files of its own."""
        return f"{self.staging}/files/{split_id}-{part:05d}-{attempt}"

    def in_place(self, split_id: str, part: int, attempt: str) -> str:
        """The same, where files stay under the names that they were written with."""
        return f"{self.data}/{split_id}-{part:05d}-{attempt}.parquet"
