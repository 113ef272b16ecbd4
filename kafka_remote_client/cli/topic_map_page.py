"""A map as one HTML page without external resources: a time line of each partition in SVG, and the same as a table. Pure.

Each partition has a first lane for what readers use, and lanes below it for the rest, so that nothing hides anything. A part's
``title`` shows its bytes and cost on hover. All text is escaped; a Content-Security-Policy forbids scripts and requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from kafka_remote_client.cli.prices import in_dollars
from kafka_remote_client.cli.topic_map import PartKind, TopicMap, TopicPart

__all__ = ["map_page"]

_WIDTH, _LANE, _LABELS = 1000, 26, 18
_MIN_WIDTH = 1.0
_COLOURS = {
    PartKind.LOG_START: "#111827",
    PartKind.REMOTE: "#2563eb",
    PartKind.LOCAL: "#16a34a",
    PartKind.GAP: "#dc2626",
    PartKind.UNDECIDED: "#9333ea",
    PartKind.DUPLICATE: "#94a3b8",
    PartKind.INCOMPLETE: "#f59e0b",
    PartKind.BUSY: "#06b6d4",
    PartKind.ORPHAN: "#b45309",
    PartKind.MISSING: "#ef4444",
    PartKind.FOREIGN: "#64748b",
}
_FIRST_LANE = frozenset({PartKind.REMOTE, PartKind.GAP, PartKind.LOG_START})
_STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#111827;background:#fff}
svg{width:100%;height:auto;display:block;background:#f1f5f9}
rect{stroke:#fff;stroke-width:1;vector-effect:non-scaling-stroke}
text{font-size:12px;fill:#334155}
table{border-collapse:collapse;margin:1em 0}
td,th{padding:.2em .8em .2em 0;text-align:right;vertical-align:top}
td.t,th.t{text-align:left;overflow-wrap:anywhere}
.k{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
li{display:inline-block;margin-right:1.2em}
ul{padding:0}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def map_page(topic_map: TopicMap) -> str:
    """The page, in UTF-8 once it is written."""
    title = f"Tier of {topic_map.topic}"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(topic_map.totals())}</p>", _legend(topic_map)]
    if not topic_map.asked_broker:
        body.append("<p>No broker was asked: local part and log start are not shown.</p>")
    if not topic_map.read_metadata:
        body.append("<p>The metadata topic was not read: orphans and missing segments are not shown.</p>")
    for partition in topic_map.partitions:
        parts = topic_map.of(partition)
        body += [f"<h2>Partition {partition}</h2>", _time_line(partition, parts), _table(parts)]
    if foreign := topic_map.of(None):
        body += ["<h2>Objects that belong to no segment</h2>", _table(foreign)]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def _legend(topic_map: TopicMap) -> str:
    kinds = {part.kind for part in topic_map.parts}
    items = (
        f'<li><span class="k" style="background:{_COLOURS[kind]}"></span>{kind}</li>' for kind in PartKind if kind in kinds
    )
    return f"<ul>{''.join(items)}</ul>"


def _time_line(partition: int, parts: Sequence[TopicPart]) -> str:
    starts = [part.start_offset for part in parts if part.start_offset is not None]
    first = min(starts)
    last = max([*starts, *(part.end_offset for part in parts if part.end_offset is not None)])
    scale = _WIDTH / (last + 1 - first)
    drawn: list[str] = []
    deepest = 0
    marks_last = sorted(_lanes(parts), key=lambda one: one[1].kind is PartKind.LOG_START)  # else a segment covers the mark
    for lane, part in marks_last:
        deepest = max(deepest, lane)
        drawn.append(_drawn(part, lane, first, scale))
    height = (deepest + 1) * _LANE
    labels = (
        f'<text x="2" y="{height + 13}">{first:,}</text>'
        f'<text x="{_WIDTH - 2}" y="{height + 13}" text-anchor="end">{last:,}</text>'
    )
    name = f"Offsets {first} to {last} of partition {partition}"
    return f'<svg viewBox="0 0 {_WIDTH} {height + _LABELS}" role="img" aria-label="{name}">{"".join(drawn)}{labels}</svg>'


def _lanes(parts: Sequence[TopicPart]) -> Iterator[tuple[int, TopicPart]]:
    """The lane of each part: the first for what readers use, else the first one below it that is free there."""
    ends: list[int] = []
    for part in parts:
        if part.kind in _FIRST_LANE or part.start_offset is None:
            yield 0, part
            continue
        start, end = part.start_offset, part.end_offset if part.end_offset is not None else part.start_offset
        lane = next((at for at, taken in enumerate(ends) if taken < start), len(ends))
        ends[lane : lane + 1] = [end]
        yield lane + 1, part


def _drawn(part: TopicPart, lane: int, first: int, scale: float) -> str:
    assert part.start_offset is not None
    x = (part.start_offset - first) * scale
    end = part.start_offset if part.end_offset is None else part.end_offset
    width = _MIN_WIDTH * 2 if part.kind is PartKind.LOG_START else max((end + 1 - part.start_offset) * scale, _MIN_WIDTH)
    y, height = lane * _LANE + 2, _LANE - 4
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{height}" fill="{_COLOURS[part.kind]}">'
        f"<title>{escape(_hover(part))}</title></rect>"
    )


def _hover(part: TopicPart) -> str:
    end = "" if part.end_offset is None else f" to {part.end_offset:,}"
    lines = [f"{part.kind}: {part.start_offset:,}{end}"]
    if part.segment_id is not None:
        lines.append(f"segment {part.segment_id}")
    if part.bytes is not None:
        lines.append(f"{part.bytes:,} bytes, {part.stored_bytes or 0:,} stored")
    if part.month_dollars is not None:
        lines.append(f"{in_dollars(part.month_dollars)} a month")
    if part.read_dollars is not None:
        lines.append(f"{in_dollars(part.read_dollars)} a read")
    if part.note is not None:
        lines.append(part.note)
    return "\n".join(lines)


def _table(parts: Sequence[TopicPart]) -> str:
    rows = ["<tr><th class=t>kind<th>start<th>end<th>bytes<th>stored<th>a month<th>a read<th class=t>what</tr>"]
    for part in parts:
        numbers = (part.start_offset, part.end_offset, part.bytes, part.stored_bytes)
        dollars = (part.month_dollars, part.read_dollars)
        cells = [f"<td class=t>{part.kind}"]
        cells += [f"<td>{'' if number is None else f'{number:,}'}" for number in numbers]
        cells += [f"<td>{'' if price is None else escape(in_dollars(price))}" for price in dollars]
        cells.append(f"<td class=t>{escape(part.what or '')}")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"
