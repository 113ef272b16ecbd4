"""PySpark's classes that ours derive from, or stand-ins where there is no PySpark, so that everything here can be imported.

PySpark is the platform's: on a cluster it is there, elsewhere the extra ``pyspark`` brings it. :func:`require_pyspark` is asked
before a source is registered.

References: PySpark's pyspark.sql.datasource (Python Data Source API, since 4.0).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kafka_remote_client.registry import MissingExtraError

__all__ = ["DataSource", "DataSourceReader", "InputPartition", "require_pyspark"]

_OLDEST = (4, 0)
_ADVICE = 'pip install "kafka-remote-client[pyspark]", or take the platform\'s own'


class _StandInSource:
    """A source by its options."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options


class _StandInPartition:
    """What a task gets."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _classes() -> tuple[Any, Any, Any]:
    if find_spec("pyspark") is None:
        return _StandInSource, object, _StandInPartition
    try:
        module = import_module("pyspark.sql.datasource")
    except ImportError:  # PySpark 3
        return _StandInSource, object, _StandInPartition
    return module.DataSource, module.DataSourceReader, module.InputPartition


if TYPE_CHECKING:

    class DataSource(_StandInSource):
        """A source by its options."""

    class DataSourceReader:
        """Plans and reads a batch."""

    class InputPartition(_StandInPartition):
        """What a task gets."""

else:
    DataSource, DataSourceReader, InputPartition = _classes()


def require_pyspark() -> tuple[int, int]:
    """PySpark's version (major, minor). Raises MissingExtraError when it is missing, too old, or pyarrow is missing."""
    if find_spec("pyspark") is None:
        raise MissingExtraError(f"PySpark is not installed: {_ADVICE}")
    text = str(import_module("pyspark").__version__)
    major, minor = (int(part) for part in text.split(".")[:2])
    if (major, minor) < _OLDEST:
        raise MissingExtraError(f"PySpark {text} has no Python data sources; 4.0 is the oldest that has: {_ADVICE}")
    if find_spec("pyarrow") is None:
        raise MissingExtraError('pyarrow is not installed: pip install "kafka-remote-client[spark]"')
    return major, minor
