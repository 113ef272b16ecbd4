"""A written file of a table with its statistics, and a written split with its files, as JSON. Pure.

References: docs/tables.md, "Export".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

__all__ = ["WrittenFile", "WrittenSplit"]


@attrs.frozen
class WrittenFile:
    """A Parquet file. Paths are relative to the target.

    ``staged``: where an attempt wrote it; ``path``: where readers find it. ``size_in_bytes``: of the file. ``first_offset`` and
    ``last_offset`` are inclusive; ``oldest`` and ``youngest`` are timestamps in milliseconds. They are ``None`` where the table
    has no such column. ``partition``: the values of the table's partition columns. ``footer``: the file's Parquet metadata,
    as a metadata file in base64, where a table format asks for it.
    """

    staged: str
    path: str
    rows: int
    size_in_bytes: int
    first_offset: int | None = None
    last_offset: int | None = None
    oldest: int | None = None
    youngest: int | None = None
    partition: Mapping[str, str] = attrs.field(factory=dict)
    footer: str | None = None


@attrs.frozen
class WrittenSplit:
    """A split that was written to its end, and its files; none where no record matched.

    ``dead_letters``: files of its records that do not parse, which are not in the table.
    """

    id: str
    files: tuple[WrittenFile, ...] = ()
    dead_letters: tuple[WrittenFile, ...] = ()

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(file.rows for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """As :meth:`of_json` takes it."""
        letters = {"dead_letters": [_short(file) for file in self.dead_letters]} if self.dead_letters else {}
        return {"split": self.id, "files": [_short(file) for file in self.files], **letters}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> WrittenSplit:
        """Raises KeyError or TypeError for anything else."""
        return cls(value["split"], _files(value["files"]), _files(value.get("dead_letters", ())))


def _files(listed: Sequence[Mapping[str, Any]]) -> tuple[WrittenFile, ...]:
    return tuple(WrittenFile(**file) for file in listed)


def _short(file: WrittenFile) -> dict[str, Any]:
    return attrs.asdict(file, filter=lambda _, value: value is not None and value != {})
