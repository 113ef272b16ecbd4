"""The paths of the files of an export below its target, and their sizes. Pure.

::

    topic=orders/day=2026-01-31/hour=05/orders-0-0-5000-00000.parquet    a file of the table: split id and part
    _staging/<job>/job.json                                              the job, before anything is read
    _staging/<job>/splits/<split id>.json                                the files of the attempt that wrote the split
    _staging/<job>/files/<split id>-<part>-<attempt>                     a file of an attempt
    data/<job>/<split id>-<part>-<attempt>.parquet                       the same for tables whose metadata names their files
    _staging/<job>/plans/<id>.json                                       the files of all splits that one run has found
    _staging/<job>/commit.json                                           the first of these plans, which counts
    _exports/<job>/files.json, job.json                                  the same, once all of them are published
    _dead_letters/<job>/orders-0-0-5000-00000.parquet                    the split's records that do not parse

Names that begin with ``_`` are hidden from Spark, Hive and pyarrow's data sets, and staged files do not end with ``.parquet``,
so that no glob for these finds them.

A file system takes names of 255 bytes, and a topic may have 249. So a long split id is cut, and a hash takes the place of the
rest, after a ``~``, which no topic has.
"""

from __future__ import annotations

import hashlib
import re

from kafka_remote_client.errors import ConfigurationError

__all__ = [
    "EXPORTS",
    "FILE_BYTES",
    "ROW_GROUP_BYTES",
    "STAGING",
    "JobPaths",
    "check_job_name",
    "file_name",
    "is_job_name",
    "stem",
]

EXPORTS = "_exports"
STAGING = "_staging"
_DATA = "data"
_DEAD_LETTERS = "_dead_letters"
ROW_GROUP_BYTES = 128 << 20
"""Bytes of Arrow's memory of a row group, before compression."""
FILE_BYTES = 512 << 20
"""Bytes after which a file ends; it has up to one row group more."""
_LONGEST_STEM = 180
"""Two identifiers of 32 digits, and what is between them, follow in the longest name."""
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_job_name(name: str) -> bool:
    """Whether a job can have this name."""
    return _JOB.fullmatch(name) is not None


def check_job_name(job: str) -> str:
    """The name of a job, which is a part of paths. Raises ConfigurationError for an invalid name."""
    if not isinstance(job, str) or not is_job_name(job):
        raise ConfigurationError(f"the job name {job!r} must be 1 to 100 letters, digits, '.', '_' and '-'")
    return job


def stem(split_id: str) -> str:
    """What the names of a split's files begin with: its id, or an abbreviation of it."""
    if len(split_id) <= _LONGEST_STEM:
        return split_id
    mark = f"~{hashlib.sha256(split_id.encode()).hexdigest()[:16]}"
    return split_id[: _LONGEST_STEM - len(mark)] + mark


def file_name(split_id: str, part: int, directory: str = "") -> str:
    """The visible path of a file. It is the same for each attempt at the split.

    Readers ignore names that begin with ``_`` or ``.``, which topics may. These names get an ``@``, which no topic has.
    """
    mark = "@" if split_id.startswith(("_", ".")) else ""
    return f"{directory}{mark}{stem(split_id)}-{part:05d}.parquet"


class JobPaths:
    """The paths of one job, relative to the target."""

    def __init__(self, job: str) -> None:
        """Raises as :func:`check_job_name`."""
        self.staging = f"{STAGING}/{check_job_name(job)}"
        self.done = f"{EXPORTS}/{job}"
        self.data = f"{_DATA}/{job}"
        self.dead_letters = f"{_DEAD_LETTERS}/{job}"
        self.job = f"{self.staging}/job.json"
        """The job: its options and splits."""
        self.splits = f"{self.staging}/splits"
        """The folder of split records."""
        self.plans = f"{self.staging}/plans"
        """The folder of the plans of all runs."""
        self.commit = f"{self.staging}/commit.json"
        """The commit plan."""
        self.done_files = f"{self.done}/files.json"
        """The files of a finished job."""
        self.done_job = f"{self.done}/job.json"
        """The mark of a finished job."""

    def split(self, split_id: str) -> str:
        """The record of a written split."""
        return f"{self.splits}/{stem(split_id)}.json"

    def staged(self, split_id: str, part: int, attempt: str) -> str:
        """A file that an attempt at a split writes; attempts share no files."""
        return f"{self.staging}/files/{stem(split_id)}-{part:05d}-{attempt}"

    def in_place(self, split_id: str, part: int, attempt: str) -> str:
        """The same for a table whose files keep the names that they were written with."""
        return f"{self.data}/{stem(split_id)}-{part:05d}-{attempt}.parquet"
