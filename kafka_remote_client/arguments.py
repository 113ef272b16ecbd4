"""Checks of what callers pass in: enums, whole numbers, offsets, durations. One place, so that all of the API refuses alike.

A wrong value must not pass for a right one: an unknown isolation level is not read_uncommitted, ``True`` is not the number 1,
and a time-out of NaN does not wait forever. Every refusal names the argument, shows what came, and says what is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import Enum
from math import isfinite
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from kafka_remote_client.errors import ConfigurationError

if TYPE_CHECKING:
    from kafka_remote_client.model import IsolationLevel

__all__ = [
    "MAX_OFFSET",
    "boolean",
    "bounds",
    "closest",
    "duration",
    "finite",
    "isolation_level",
    "java_boolean",
    "member",
    "offset",
    "patience",
    "switched_on",
    "true_or_false",
    "whole",
]

MAX_OFFSET = 2**63 - 1
"""The highest offset of a log. An offset is an int64 in Kafka's protocol and files."""

_MAX_SECONDS = 1e9
"""What waits in Python still take: 30 years. Larger values overflow inside of them."""

_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

_E = TypeVar("_E", bound=Enum)


def boolean(value: object) -> bool | None:
    """A bool, or one of librdkafka's names for it in any case: true, t, 1, false, f, 0. ``None`` for anything else.

    References: librdkafka, rd_kafka_anyconf_set_prop.
    """
    return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())


def java_boolean(text: str) -> bool | None:
    """``true`` or ``false`` in any case, with blanks around it, as Java's clients, topic configs and Spark's options have it.

    ``None`` for anything else. Stricter than :func:`boolean`: what Spark's own source refuses is not accepted here.

    References: Kafka, ConfigDef.parseType.
    """
    return {"true": True, "false": False}.get(text.strip().lower())


def true_or_false(value: object, name: str, parse: Callable[[Any], bool | None] = boolean) -> bool:
    """``value`` by the rule of ``parse``. Raises ConfigurationError, which does not show the value."""
    parsed = parse(value)
    if parsed is None:
        raise ConfigurationError(f"{name} must be true or false")
    return parsed


def isolation_level(value: IsolationLevel | str, name: str = "isolation_level") -> IsolationLevel:
    """The level that an :class:`IsolationLevel` or Kafka's name for it, in any case, stands for.

    Raises ConfigurationError for anything else, numbers included.
    """
    from kafka_remote_client.model import IsolationLevel  # noqa: PLC0415 - all callers have it; the settings need none of it

    if isinstance(value, IsolationLevel):
        return value
    levels = {level.name.lower(): level for level in IsolationLevel}
    found = levels.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise ConfigurationError(f"{name} must be an IsolationLevel, 'read_committed' or 'read_uncommitted', not {value!r}")
    return found


def member(kind: type[_E], value: _E, name: str) -> _E:
    """``value``, which has to be of the enum ``kind``. Raises ConfigurationError."""
    if not isinstance(value, kind):
        members = ", ".join(str(one) for one in kind)
        raise ConfigurationError(f"{name} must be one of {members}, not {value!r}")
    return value


def whole(value: SupportsIndex, name: str, minimum: int, maximum: int | None = None) -> int:
    """``value`` as an int within its bounds, both inclusive. Raises ConfigurationError, also for bool and float."""
    number = None
    if not isinstance(value, bool):
        try:
            number = index(value)
        except TypeError:
            number = None
    if number is None or number < minimum or (maximum is not None and number > maximum):
        most = "" if maximum is None else f" and at most {maximum}"
        raise ConfigurationError(f"{name} must be a whole number, at least {minimum}{most}, not {value!r}")
    return number


def offset(value: SupportsIndex, name: str) -> int:
    """An offset of a log: whole, 64 bits, not negative. Raises ConfigurationError."""
    return whole(value, name, 0, MAX_OFFSET)


def bounds(start: SupportsIndex | None, end: SupportsIndex | None, *, lowest: int = 0) -> tuple[int | None, int | None]:
    """``start_offset`` and ``end_offset`` of a read; ``None`` = not given. They may be equal, which reads nothing.

    ``lowest``: the lowest start. Raises ConfigurationError for what is no offset, and for an end below the start.
    """
    first = None if start is None else whole(start, "start_offset", lowest, MAX_OFFSET)
    stop = None if end is None else offset(end, "end_offset")
    if first is not None and stop is not None and stop < first:
        raise ConfigurationError(f"end_offset {stop} is below start_offset {first}")
    return first, stop


def finite(value: float, name: str, minimum: float, maximum: float) -> float:
    """``value`` as a number within its bounds, both inclusive. Raises ConfigurationError, also for bool, NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not minimum <= value <= maximum:
        raise ConfigurationError(f"{name} must be a number between {minimum:g} and {maximum:g}, not {value!r}")
    return value


def duration(value: float, name: str) -> float:
    """Seconds that may be 0. Raises ConfigurationError for negative ones, bool, NaN and infinity."""
    return finite(value, name, 0.0, _MAX_SECONDS)


def patience(value: float | None, name: str = "timeout") -> float | None:
    """Seconds to wait at most; ``None`` = forever. Raises ConfigurationError as :func:`duration`."""
    return None if value is None else duration(value, name)


def switched_on(variable: str) -> bool:
    """Whether the environment leaves something on that it can turn off: with ``0``, ``f`` or ``false``."""
    return boolean(os.environ.get(variable, "")) is not False


def closest(name: str, known: Iterable[str], ratio: float = 0.6) -> str | None:
    """Returns the known name that a misspelled one may mean; ``None`` if none is close.

    ``ratio``: of difflib's SequenceMatcher, from 0 to 1; a higher one for names that share a prefix.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=ratio)), None)
