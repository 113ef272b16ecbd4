"""The wording of texts for users: errors, log lines, help, settings and documents."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.texts import extracted, texts
from tests.docs.documents import documents
from tests.packaging.tree import ROOT, source_modules

_RIDDLES = (
    r"by the word of",
    r"(?:is|are) wanted\b",
    r"cannot be shown by",
    r"was to come\b",
    r"in the brokers' eyes",
    r"is no (?:setting|regular expression|unencrypted|number|text)\b",
    r"half a pair",
    r"(?:is|was|were|are) not to be had",
    r"takes other arguments",
    r"left to the broker\b",
    r"The cluster behind\.",
    r"Where clients see that",
    r"\bIts name\.",
    r"Below this pace",
    r"opened to nobody",
    r"who came in by then",
    r"(?:skipped|left out) unsaid",
    r"who is held back",
    r"is read anew",
    r"left alone after failures",
    r"be had\b",
    r"\blearnt\b",
    r"\bshall\b",
    r"\bby turns\b",
    r"\b(?:its|their|(?:broker|leader|peer|store)'s) word\b",
    r"\banew\b",
    r"\btells? of\b",
    r"\btold apart\b",
    r"\bmakes no sense\b",
    r"\bunsaid\b",
    r"\basked of\b",
    r"\b[Nn]o broker is asked\b",
    r"\b[Ww]holly\b",
    r"\bbe it\b",
    r"\btold so\b",
    r"\bwhere (?:it|that) is so\b",
    r"\b[Tt]he same goes for\b",
    r"\bgo(?:es)? on (?:by|at)\b",
    r"\b(?:came|come|comes) of (?:it|that|them|this)\b",
    r"\b[Nn]obody\b",
    r"\b[Ss]omebody\b",
    r"\b[Ww]hoever\b",
    r"\bto who\b",
    r"\ball the same\b",
    r"\bin vain\b",
    r"\bfor nothing\b",
    r"\bfor ever\b",
    r"\bnext to nothing\b",
    r"\bso many (?:bytes|offsets|partitions|records|seconds|times)\b",
)
"""Inversions and figures of speech that stood in texts. A user has to guess what they say."""
_RIDDLE = re.compile("|".join(_RIDDLES))

SOURCE = '''
"""A docstring of several words."""
def run(name):
    """Another one here."""
    _log.warning("cannot read %s: " + "try again", name)
    help = Option(help="Names of topics.")
    text = f"the topic {name!r} has no partitions"
    raise ConfigurationError(f"{name} must be set") from None
'''


def test_texts_are_found_with_their_kind() -> None:
    assert list(texts(SOURCE)) == [
        ("log", "cannot read %s: try again"),
        ("help", "Names of topics."),
        ("text", "the topic {name} has no partitions"),
        ("error", "{name} must be set"),
    ]


def test_no_text_of_the_code_has_a_forbidden_phrase() -> None:
    assert [line for line in extracted().splitlines() if _RIDDLE.search(line)] == []


def test_no_comment_or_docstring_of_the_product_has_a_forbidden_phrase() -> None:
    lines = ((path, line) for path in source_modules() for line in (ROOT / path).read_text(encoding="utf-8").splitlines())
    assert [f"{path}: {line.strip()}" for path, line in lines if _RIDDLE.search(line)] == []


def _prose(source: str) -> Iterator[str]:
    """Returns the lines of comments and of string statements, which docstrings are."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from node.value.value.splitlines()


def test_prose_has_comments_and_docstrings_but_no_other_strings() -> None:
    assert list(_prose('"""One.\n\nTwo."""\nx = "three"  # four\n')) == ["# four", "One.", "", "Two."]


@pytest.mark.parametrize("folder", ["faults", "support"])
def test_no_comment_or_docstring_of_the_checkers_has_a_forbidden_phrase(folder: str) -> None:
    lines = (
        (path, line)
        for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
        for line in _prose(path.read_text(encoding="utf-8"))
    )
    assert [f"{path.relative_to(ROOT)}: {line.strip()}" for path, line in lines if _RIDDLE.search(line)] == []


@pytest.mark.parametrize("document", documents(), ids=str)
def test_no_document_has_a_forbidden_phrase(document: Path) -> None:
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if _RIDDLE.search(line)] == []
