"""Finds runs of code lines that two places of a tree share, character by character.

A line counts as written, without its indentation and comment. Some lines are skipped, because two places may share them without
sharing logic:

- imports, docstrings and other bare strings, ``__all__``;
- signatures and decorators: each class declares the interface it has;
- fields of a class without a value, which are the columns of a table;
- lines of only brackets, commas, ``else:``, ``try:``, ``finally:``, ``pass``, ``return``, ``return self`` and ``...``.

Skipped lines do not end a run, but a run never leaves the function, or the class or module body, in which it begins.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

__all__ = ["Place", "repeated_runs"]

_THIN = re.compile(r"[\[\](){},:. ]*|else:|try:|finally:|pass|return|return self")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Place(NamedTuple):
    """The first and the last line of a run, both inclusive."""

    path: Path
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.path}:{self.first}-{self.last}"


class _Line(NamedTuple):
    number: int
    text: str


def repeated_runs(sources: Mapping[Path, str], length: int) -> list[tuple[Place, Place]]:
    """Returns pairs of places that share ``length`` or more code lines in a row; each pair is as long as possible."""
    blocks = [(path, block) for path, text in sources.items() for block in _blocks(text) if len(block) >= length]
    starts: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, (_, block) in enumerate(blocks):
        for at in range(len(block) - length + 1):
            starts[tuple(line.text for line in block[at : at + length])].append((number, at))
    shared = {pair for places in starts.values() for pair in combinations(places, 2) if not _overlap(pair, length)}
    found = []
    for (a, at), (b, bt) in sorted(shared):
        if ((a, at - 1), (b, bt - 1)) in shared:
            continue  # inside a longer run
        more = 0
        while ((a, at + more + 1), (b, bt + more + 1)) in shared:
            more += 1
        found.append((_place(*blocks[a], at, length + more), _place(*blocks[b], bt, length + more)))
    return found


def _overlap(pair: tuple[tuple[int, int], tuple[int, int]], length: int) -> bool:
    (a, at), (b, bt) = pair
    return a == b and abs(at - bt) < length


def _place(path: Path, block: list[_Line], at: int, length: int) -> Place:
    return Place(path, block[at].number, block[at + length - 1].number)


def _blocks(text: str) -> Iterator[list[_Line]]:
    """Returns the code lines of each function, and of each body outside functions."""
    tree = ast.parse(text)
    lines = text.splitlines()
    passed_over: set[int] = set()
    owner = dict.fromkeys(range(1, len(lines) + 1), 0)
    for number, node in enumerate(ast.walk(tree), 1):  # breadth first: inner blocks overwrite outer ones
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            owner.update(dict.fromkeys(range(first, _end(node) + 1), number))
            passed_over.update(range(first, node.body[0].lineno))
        elif _is_passed_over(node):
            passed_over.update(range(node.lineno, _end(node) + 1))
    for node in ast.walk(tree):  # a signature of one line
        if isinstance(node, _FUNCTIONS) and node.body[0].lineno == node.lineno:
            passed_over.add(node.lineno)
    blocks: dict[int, list[_Line]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        code = re.sub(r"\s+#.*", "", line).strip()
        if number not in passed_over and not code.startswith("#") and not _THIN.fullmatch(code):
            blocks[owner[number]].append(_Line(number, code))
    yield from blocks.values()


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _is_passed_over(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return isinstance(node, ast.Assign) and _names(node.targets) == ["__all__"]


def _names(targets: Iterable[ast.expr]) -> list[str]:
    return [target.id for target in targets if isinstance(target, ast.Name)]
