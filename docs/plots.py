"""Plots of the figures in ``docs/benchmarks.md``, as SVG: grouped bars. ``docs/generate.py`` writes them to ``docs/plots``.

The benchmark scripts print these tables, so a plot has no figures of its own: it shows columns of some rows of one table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path

import attrs

__all__ = ["PLOTS", "Plot", "drawn", "rows_of", "tables"]

Row = Mapping[str, str]
_PAGE = Path(__file__).with_name("benchmarks.md")
_COLOURS = ("#9aa5b1", "#52606d", "#7cc4fa", "#127fbf")
_WIDTH, _LABELS, _VALUES, _BAR, _GAP, _TOP = 760, 130, 70, 16, 14, 74


@attrs.frozen
class Plot:
    """``columns``: headings that a table must have; its bars are ``series``. ``rows``: which rows are groups of bars.

    ``group``: the label of a row. ``unit``: of the figures.
    """

    title: str
    unit: str
    series: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Callable[[Row], bool]
    group: Callable[[Row], str]


_READ = ("broker default", "broker tuned", "direct default", "direct tuned")
PLOTS = {
    "consume-1kb.svg": Plot(
        "Reading a tiered topic with consume(500), records of 1 KB, by the store's latency",
        "MiB/s",
        _READ,
        ("record", "latency", "api", *_READ),
        lambda row: row["record"] == "1024 B" and row["api"] == "consume",
        lambda row: row["latency"],
    ),
    "consume-100b.svg": Plot(
        "The same with records of 100 B",
        "MiB/s",
        _READ,
        ("record", "latency", "api", *_READ),
        lambda row: row["record"] == "100 B" and row["api"] == "consume",
        lambda row: row["latency"],
    ),
    "cpu.svg": Plot(
        "The client's CPU time per record with consume(500), tuned settings",
        "ns",
        ("broker ns", "direct ns"),
        ("record", "latency", "api", *_READ),
        lambda row: row["api"] == "consume",
        lambda row: f"{row['record']}, {row['latency']}",
    ),
    "spark.svg": Plot(
        "One Spark job over uncompressed tiered topics, by record size and latency",
        "MB/s",
        ("kafka", "kafka tuned", "direct"),
        ("record", "codec", "latency", "kafka", "kafka tuned", "direct"),
        lambda row: row["codec"] == "none",
        lambda row: f"{row['record']}, {row['latency']}",
    ),
    "decode.svg": Plot(
        "Decoding a segment in memory, records of 1000 B in batches of 1 MiB, by codec",
        "million records/s",
        ("kafka-python", "aiokafka", "columns"),
        ("codec", "record", "batch", "columns", "aiokafka", "kafka-python"),
        lambda row: row["record"] == "1000 B" and row["batch"] == "1 MiB",
        lambda row: row["codec"],
    ),
}


def tables(text: str) -> Iterator[list[Row]]:
    """Returns the tables of a page; a row maps headings to cells."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        yield [dict(zip(head, line, strict=True)) for line in lines]


def rows_of(plot: Plot, text: str) -> list[Row]:
    """Returns the plot's rows of the first table with its columns. Raises ValueError if there is no such table or row."""
    for table in tables(text):
        if table and set(plot.columns) <= set(table[0]):
            chosen = [row for row in table if plot.rows(row)]
            if chosen:
                return chosen
    raise ValueError(f"no table has rows for the plot {plot.title!r}")


def drawn(name: str) -> str:
    """Returns a plot by its file's name, as SVG, from the page of benchmarks."""
    plot = PLOTS[name]
    return _svg(plot, rows_of(plot, _PAGE.read_text(encoding="utf-8")))


def _svg(plot: Plot, rows: list[Row]) -> str:
    largest = max(float(row[name]) for row in rows for name in plot.series)
    scale = (_WIDTH - _LABELS - _VALUES) / largest
    height = _TOP + len(rows) * (len(plot.series) * _BAR + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" role="img"'
        ' font-family="sans-serif" font-size="12" fill="#1f2933">',
        f"<title>{escape(plot.title)}, {plot.unit}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="22" font-size="14">{escape(plot.title)} ({plot.unit})</text>',
        *_legend(plot),
    ]
    y = _TOP
    for row in rows:
        middle = y + len(plot.series) * _BAR / 2 + 4
        lines.append(f'<text x="{_LABELS - 10}" y="{middle:g}" text-anchor="end">{escape(plot.group(row))}</text>')
        for colour, name in zip(_colours(plot), plot.series, strict=True):
            width = float(row[name]) * scale
            lines.append(f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>')
            lines.append(f'<text x="{_LABELS + width + 6:.1f}" y="{y + 11}">{row[name]}</text>')
            y += _BAR
        y += _GAP
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(plot: Plot) -> Iterator[str]:
    for index, (colour, name) in enumerate(zip(_colours(plot), plot.series, strict=True)):
        x = _LABELS + index * 140
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/><text x="{x + 18}" y="48">{escape(name)}</text>'


def _colours(plot: Plot) -> tuple[str, ...]:
    """The colour of direct reads is the last one in every plot."""
    others = len(plot.series) - 1
    return _COLOURS if others == len(_COLOURS) - 1 else (*_COLOURS[:others], _COLOURS[-1])
