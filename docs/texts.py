"""All texts in the product's code that a user may see: errors, log lines, help, descriptions of settings and metrics.

``docs/generate.py`` writes them to ``docs/texts.txt``, so that a reviewer sees each change of a text. A text is a
string of at least two words that is no docstring and no layout of a message. ``{…}`` stands for what is put in at run time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["extracted", "texts"]

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("kafka_remote_client", "fetchers/kafka_remote_fetchers")
_WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? +[\w'`\"{(]")
_LAYOUT = re.compile(r"\bint(?:8|16|32|64)\b|^\w+ (?:bool|bytes|string)$|\b(?:bool|bytes|string)\?? \|")
_SETTINGS = {"Setting", "Option", "_text", "_switch", "_number"}
_LOGGED = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def extracted() -> str:
    """The page: modules in order, each with its texts in the order of the code."""
    lines = [
        "Texts that a user may see, by module. docs/generate.py writes this file; tests/docs/test_texts.py checks its words.",
        "",
    ]
    for root in SOURCES:
        for path in sorted((ROOT / root).rglob("*.py")):
            found = list(texts(path.read_text(encoding="utf-8")))
            if found:
                name = path.relative_to(ROOT).as_posix().removeprefix("fetchers/")
                lines += [f"## {name}", *(f"{kind}: {text}" for kind, text in found), ""]
    return "\n".join(lines)


def texts(source: str) -> Iterator[tuple[str, str]]:
    """The kind and the text of each, in the order of the code."""
    yield from _below(ast.parse(source), "text")


def _below(node: ast.AST, kind: str) -> Iterator[tuple[str, str]]:
    """The texts below a node. ``kind``: of a text that nothing below tells more about."""
    for child in ast.iter_child_nodes(node):
        if _is_docstring(node, child):
            continue
        text = _text_of(child)
        if text is None:
            yield from _below(child, _kind(child, kind))
        elif _WORDS.search(text) and not _LAYOUT.search(text):
            yield kind, " ".join(text.split())


def _kind(node: ast.AST, outer: str) -> str:
    if isinstance(node, ast.Raise):
        return "error"
    if isinstance(node, ast.keyword) and node.arg in {"help", "epilog"}:
        return "help"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOGGED:
        return "log"
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name.endswith(("Error", "Exception")):
            return "error"
        if name in _SETTINGS:
            return "setting"
    return outer


def _is_docstring(parent: ast.AST, node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and hasattr(parent, "body")


def _text_of(node: ast.AST) -> str | None:
    """The text of a string, with ``{…}`` for what is put in; ``None`` for what is no string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                _text_of(part) or f"{{{ast.unparse(part.value)}}}"
                if isinstance(part, ast.FormattedValue)
                else _text_of(part) or ""
                for part in parts
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _text_of(left), _text_of(right)
            return None if first is None and second is None else (first or "{…}") + (second or "{…}")
    return None
