"""The GETs of splits, from the location requests that their tasks will make. Reads no data.

::

    split       [------------------------------------)
    questions   |---- window ----|---- window ----|--|     as its task asks them: same windows, ranges, bound and isolation
    ranges      |--|--|--|--|--|--|--|--|--|--|--|--|-|    each is one GET

Requests run for all splits at the same time: first the first window of each, then the second windows, until ``budget``
requests were made. If there are more splits than that, the requests are spread evenly over the job. The caller estimates
the rest.

References: docs/spark.md, "Plan a job".
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.grant_checks import within
from kafka_remote_client.location.source import LocationSource, locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel, NotRemote, SegmentLocation
from kafka_remote_client.scanning.splits import Split

__all__ = ["AskedRequests", "ask_requests"]

_THREADS = 8


@attrs.frozen
class AskedRequests:
    """The GETs for the offsets from the split's start to ``end``, and their bytes.

    All is known where ``end`` is that of the split, or of the tier.
    """

    end: int
    gets: int = 0
    read_bytes: int = 0


def ask_requests(
    source: LocationSource,
    splits: Sequence[Split],
    *,
    isolation_level: IsolationLevel,
    window: tuple[int, int],
    clock: Clock,
    timeout: float,
    budget: int,
) -> list[AskedRequests]:
    """One for each split. ``window``: bytes of a window and of one of its ranges. ``timeout`` bounds one question, in seconds.

    Never raises: a question without an answer leaves its split as far as it is known.
    """
    asked = [AskedRequests(split.start) for split in splits]
    active = _spread([number for number, split in enumerate(splits) if split.start < _tiered_end(split)], budget)

    def next_window(number: int) -> AskedRequests | None:
        split, known = splits[number], asked[number]
        question = LocationQuestion(
            topic=split.topic_partition.topic,
            partition=split.topic_partition.partition,
            offset=known.end,
            isolation_level=isolation_level,
            max_bytes=window[0],
            range_bytes=window[1],
            read_end_offset=split.end,
        )
        try:
            found = locate_one(source, question, Deadline(clock, timeout))
        except DirectFetchError:
            return None
        return _with(known, found, split)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-remote-plan") as workers:
        while active and budget > 0:
            active = active[:budget]
            budget -= len(active)
            answers = list(workers.map(next_window, active))
            active = [number for number, found in zip(active, answers, strict=True) if _keep(asked, number, found, splits)]
    return asked


def _spread(numbers: Sequence[int], most: int) -> list[int]:
    """The numbers, or ``most`` of them, evenly spread."""
    wanted = min(len(numbers), max(0, most))
    return [numbers[n * len(numbers) // wanted] for n in range(wanted)]


def _tiered_end(split: Split) -> int:
    """Returns the offset from which the store is not used. If the tier's end is unknown, the answers give it."""
    return split.end if split.tiered_end is None else min(split.end, split.tiered_end)


def _with(known: AskedRequests, found: SegmentLocation | NotRemote, split: Split) -> AskedRequests:
    if isinstance(found, NotRemote):
        return attrs.evolve(known, end=split.end)  # from here on the task reads from the broker
    location = within(found, split.end)
    return AskedRequests(
        min(location.next_offset, split.end),
        known.gets + len(location.ranges),
        known.read_bytes + sum(granted.range.size for granted in location.ranges),
    )


def _keep(asked: list[AskedRequests], number: int, found: AskedRequests | None, splits: Sequence[Split]) -> bool:
    """Records the result for a split. Returns whether to continue with it."""
    if found is None:
        return False
    asked[number] = found
    return found.end < _tiered_end(splits[number])
