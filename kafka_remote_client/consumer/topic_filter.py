"""Which topics may be read directly (``fetch.remote.topics``). Pure."""

from __future__ import annotations

import re

from kafka_remote_client.errors import ConfigurationError

__all__ = ["TopicFilter"]


class TopicFilter:
    """Names and regular expressions, separated by commas. As in librdkafka, an entry that begins with ``^`` is an expression.

    An expression must match only the beginning of the name, and cannot contain a comma. ``None`` or "": every topic. Raises
    ConfigurationError for an invalid expression.
    """

    def __init__(self, text: str | None) -> None:
        entries = [entry.strip() for entry in (text or "").split(",") if entry.strip()]
        self._names = frozenset(entry for entry in entries if not entry.startswith("^"))
        self._expressions = [_expression(entry) for entry in entries if entry.startswith("^")]
        self._every = not entries

    def allows(self, topic: str) -> bool:
        """Whether records of ``topic`` may come from the store."""
        return self._every or topic in self._names or any(expression.match(topic) for expression in self._expressions)


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"fetch.remote.topics: {text!r} is not a valid regular expression: {error}") from None
