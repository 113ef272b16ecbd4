"""docs/troubleshooting.md is generated from the tables of mistakes: ``python -m tests.docs.test_troubleshooting`` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.cli import test_mistakes as cli
from tests.consumer import test_mistakes as consumer
from tests.spark import test_mistakes as spark
from tests.support.mistakes import MISTAKES

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
_STORES = ("refused", "expired", "bucketless", "elsewhere", "untrusted")
PLACES = {
    "shim": "shim:9192",
    "store": "store:9000",
    "broker": "broker:9092",
    "closed": "10.0.0.5:9192",
    "silent": "shim:9192",
    "tier": "file:///tier",
    "directory": "file:///other",
    "empty": "/other",
    "missing": "/etc/ssl/missing.pem",
    **dict.fromkeys(_STORES, "https://s3.example"),
    **{f"{store}_host": "s3.example:443" for store in _STORES},
}
"""What stands on the page for places of the world in which the tests make the mistakes."""

_HEAD = """\
# Troubleshooting

What a user sees at the default log level, and what to do about it. Tests make each of these mistakes and compare the whole
text; this page is made from their tables (`python -m tests.docs.test_troubleshooting`). Hosts, topics and offsets are examples.
What a cause in parentheses means: [failures.md](failures.md). All settings: [configs.md](configs.md).
"""
_CONSUMER = """\
## Consumer

A mistake that can be known at once is a `ConfigurationError` of the constructor. Any other is one WARNING for each cause and
host, then at most one per minute with a count; every record comes through the brokers.
"""
_SPARK = """\
## Spark

A mistake that can be known at once fails the query. Any other is one WARNING of the driver, and the brokers serve the query.
With `remote.onFallback=fail` the query fails with the same reason: "cannot read from the tier: …". What only a task finds is
one WARNING for each cause and host in the executor's log, in the consumer's words.
"""
_CLI = """\
## Command line

On stderr, behind `kafka-remote:`. The exit status is 2 for wrong use, 1 where the data or a peer does not allow it.
"""


def _shown(text: str) -> str:
    return text.format(**PLACES).replace("|", "\\|").replace("\n", "<br>")


def _rows(texts: Mapping[str, str], remedies: Mapping[str, str]) -> Iterator[str]:
    yield "| what is wrong | what you see | what to do |"
    yield "|---|---|---|"
    for mistake, text in texts.items():
        yield f"| {mistake} | {_shown(text)} | {remedies[mistake]} |"


def page() -> str:
    """Returns the expected page."""
    remedies = {name: mistake.remedy for name, mistake in MISTAKES.items()}
    verbs = {name: row.text for name, row in cli.MISTAKES.items()}
    sections = [
        (_CONSUMER, {**consumer.REFUSED, **consumer.WARNED}, remedies),
        (_SPARK, {**spark.REFUSED, **spark.WARNED}, remedies),
        (_CLI, verbs, {name: row.remedy for name, row in cli.MISTAKES.items()}),
    ]
    bodies = ["\n".join([head, *_rows(texts, found)]) for head, texts, found in sections]
    return "\n\n".join([_HEAD.rstrip("\n"), *bodies]) + "\n"


def test_the_page_has_the_texts_that_the_tests_pin() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.docs.test_troubleshooting writes it anew"


def test_each_interface_has_at_least_25_mistakes() -> None:
    for texts in ({**consumer.REFUSED, **consumer.WARNED}, {**spark.REFUSED, **spark.WARNED}, cli.MISTAKES):
        assert len(texts) >= 25


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
