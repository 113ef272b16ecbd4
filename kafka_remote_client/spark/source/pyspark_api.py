"""PySpark's base classes, or stand-ins where there is no PySpark, so that everything here can be imported.

The platform supplies PySpark on a cluster; elsewhere the extra ``pyspark`` installs it. :func:`require_pyspark` is called
before a source is registered, and before segments are read.

References: PySpark's pyspark.sql.datasource (Python Data Source API, since 4.0).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kafka_remote_client.errors import MissingExtraError, missing_extra

__all__ = [
    "KNOWS_FILTERS",
    "OLDEST_WITH_SOURCES",
    "READ_LIMITS",
    "DataSource",
    "DataSourceReader",
    "DataSourceStreamReader",
    "InputPartition",
    "SupportsTriggerAvailableNow",
    "require_pyspark",
]

OLDEST_WITH_SOURCES = (4, 0)
"""The oldest PySpark with Python data sources."""
_OLDEST = (3, 5)
_ADVICE = "pip install 'kafka-remote-client[pyspark]', or use the one of the platform"


class _StandInSource:
    """A source by its options."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options


class _StandInReader:
    """Plans and reads a batch."""


class _StandInStreamReader:
    """Plans and reads micro-batches."""


class _StandInPartition:
    """What a task gets."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _StandInMixin:
    """Marks stream readers that fix their end when a query of Trigger.AvailableNow begins (PySpark 4.2)."""


def _module(name: str) -> Any:
    """The module, ``None`` where this PySpark has none of that name."""
    if find_spec("pyspark") is None:
        return None
    try:
        return import_module(name)
    except ImportError:
        return None


if TYPE_CHECKING:

    class DataSource(_StandInSource):
        """A source by its options."""

    class DataSourceReader(_StandInReader):
        """Plans and reads a batch."""

    class DataSourceStreamReader(_StandInStreamReader):
        """Plans and reads micro-batches."""

    class InputPartition(_StandInPartition):
        """What a task gets."""

    class SupportsTriggerAvailableNow(_StandInMixin):
        """Marks stream readers that can fix their end."""

    READ_LIMITS: Any = None
    KNOWS_FILTERS: bool = False

else:
    _sources = _module("pyspark.sql.datasource")
    DataSource = getattr(_sources, "DataSource", _StandInSource)
    DataSourceReader = getattr(_sources, "DataSourceReader", _StandInReader)
    DataSourceStreamReader = getattr(_sources, "DataSourceStreamReader", _StandInStreamReader)
    InputPartition = getattr(_sources, "InputPartition", _StandInPartition)
    KNOWS_FILTERS = hasattr(DataSourceReader, "pushFilters")
    """Whether this PySpark hands filters to Python sources, which begins with 4.1."""
    READ_LIMITS = _module("pyspark.sql.streaming.datasource")
    """PySpark's ReadLimit classes; ``None`` before PySpark 4.2, which knows no limits for Python sources."""
    SupportsTriggerAvailableNow = getattr(READ_LIMITS, "SupportsTriggerAvailableNow", _StandInMixin)


def require_pyspark(oldest: tuple[int, int] = _OLDEST) -> tuple[int, int]:
    """PySpark's version (major, minor). Raises MissingExtraError when it is missing, older than ``oldest``, or pyarrow is
    missing.
    """
    if find_spec("pyspark") is None:
        raise MissingExtraError(f"PySpark is not installed: {_ADVICE}")
    text = str(import_module("pyspark").__version__)
    major, minor = (int(part) for part in text.split(".")[:2])
    if (major, minor) < _OLDEST:
        raise MissingExtraError(f"PySpark {text} is not supported; 3.5 is the oldest supported version: {_ADVICE}")
    if (major, minor) < oldest:
        raise MissingExtraError(
            f"PySpark {text} has no Python data sources; 4.0 is the oldest version with them. Use read_segments, or: {_ADVICE}"
        )
    if find_spec("pyarrow") is None:
        raise missing_extra("the Spark source", "pyarrow", "spark")
    return major, minor
