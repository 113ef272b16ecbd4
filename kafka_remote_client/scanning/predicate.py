"""Predicates: which records a scan returns, over columns and headers, as a frozen value. Pure.

::

    column("offset") >= 100                                 and ==, !=, <, <=, >
    column("key").is_in([b"a", b"b"])
    column("value").is_null()
    header("trace-id") == b"4711"                           any header of that name has that value
    header("trace-id").exists()
    (column("partition") == 0) & ~header("test").exists()   &, | and ~, never "and", "or" and "not"

Theory of operation. A comparison with null is null, as in SQL. A scan returns the records for which the predicate is true.
Times are microseconds here, as in Arrow; records have whole milliseconds. :mod:`~kafka_remote_client.scanning.pruning`
evaluates a predicate for a whole range of offsets, :mod:`~kafka_remote_client.scanning.arrow_filter` evaluates it for records.

References: docs/tables.md; SQL's three-valued logic.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import NoReturn, TypeAlias

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError

__all__ = [
    "And",
    "Column",
    "Comparison",
    "Header",
    "HeaderIs",
    "IsIn",
    "IsNull",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "Scalar",
    "column",
    "columns_of",
    "header",
    "microseconds",
]

Scalar: TypeAlias = int | str | bytes
"""The value of a comparison: a number (for a timestamp, microseconds), a text, or bytes."""

_INTEGERS = frozenset({"partition", "offset", "timestampType"})
_BYTES = frozenset({"key", "value"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64 = range(-(2**63), 2**63)


class Operator(Enum):
    """A comparison operator. The value is its notation."""

    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="

    @property
    def opposite(self) -> Operator:
        """The operator that is true where this one is false."""
        return _OPPOSITES[self]


_OPPOSITES = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER_EQUAL,
    Operator.GREATER_EQUAL: Operator.LESS,
    Operator.GREATER: Operator.LESS_EQUAL,
    Operator.LESS_EQUAL: Operator.GREATER,
}


class Predicate:
    """The base of all predicates, which ``&``, ``|`` and ``~`` combine."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return And((self, _predicate(other)))

    def __or__(self, other: Predicate) -> Predicate:
        return Or((self, _predicate(other)))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError("a predicate is neither true nor false; combine predicates with &, | and ~ in parentheses")


@attrs.frozen
class Comparison(Predicate):
    """Compares ``column`` with ``value``, which has the column's kind; see :class:`Column`."""

    column: str
    operator: Operator
    value: Scalar


@attrs.frozen
class IsIn(Predicate):
    """Whether ``column`` is one of ``values``. Without values it is false, even for null, as in SQL."""

    column: str
    values: tuple[Scalar, ...]


@attrs.frozen
class IsNull(Predicate):
    """Whether ``column`` is null; never null itself."""

    column: str


@attrs.frozen
class HeaderIs(Predicate):
    """Whether any header of that name has one of ``values``; ``None``: whether there is one. Never null."""

    name: str
    values: tuple[bytes, ...] | None


@attrs.frozen
class And(Predicate):
    """Whether all of them are true."""

    parts: tuple[Predicate, ...]


@attrs.frozen
class Or(Predicate):
    """Whether one of them is true."""

    parts: tuple[Predicate, ...]


@attrs.frozen
class Not(Predicate):
    """Whether it is false; null where it is null."""

    part: Predicate


@attrs.frozen(eq=False)
class Column:
    """A column of a scan in a predicate. Comparisons raise ConfigurationError for a value of the wrong kind.

    ``offset``, ``partition`` and ``timestampType`` are compared with whole numbers; ``timestamp`` with what
    :func:`microseconds` takes; ``topic`` with text; ``key`` and ``value`` with bytes, or with text as UTF-8.
    """

    name: str

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override] # a predicate, as in every library of columns
        return self.compared(Operator.EQUAL, other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override] # as above
        return self.compared(Operator.NOT_EQUAL, other)

    def __lt__(self, other: object) -> Predicate:
        return self.compared(Operator.LESS, other)

    def __le__(self, other: object) -> Predicate:
        return self.compared(Operator.LESS_EQUAL, other)

    def __gt__(self, other: object) -> Predicate:
        return self.compared(Operator.GREATER, other)

    def __ge__(self, other: object) -> Predicate:
        return self.compared(Operator.GREATER_EQUAL, other)

    __hash__ = None  # type: ignore[assignment] # what has no truth of equality is no key

    def is_in(self, values: Iterable[object]) -> Predicate:
        """Whether the column is one of ``values``."""
        return IsIn(self.name, tuple(_scalar(self.name, value) for value in _several(values)))

    def is_null(self) -> Predicate:
        """Whether the value is null."""
        return IsNull(self.name)

    def compared(self, how: Operator, other: object) -> Predicate:
        """Returns the comparison with the given operator."""
        return Comparison(self.name, how, _scalar(self.name, other))


