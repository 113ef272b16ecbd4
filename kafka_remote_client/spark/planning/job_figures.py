"""The cost of a job in a few numbers, as planned or as counted afterwards, to compare the two. Pure.

::

    figure        | planned                                | counted
    splits        | tasks                                  | tasks that were counted
    segments      | of which anything is read              | opened by tasks: one that two tasks read counts twice
    segment bytes | of these segments, as Kafka wrote them | the same, of those opened
    gets          | ranges of segments                     | ranges asked for, retries and hedges included
    read bytes    | of segments, as Kafka wrote them       | received from the store
    records       | offsets, an upper bound                | from the store and through the broker
    dollars       | gets and read bytes at a price         | the same
    seconds       | from assumptions                       | as it was measured, if it was

References: docs/metrics.md; Amazon S3's price list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from kafka_remote_client.errors import ConfigurationError

__all__ = ["JobFigures", "Prices", "counted_figures", "side_by_side"]

_GETS, _BYTES = "remote-fetch-request-total", "remote-fetch-bytes-total"
_SEGMENTS, _SEGMENT_BYTES = "remote-fetch-segment-total", "remote-fetch-segment-bytes-total"
_RECORDS = ("remote-fetch-records-total", "broker-fetch-records-total")


@attrs.frozen
class Prices:
    """Dollars. The defaults are Amazon S3 Standard's of us-east-1: GETs, and transfer to the same region, which is free.

    A GB is 10^9 bytes.
    """

    per_1000_gets: float = 0.0004
    per_gb: float = 0.0

    def of(self, gets: int, read_bytes: int) -> float:
        """Returns the price of the GETs and bytes."""
        return gets / 1000 * self.per_1000_gets + read_bytes / 1e9 * self.per_gb


@attrs.frozen
class JobFigures:
    """The figures of the module's table; ``None`` = not known."""

    splits: int | None
    segments: int | None
    segment_bytes: int | None
    gets: int
    read_bytes: int
    records: int | None
    dollars: float
    seconds: float | None


def counted_figures(
    counters: Mapping[str, object],
    *,
    splits: int | None = None,
    seconds: float | None = None,
    prices: Prices | None = None,
) -> JobFigures:
    """Returns the figures of a job from the sum of its tasks' counters. ``seconds``: its duration, if measured.

    Raises ConfigurationError for invalid counters.
    """
    gets, read = _number(counters, _GETS), _number(counters, _BYTES)
    if gets is None or read is None:
        raise ConfigurationError(f"not counters: {_GETS} and {_BYTES} must be numbers")
    records = [count for name in _RECORDS if (count := _number(counters, name)) is not None]
    return JobFigures(
        splits=splits,
        segments=_number(counters, _SEGMENTS),
        segment_bytes=_number(counters, _SEGMENT_BYTES),
        gets=gets,
        read_bytes=read,
        records=sum(records) if records else None,
        dollars=(prices or Prices()).of(gets, read),
        seconds=seconds,
    )


def _number(counters: Mapping[str, object], name: str) -> int | None:
    value = counters.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def side_by_side(columns: Mapping[str, JobFigures], estimated: Sequence[str] = ()) -> str:
    """A table with a line for each figure and a column for each of ``columns``; ``estimated`` figures of the first have a ~."""
    lines = [["", *columns]]
    for field in attrs.fields(JobFigures):
        cells = [_shown(field.name, getattr(figures, field.name)) for figures in columns.values()]
        if field.name in estimated:
            cells[0] = f"~{cells[0]}"
        lines.append([field.name.replace("_", " "), *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "?"
    if name == "dollars":
        return f"{value:.4f}"
    return f"{value:.1f}" if name == "seconds" else f"{value:,}"
