"""F78: the shim answers without a location: its look-up is pending, or the partition is missing from the answer.

A request for the location of one partition is also a batch. tests/faults/test_batched_questions.py has larger batches.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import attrs

from kafka_remote_client.protocol.dialect import TaggedDialect
from kafka_remote_client.protocol.fetch import PartitionData
from tests.faults.bench import Change
from tests.faults.scenario import ALL, Inject, Table

__all__ = ["SHIM_ANSWERS"]

_table = Table()
SHIM_ANSWERS = _table.scenarios

_SOON: dict[str, Any] = {"kinds": ALL, "settings": {"fetch.remote.pending.timeout.ms": 300}}


def _says(change: Change, *, first: int = 0, last: int | None = None, each: int = 1) -> Inject:
    """Changes every ``each``-th answer from ``first`` on and before ``last``."""

    def inject(rig: Any) -> None:
        numbers = count()

        def changed(data: PartitionData, offset: int) -> PartitionData | None:
            number = next(numbers) - first
            meant = number >= 0 and number % each == 0 and (last is None or number < last - first)
            return change(data, offset) if meant else data

        rig.change_answers(changed)

    return inject


def _pending(data: PartitionData, _offset: int) -> PartitionData:
    return attrs.evolve(data, tags=TaggedDialect().pending_tags(), aborted_transactions=None, records=b"")


def _pending_beside_records(data: PartitionData, offset: int) -> PartitionData:
    return attrs.evolve(_pending(data, offset), records=bytes(100))


def _pending_beside_a_grant(data: PartitionData, _offset: int) -> PartitionData:
    return attrs.evolve(data, tags={**data.tags, **TaggedDialect().pending_tags()})


def _nothing(_data: PartitionData, _offset: int) -> None:
    return None


def _another_partition(data: PartitionData, _offset: int) -> PartitionData:
    return attrs.evolve(data, partition_index=data.partition_index + 1)


_table.add("pending-twice", "F78", _says(_pending, last=2), kinds=ALL, heals=True)
_table.add("pending-each-other-time", "F78", _says(_pending, each=2), kinds=ALL, heals=True)
_table.add("pending-beside-records", "F78", _says(_pending_beside_records, last=2), kinds=ALL, heals=True)
_table.add("pending-beside-a-grant", "F78", _says(_pending_beside_a_grant, last=2), kinds=ALL, heals=True)
_table.add("pending-for-ever", "F78", _says(_pending), "location-pending", **_SOON)
_table.add("pending-for-ever-later", "F78", _says(_pending, first=2), "location-pending", **_SOON)
for _name, _answer in (("left-out", _nothing), ("another-partition", _another_partition)):
    _table.add(f"{_name}-once", "F78", _says(_answer, last=1), "protocol", kinds=ALL)
    _table.add(f"{_name}-for-ever", "F78", _says(_answer), "protocol", kinds=ALL)
