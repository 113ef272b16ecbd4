"""Decisions on partitions whose clients ask again while the decision is pending.

::

    a client asks of a partition         | what happens
    what no task decides yet             | a task decides it
    the same, while the task runs        | it waits for that task, or its answer says again "pending"
    the same, after the task has ended   | it has the result, once
    other than before                    | another task decides it
    the same, but the log has changed    | another task decides it

So a decision that takes longer than each wait of the client, because the store or the machine is slow, is made once and reaches
the client at last. A result holds within the bounds that the broker gave when it was begun. It serves a later request whose own
bounds include these: the log begins at the same offset and has not become shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

import attrs

from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.protocol.fetch import PartitionData

__all__ = ["Decisions"]

_T = TypeVar("_T")


@attrs.define(eq=False)
class _Decision(Generic[_T]):
    question: object
    bounds: PartitionOffsets
    task: asyncio.Task[_T]
    expiry: asyncio.TimerHandle | None = None

    def serves(self, question: object, bounds: PartitionOffsets) -> bool:
        """Whether its result answers ``question`` in a log with these bounds."""
        return (
            self.question == question
            and self.bounds.log_start == bounds.log_start
            and self.bounds.high_watermark <= bounds.high_watermark
            and self.bounds.last_stable <= bounds.last_stable
        )


class Decisions(Generic[_T]):
    """Used in one event loop. ``kept``: seconds for which an unused result is kept."""

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._begun: dict[Hashable, _Decision[_T]] = {}

    def __len__(self) -> int:
        return len(self._begun)

    async def of(
        self, key: Hashable, question: object, bounds: PartitionData, decide: Callable[[], Coroutine[Any, Any, _T]]
    ) -> _T:
        """Returns the result of ``decide``, for this or an earlier request. Raises its errors.

        ``key``: the client's connection and the partition. Cancelling this leaves the decision running.
        """
        decision = self._begun.get(key)
        # Not the answer itself, whose records may be a large frame.
        log = PartitionOffsets(
            log_start=bounds.log_start_offset, high_watermark=bounds.high_watermark, last_stable=bounds.last_stable_offset
        )
        if decision is None or not decision.serves(question, log):
            if decision is not None:
                self._drop(key, decision)
            decision = self._begin(key, _Decision(question, log, asyncio.create_task(decide())))
        try:
            result = await asyncio.shield(decision.task)
        except Exception:  # not after a cancellation, which delivers no result, even if it exists
            self._drop(key, decision)
            raise
        self._drop(key, decision)
        return result

    def _begin(self, key: Hashable, decision: _Decision[_T]) -> _Decision[_T]:
        def ended(_: asyncio.Task[_T]) -> None:
            if self._begun.get(key) is decision:
                decision.expiry = asyncio.get_running_loop().call_later(self._kept, self._drop, key, decision)

        self._begun[key] = decision
        decision.task.add_done_callback(ended)
        return decision

    def _drop(self, key: Hashable, decision: _Decision[_T]) -> None:
        if decision.expiry is not None:
            decision.expiry.cancel()
        if self._begun.get(key) is decision:
            del self._begun[key]