@attrs.frozen(eq=False)
class Header:
    """The headers of one name in a predicate."""

    name: str

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override] # a predicate, as of a column
        return HeaderIs(self.name, (_bytes(f"header {self.name!r}", other),))

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override] # as above
        return Not(self == other)

    __hash__ = None  # type: ignore[assignment] # as of a column

    def is_in(self, values: Iterable[object]) -> Predicate:
        """Whether any header of the name has one of ``values``."""
        return HeaderIs(self.name, tuple(_bytes(f"header {self.name!r}", value) for value in _several(values)))

    def exists(self) -> Predicate:
        """Whether the record has a header of the name."""
        return HeaderIs(self.name, None)


def column(name: str) -> Column:
    """Returns the column of that name for a comparison. Raises ConfigurationError for a name that cannot be compared."""
    if name == "headers":
        raise ConfigurationError("headers are compared by name: header('trace-id') == b'4711'")
    if name not in _INTEGERS | _BYTES | {"topic", "timestamp"}:
        raise ConfigurationError(f"unknown column: {name!r}")
    return Column(name)


def header(name: str) -> Header:
    """Returns the headers of that name for a comparison."""
    if not isinstance(name, str):
        raise ConfigurationError(f"the name of a header must be text, not {name!r}")
    return Header(name)


def microseconds(value: object, name: str) -> int:
    """Returns a time as microseconds since the Unix epoch.

    Milliseconds as a whole number, a ``datetime`` with a time zone, a ``date``, or either in ISO 8601; a text without a time
    zone is UTC. Raises ConfigurationError for anything else, for a ``datetime`` without a time zone, and where it does not
    fit 64 bits.
    """
    if isinstance(value, str):
        value = _parsed(value, name)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigurationError(f"{name} has no time zone: {value!r}; add tzinfo=UTC")
        return (value - _EPOCH) // _MICROSECOND
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type] # what it raises is caught
    except TypeError:
        number = None
    if number is None or number * 1000 not in _INT64:
        raise ConfigurationError(f"{name} must be milliseconds, a datetime, or a time in ISO 8601, not {value!r}")
    return number * 1000


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The columns that the predicate needs."""
    return frozenset(_columns(predicate))


def _columns(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _columns(part)
        case Not(part):
            yield from _columns(part)
        case HeaderIs():
            yield "headers"
        case Comparison(name) | IsIn(name) | IsNull(name):
            yield name
        case _:
            raise TypeError(f"unknown predicate: {predicate!r}")


def _predicate(other: object) -> Predicate:
    if not isinstance(other, Predicate):
        raise ConfigurationError(f"not a predicate: {other!r}; write comparisons in parentheses")
    return other


def _parsed(text: str, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{name} is not a time in ISO 8601: {text!r}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _several(values: Iterable[object]) -> tuple[object, ...]:
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise ConfigurationError(f"is_in takes a list of values, not {values!r}")
    return tuple(values)


def _scalar(name: str, value: object) -> Scalar:
    if value is None:
        raise ConfigurationError(f"a comparison of {name} with None is never true; use column({name!r}).is_null()")
    if name == "timestamp":
        return microseconds(value, name)
    if name in _BYTES:
        return _bytes(name, value)
    if name == "topic":
        if not isinstance(value, str):
            raise ConfigurationError(f"topic is compared with text, not with {value!r}")
        return value
    return arguments.whole(value, name, _INT64.start, _INT64.stop - 1)  # type: ignore[arg-type] # checked there


def _bytes(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ConfigurationError(f"{name} is compared with bytes or text, not with {value!r}")
    return bytes(value)
