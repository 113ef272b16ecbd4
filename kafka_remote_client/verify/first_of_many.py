"""Counts the defects of one file and keeps the first, so that a replaced index is one finding and not a thousand."""

from __future__ import annotations

from kafka_remote_client.verify.finding import FindingKind, Problem

__all__ = ["FirstOfMany"]


class FirstOfMany:
    """The first message with its place, and the number of messages."""

    def __init__(self) -> None:
        self.count = 0
        self._message = ""
        self._position: int | None = None
        self._offset: int | None = None

    def add(self, message: str, position: int | None = None, offset: int | None = None) -> None:
        """Counts one defect."""
        self.count += 1
        if self.count == 1:
            self._message, self._position, self._offset = message, position, offset

    def problems(self, kind: FindingKind, total: int, things: str) -> list[Problem]:
        """Returns nothing, or one problem for all defects: "3 of 10 entries; the first: …"."""
        if not self.count:
            return []
        words = self._message if self.count == 1 else f"{self.count} of {total} {things}; the first: {self._message}"
        return [Problem(kind, words, self._position, self._offset)]
