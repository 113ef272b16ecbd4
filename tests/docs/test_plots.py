"""The plots of the performance page show the figures of the tables of benchmarks."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import attrs
import pytest

from docs import plots
from tests.docs.documents import ROOT

_PAGE = """\
| record | a | b |
|---|---|---|
| 1 KB | 10 | 40 |
| 100 B | 20 | 5 |

| record | a | b | c |
|---|---|---|---|
| 1 KB | 1 | 2 | 3 |
"""
_PLOT = plots.Plot("Speed", "MiB/s", ("a", "b"), ("record", "a", "b"), lambda row: True, lambda row: row["record"])


def test_tables_are_found_with_their_rows() -> None:
    first, second = plots.tables(_PAGE)
    assert first == [{"record": "1 KB", "a": "10", "b": "40"}, {"record": "100 B", "a": "20", "b": "5"}]
    assert second == [{"record": "1 KB", "a": "1", "b": "2", "c": "3"}]


def test_first_table_with_all_columns_and_a_row_is_used() -> None:
    assert plots.rows_of(_PLOT, _PAGE)[0]["b"] == "40"
    wider = attrs.evolve(_PLOT, columns=("record", "c"))
    assert plots.rows_of(wider, _PAGE) == [{"record": "1 KB", "a": "1", "b": "2", "c": "3"}]


def test_plot_without_a_table_or_row_is_an_error() -> None:
    for plot in (attrs.evolve(_PLOT, columns=("d",)), attrs.evolve(_PLOT, rows=lambda row: row["record"] == "1 MB")):
        with pytest.raises(ValueError, match="no table has rows for the plot 'Speed'"):
            plots.rows_of(plot, _PAGE)


@pytest.mark.parametrize("name", plots.PLOTS)
def test_bars_are_as_long_as_the_figures(name: str) -> None:
    plot = plots.PLOTS[name]
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    figures = [float(row[column]) for row in plots.rows_of(plot, page) for column in plot.series]
    svg = ET.fromstring(plots.drawn(name))
    rects = [rect for rect in svg.iter("{http://www.w3.org/2000/svg}rect") if rect.get("height") == "14"]
    widths = [float(rect.get("width", "")) for rect in rects]
    assert widths == pytest.approx([figure * max(widths) / max(figures) for figure in figures], abs=0.1)
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text") if re.fullmatch(r"[\d.]+", text.text or "")]
    assert [float(text or "") for text in texts] == figures


def test_page_shows_each_plot_and_no_other() -> None:
    shown = re.findall(r"\(plots/([\w.-]+)\)", (ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(plots.PLOTS)
    assert sorted(path.name for path in (ROOT / "docs" / "plots").iterdir()) == sorted(plots.PLOTS)
