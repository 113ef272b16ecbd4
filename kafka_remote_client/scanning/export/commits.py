"""The commits of a job to a table with a transaction log: pieces in a fixed order, each at most once.

::

    splits       |----- 5,000 -----|----- 5,000 -----|--- rest ---|
    sequence     0                 1                 2               job and sequence are in each commit

A run finds the commits of earlier runs and continues after them. The pieces are the same in each run, because the commit
plan is fixed.

References: docs/tables.md, "Export".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from kafka_remote_client.errors import ExportError
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit

__all__ = ["JOB", "MOST_SPLITS", "SEQUENCE", "commit_pieces", "one_line", "pieces"]

MOST_SPLITS = 5_000
"""The most splits of one commit."""
JOB = "kafka-remote.job"
SEQUENCE = "kafka-remote.sequence"
_ATTEMPTS = 5
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def pieces(written: Sequence[WrittenSplit], size: int = MOST_SPLITS) -> Iterator[tuple[int, list[WrittenFile]]]:
    """The number and the files of each piece that has files."""
    for number, first in enumerate(range(0, len(written), size)):
        files = [file for split in written[first : first + size] for file in split.files]
        if files:
            yield number, files


def one_line(error: Exception) -> str:
    """The text of a table format's error: deltalake's has colours, and an arrow before each cause."""
    causes = _COLOUR.sub("", str(error)).split("↳")
    return ": ".join(" ".join(cause.split()) for cause in causes)


def commit_pieces(
    written: Sequence[WrittenSplit],
    *,
    committed: Callable[[], set[int]],
    commit: Callable[[int, list[WrittenFile]], None],
    conflicts: tuple[type[Exception], ...],
    table: str,
    size: int = MOST_SPLITS,
) -> None:
    """Commits the pieces that are not committed yet. ``committed``: reads the table again, and returns its pieces.

    A commit that fails with one of ``conflicts`` is tried again, unless the table has it. Raises ExportError after five
    failures.
    """
    known = committed()
    for number, files in pieces(written, size):
        for attempt in range(_ATTEMPTS):
            if number in known:
                break
            try:
                commit(number, files)
                break
            except conflicts as error:
                if attempt + 1 == _ATTEMPTS:
                    raise ExportError(
                        f"cannot commit to {table}: other writers changed it {_ATTEMPTS} times; run the job again: {error}"
                    ) from error
                known = committed()
