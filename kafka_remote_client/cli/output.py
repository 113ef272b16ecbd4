"""The output of verbs: JSON lines for programs, tables for people. Progress and remarks go to standard error."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

__all__ = ["OutputFormat", "output_console", "show_facts", "show_json", "show_json_lines", "show_lines", "show_text"]

_WIDTH = 80


class OutputFormat(StrEnum):
    """``--output``."""

    TEXT = "text"
    JSON = "json"


class _OutputConsole(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # Console would end the process with status 1


def output_console() -> Console:
    """Standard output for tables, without colours and markup. A pipe has no width of its own: 80 columns.

    A narrower terminal breaks the lines itself. A table of its width would cut numbers.
    """
    console = _OutputConsole(width=None if sys.stdout.isatty() else _WIDTH, soft_wrap=False, highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)
    return console


def show_json(value: object) -> None:
    """Prints a value as JSON on one line, and writes it at once: a program may read while the verb goes on."""
    print(json.dumps(value, separators=(",", ":")), flush=True)


def show_json_lines(lines: Iterable[Any]) -> None:
    """Prints attrs values as JSON objects, one a line."""
    for line in lines:
        show_json(attrs.asdict(line))


def show_lines(lines: Sequence[Any], columns: Mapping[str, str], output: OutputFormat) -> None:
    """Prints attrs values, one a line: JSON objects with all fields, or a table of ``columns``, from heading to field.

    A table fits 80 columns: long texts are folded. ``None`` is null, and "-" in the table.
    """
    if output is OutputFormat.JSON:
        show_json_lines(lines)
        return
    table = Table(box=None, pad_edge=False)
    for heading, field in columns.items():
        is_text = any(isinstance(getattr(line, field), str) for line in lines)
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    for line in lines:
        values = [getattr(line, field) for field in columns.values()]
        table.add_row(*("-" if value is None else str(value) for value in values))
    output_console().print(table)


def show_facts(facts: Mapping[str, object], indent: int = 0) -> None:
    """Prints names and values below each other, within 80 columns. Long words, as names of topics, are not cut.

    ``indent``: columns to leave empty.
    """
    width = indent + max(map(len, facts)) + 2
    for name, fact in facts.items():
        empty = " " * width
        for line in _wrapped(str(fact), empty, empty):
            print((" " * indent + name).ljust(width) + line[width:])
            name = ""  # noqa: PLW2901 - once


def show_text(text: str, subsequent_indent: str = "") -> None:
    """Prints a text within 80 columns, but for longer words."""
    for line in _wrapped(text, "", subsequent_indent):
        print(line)


def _wrapped(text: str, initial_indent: str, subsequent_indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=initial_indent,
        subsequent_indent=subsequent_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
