"""Settings whose keys are ``PATTERN.FIELD``: a table of fields for each pattern of names. The first that fits decides.

::

    [topic_policies."audit-*"]         topic_policies = {"audit-*.grant": "never",
    grant = "never"               ─►                     "*.url_ttl": 60}
    [topic_policies."*"]
    url_ttl = 60

A pattern has the wildcards of a shell: ``*``, ``?`` and ``[…]``; it fits whole names, and case counts. Fields contain no
dot, so the last dot of a key ends the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from typing import Any, Generic, TypeVar

from kafka_remote_client.errors import ConfigurationError

__all__ = ["PatternTables", "number"]

_T = TypeVar("_T")

Field = Callable[[Any, str], Any]
"""Reads the value of a field, which may be text. Raises ConfigurationError, which names the field by the second argument."""


def number(value: Any, kind: type[int | float], name: str) -> Any:
    """Parses a text as a number; returns other values unchanged. Raises ConfigurationError."""
    try:
        return kind(value) if isinstance(value, str) else value
    except ValueError:
        raise ConfigurationError(f"{name} must be {'a whole number' if kind is int else 'a number'}") from None


class PatternTables(Generic[_T]):
    """The tables of the setting ``name``, each made a value by ``make``; ``otherwise`` is for names that no pattern fits.

    Raises ConfigurationError for a key without a known field, and for a wrong value.
    """

    def __init__(
        self, name: str, given: Mapping[str, Any], fields: Mapping[str, Field], make: Callable[..., _T], otherwise: _T
    ) -> None:
        tables: dict[str, dict[str, Any]] = {}
        for key, value in given.items():
            pattern, _, field = key.rpartition(".")
            if not pattern or field not in fields:
                raise ConfigurationError(f"{name}: {key!r} is not PATTERN.FIELD with a field of {', '.join(fields)}")
            tables.setdefault(pattern, {})[field] = fields[field](value, f"{name}.{key}")
        self._tables = tuple((re.compile(translate(pattern)), make(**table)) for pattern, table in tables.items())
        self._otherwise = otherwise

    def of(self, name: str) -> _T:
        """The value of the first pattern that fits."""
        return next((value for pattern, value in self._tables if pattern.match(name)), self._otherwise)

    @property
    def values(self) -> tuple[_T, ...]:
        """The values of all patterns, in their order."""
        return tuple(value for _, value in self._tables)
