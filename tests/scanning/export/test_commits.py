"""Commits of a job in pieces: each succeeds once, after any crash and with concurrent writers."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ExportError
from kafka_remote_client.scanning.export.commits import MOST_SPLITS, commit_pieces, pieces
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit


def split(number: int, files: int = 1) -> WrittenSplit:
    return WrittenSplit(f"orders-{number}", tuple(WrittenFile("s", f"{number}-{part}", 1, 1) for part in range(files)))


WRITTEN = [split(0), split(1, 2), split(2, 0), split(3, 0), split(4)]


class ConflictError(Exception):
    pass


class Table:
    """Fake table whose first commits fail, before or after they take effect."""

    def __init__(self, fails_before: int = 0, fails_after: int = 0) -> None:
        self.before, self.after = fails_before, fails_after
        self.commits: dict[int, list[str]] = {}

    def commit(self, number: int, files: list[WrittenFile]) -> None:
        if self.before:
            self.before -= 1
            raise ConflictError("another writer")
        assert number not in self.commits
        self.commits[number] = [file.path for file in files]
        if self.after:
            self.after -= 1
            raise ConflictError("no answer")

    def run(self) -> None:
        commit_pieces(
            WRITTEN, committed=lambda: set(self.commits), commit=self.commit, conflicts=(ConflictError,), table="orders", size=2
        )


def test_each_piece_has_a_bounded_size_and_a_stable_number() -> None:
    assert [(number, [file.path for file in files]) for number, files in pieces(WRITTEN, 2)] == [
        (0, ["0-0", "1-0", "1-1"]),
        (2, ["4-0"]),
    ]
    assert MOST_SPLITS == 5_000


def test_committed_pieces_are_not_committed_again() -> None:
    table = Table()
    table.commits[0] = []
    table.run()
    table.run()
    assert table.commits == {0: [], 2: ["4-0"]}


@pytest.mark.parametrize("table", [Table(fails_before=4), Table(fails_after=2), Table(3, 2)])
def test_a_conflict_is_retried_unless_the_commit_succeeded(table: Table) -> None:
    table.run()
    assert table.commits == {0: ["0-0", "1-0", "1-1"], 2: ["4-0"]}


def test_repeated_commit_conflicts_raise() -> None:
    with pytest.raises(ExportError, match="cannot commit to orders: other writers changed it 5 times; run the job again"):
        Table(fails_before=5).run()
