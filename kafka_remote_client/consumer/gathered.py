"""What a delivering call has gathered from both tiers and not handed out yet, in the order of delivery.

The *pieces* of the list are messages, errors of the inner consumer and, if the call delivers Arrow, runs of records
(message_run.py). Its length is the number of records and errors, so a run counts each of its records.
"""

from __future__ import annotations

import attrs
from confluent_kafka import Message

from kafka_remote_client.consumer.message_positions import key_of, offset_of
from kafka_remote_client.consumer.message_run import MessageRun, Piece

__all__ = ["Gathered"]


@attrs.define(eq=False)
class Gathered:
    """See the module. Only calls inside the consumer's gate use it."""

    pieces: list[Piece] = attrs.field(factory=list)
    error_waits: bool = False
    """Whether an error may be among the pieces. It stays set when the error is handed out."""
    _runs: list[MessageRun] = attrs.field(factory=list, init=False)

    def __len__(self) -> int:
        return len(self.pieces) + sum(map(len, self._runs)) - len(self._runs)

    def add(self, pieces: list[Piece]) -> None:
        """Appends pieces, at least one: either runs or none. The list may be kept."""
        if isinstance(pieces[0], MessageRun):
            self._runs += (piece for piece in pieces if isinstance(piece, MessageRun))
        if self.pieces:
            self.pieces += pieces
        else:
            self.pieces = pieces

    def put_back(self, messages: list[Message]) -> None:
        """Inserts messages in front, because they come first."""
        self.pieces[:0] = messages

    def look_for_errors(self) -> None:
        """Sets :attr:`error_waits` by the pieces."""
        self.error_waits = any(piece.error() is not None for piece in self.pieces)

    def as_messages(self) -> None:
        """Turns runs into messages: a call for messages delivers what a call for Arrow has gathered."""
        if self._runs:
            self._runs = []
            pieces = [piece.messages() if isinstance(piece, MessageRun) else [piece] for piece in self.pieces]
            self.pieces = [message for messages in pieces for message in messages]

    def pieces_of(self, wanted: int) -> int:
        """Returns the number of pieces with the first ``wanted`` records, up to the first error; 1 if the first is an error.

        It splits a run that has more.
        """
        records = 0
        for index, piece in enumerate(self.pieces):
            if piece.error() is not None:
                return max(index, 1)
            if records == wanted:
                return index
            if isinstance(piece, MessageRun):
                if len(piece) > wanted - records:
                    self.pieces[index : index + 1] = piece.split(wanted - records)
                    self._look_for_runs()
                    return index + 1
                records += len(piece)
            else:
                records += 1
        return len(self.pieces)

    def take(self, count: int) -> list[Piece]:
        """Removes the first ``count`` pieces and returns them."""
        taken, self.pieces = self.pieces, []
        if len(taken) > count:
            taken, self.pieces = taken[:count], taken[count:]
        if self._runs:
            self._look_for_runs()
        return taken

    def take_back(self, key: tuple[str, int]) -> int | None:
        """Removes a partition's pieces. Returns the lowest offset of its records, ``None`` if there are none."""
        mine = [piece for piece in self.pieces if key_of(piece) == key]
        if not mine:
            return None
        self.pieces[:] = [piece for piece in self.pieces if key_of(piece) != key]
        self._look_for_runs()
        self.look_for_errors()
        return min((offset_of(piece) for piece in mine if piece.error() is None), default=None)

    def clear(self) -> None:
        """Drops all pieces."""
        self.pieces.clear()
        self._runs.clear()

    def _look_for_runs(self) -> None:
        self._runs = [piece for piece in self.pieces if isinstance(piece, MessageRun)]
