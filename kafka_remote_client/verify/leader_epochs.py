"""Compares the leader epochs of checkpoint and metadata with each other and with the batches.

No checksum covers a batch's epoch or the checkpoint. If a claim differs from the batches, the majority decides: if few batches
differ, they are damaged; if many differ, the claim is wrong.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.log_walk import MAX_PROBLEMS

__all__ = ["EpochClaim", "LeaderEpochsCheck"]

_RUN = 3


@attrs.define
class EpochClaim:
    """A source that claims epochs. ``kind``: the finding if the claim is wrong. The other fields count differing batches."""

    by: str
    kind: FindingKind
    lineage: LeaderEpochLineage
    differing: list[BatchHeader] = attrs.field(factory=list)
    count: int = 0
    longest_run: int = 0
    _run: int = 0

    def compare(self, header: BatchHeader) -> None:
        """Counts one batch."""
        if self.lineage.may_hold(header.leader_epoch, header.base_offset, header.last_offset):
            self._run = 0
            return
        self.count += 1
        if len(self.differing) < MAX_PROBLEMS:
            self.differing.append(header)
        self._run += 1
        self.longest_run = max(self.longest_run, self._run)

    def is_wrong(self, batches: int) -> bool:
        """Returns whether the claim is wrong, and not the batches that differ from it."""
        return self.count * 2 > batches or self.longest_run >= _RUN


class LeaderEpochsCheck:
    """A BatchListener."""

    def __init__(self, claims: list[EpochClaim]) -> None:
        self._claims = claims
        self._batches = 0

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        if header.magic < 2:
            return  # has none
        self._batches += 1
        for claim in self._claims:
            claim.compare(header)

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        """Lost batches have no epoch."""

    def problems(self) -> list[Problem]:
        """Returns the problems, after the walk has ended."""
        found: list[Problem] = []
        damaged: dict[int, tuple[BatchHeader, str]] = {}
        right = any(not claim.count for claim in self._claims)
        for claim in self._claims:
            first = claim.differing[0] if claim.differing else None
            if first is None:
                continue
            claimed = claim.lineage.epoch_for_offset(first.base_offset)
            if right or claim.is_wrong(self._batches):
                words = f"{claim.by}: epoch {claimed} for offset {first.base_offset}, whose batch has {first.leader_epoch}"
                words += f" ({claim.count} of {self._batches} batches differ)"
                found.append(Problem(claim.kind, words, None, first.base_offset))
            else:
                for header in claim.differing:
                    damaged.setdefault(header.position, (header, claim.by))
        for position, (header, by) in sorted(damaged.items()):
            words = f"the batch has leader epoch {header.leader_epoch}, other than {by}"
            found.append(Problem(FindingKind.BATCH_LEADER_EPOCH, words, position, header.base_offset, header.size))
        return found
